//! The fuzzer's corpus of traces through its own checks: whole, cut short, and with every byte changed.

#[path = "../../../fuzz/checks/blktrace.rs"]
mod blktrace;
#[path = "../../../fuzz/checks/ftrace.rs"]
mod ftrace;

fn each(corpus: &str, check: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{corpus}", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is committed") {
        let mut data = std::fs::read(entry.expect("a readable directory").path()).expect("a readable file");
        check(&data);
        for at in (0..data.len()).step_by(7) {
            check(&data[..at]);
            let byte = std::mem::replace(&mut data[at], 0xff);
            check(&data);
            data[at] = byte;
        }
        count += 1;
    }
    assert!(count >= 3, "{count} files");
}

#[test]
fn the_corpus_of_texts_holds() {
    each("ftrace", ftrace::ftrace);
}

#[test]
fn the_corpus_of_records_holds() {
    each("blktrace", blktrace::blktrace);
}
