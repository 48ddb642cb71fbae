//! Runs the fuzzer's corpora of traces through their checks.

#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/recorded.rs"]
mod recorded;
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

#[test]
fn the_corpus_of_rows_holds() {
    corpus::each("rows", 8, 23, &[0xff, b'9'], trace::rows);
}

#[test]
fn the_corpus_of_oracle_general_holds() {
    corpus::each("oracle", 1, 3, &[0xff], trace::oracle);
}

#[test]
fn the_corpus_of_pages_holds() {
    corpus::each("page", 2, 31, &[0xff, b'<'], trace::page);
}

#[test]
fn the_corpus_of_mails_holds() {
    corpus::each("mail", 3, 7, &[0xff, b'>'], trace::mail);
}

#[test]
fn the_corpus_of_settings_beside_traces_holds() {
    corpus::each("recorded", 3, 1, b":\n[/\x01", recorded::recorded);
}
