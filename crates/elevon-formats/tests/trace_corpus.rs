//! The fuzzer's corpora of traces through its own checks.

#[path = "../../../fuzz/checks/blktrace.rs"]
mod blktrace;
#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/ftrace.rs"]
mod ftrace;

#[test]
fn the_corpus_of_texts_holds() {
    corpus::each("ftrace", 3, 7, &[0xff], ftrace::ftrace);
}

#[test]
fn the_corpus_of_records_holds() {
    corpus::each("blktrace", 3, 7, &[0xff], blktrace::blktrace);
}
