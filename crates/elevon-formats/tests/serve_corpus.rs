//! Runs the fuzzer's corpus of server configurations through the fuzzer's check.

#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/serve.rs"]
mod serve;

#[test]
fn the_corpus_holds() {
    corpus::each("serve", 4, 1, b"0 =[\"\n", serve::serve);
}
