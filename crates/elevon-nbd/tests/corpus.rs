//! Runs the fuzzer's corpus of clients through the fuzzer's check.

#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/nbd.rs"]
mod nbd;

#[test]
fn the_corpus_of_clients_holds() {
    corpus::each("nbd", 4, 1, b"\0\x01\x05\xff", nbd::nbd);
}
