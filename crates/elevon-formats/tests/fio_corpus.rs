//! Runs the fuzzer's corpus of job files through the fuzzer's check.

#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/job.rs"]
mod job;

#[test]
fn the_corpus_holds() {
    corpus::each("job", 10, 1, b"", job::job);
}
