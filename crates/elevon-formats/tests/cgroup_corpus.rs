//! The fuzzer's corpora of control files and files of tenants through its own checks: whole, cut short, and with bytes changed.

#[path = "../../../fuzz/checks/cgroup.rs"]
mod cgroup;
#[path = "../../../fuzz/checks/tenants.rs"]
mod tenants;

fn each(corpus: &str, check: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{corpus}", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is committed") {
        let mut data = std::fs::read(entry.expect("a readable directory").path()).expect("a readable file");
        check(&data);
        for at in 0..data.len() {
            check(&data[..at]);
            for other in *b"0 :=M\"\n" {
                let byte = std::mem::replace(&mut data[at], other);
                check(&data);
                data[at] = byte;
            }
        }
        count += 1;
    }
    assert!(count >= 6, "{count} files");
}

#[test]
fn the_corpus_of_control_files_holds() {
    each("cgroup", cgroup::cgroup);
}

#[test]
fn the_corpus_of_files_of_tenants_holds() {
    each("tenants", tenants::tenants);
}
