//! Runs a corpus of the fuzzer as a test: every file goes through its check unchanged, truncated at
//! either end, and with changed bytes.

/// Checks the files of a corpus, which must have at least `least` files. At every `step`th byte of
/// a file, the part before it, the part after it, and the file with each of `others` at that byte
/// are checked.
pub(crate) fn each(corpus: &str, least: usize, step: usize, others: &[u8], check: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{corpus}", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is committed") {
        let mut data =
            std::fs::read(entry.expect("a readable directory").path()).expect("a readable file");
        check(&data);
        for at in (0..data.len()).step_by(step) {
            check(&data[..at]);
            check(&data[at..]);
            for &other in others {
                let byte = std::mem::replace(&mut data[at], other);
                check(&data);
                data[at] = byte;
            }
        }
        count += 1;
    }
    assert!(count >= least, "{count} files");
}
