//! The corpus of the fuzzer, and each of its files cut short at every line, through the fuzzer's own check.

#[path = "../../../fuzz/checks/job.rs"]
mod check;

#[test]
fn the_corpus_holds() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/job");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus is committed") {
        let data = std::fs::read(entry.expect("a readable directory").path()).expect("a readable file");
        check::job(&data);
        for (at, _) in data.iter().enumerate().filter(|(_, byte)| **byte == b'\n' || **byte == b'=') {
            check::job(&data[..at]);
            check::job(&data[at..]);
        }
        count += 1;
    }
    assert!(count >= 10, "{count} files");
}
