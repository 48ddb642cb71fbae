//! Runs the fuzzer's corpus of settings through the fuzzer's check.

#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/setting.rs"]
mod setting;

#[test]
fn the_corpus_of_settings_holds() {
    corpus::each("setting", 9, 1, b"09=\n", setting::setting);
}
