//! Runs the fuzzer's corpora of traces through their checks.

#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/trace.rs"]
mod trace;

#[test]
fn the_corpus_of_tracepoints_holds() {
    corpus::each("ftrace", 3, 7, &[0xff], trace::ftrace);
}

#[test]
fn the_corpus_of_blktrace_holds() {
    corpus::each("blktrace", 3, 7, &[0xff], trace::blktrace);
}

#[test]
fn the_corpus_of_perfetto_holds() {
    corpus::each("perfetto", 3, 11, &[0xff], trace::perfetto);
}

#[test]
fn the_corpus_of_blkparse_holds() {
    corpus::each("blkparse", 1, 7, &[0xff], trace::blkparse);
}

#[test]
fn the_corpus_of_fio_logs_holds() {
    corpus::each("iolog", 2, 3, &[0xff, b'9'], trace::iolog);
}

#[test]
fn the_corpus_of_csv_holds() {
    corpus::each("csv", 6, 3, &[0xff, b'9'], trace::csv);
}
