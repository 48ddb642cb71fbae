//! Runs the fuzzer's corpus of traces through the analysis, the workload of a replay and the fit of
//! a device, and random bytes too.

#[path = "../../../../fuzz/checks/analysis.rs"]
mod analysis;
#[path = "../../../../fuzz/checks/corpus.rs"]
mod corpus;

use elevon_testkit::Rng;

#[test]
fn the_corpus_of_the_analysis_holds() {
    corpus::each("analysis", 4, 97, &[0xff], analysis::analysis);
}

/// Random bytes are random events, of which some are at the ends of their ranges.
#[test]
fn random_events_are_analysed() {
    let mut random = Rng(12);
    for round in 0..400 {
        let events = 1 + random.below(if round % 8 == 0 { 600 } else { 60 });
        let bytes: Vec<u8> = (0..events * 6).map(|_| random.below(256) as u8).collect();
        analysis::analysis(&bytes);
    }
}
