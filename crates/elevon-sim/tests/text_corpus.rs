//! The fuzzer's corpora of schedulers, devices and faults through its own checks: whole, cut short, and with bytes changed.

#[path = "../../../fuzz/checks/device.rs"]
mod device;
#[path = "../../../fuzz/checks/fault.rs"]
mod fault;
#[path = "../../../fuzz/checks/scheduler.rs"]
mod scheduler;

fn each(corpus: &str, check: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{corpus}", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is committed") {
        let mut data = std::fs::read(entry.expect("a readable directory").path()).expect("a readable file");
        check(&data);
        for at in 0..data.len() {
            check(&data[..at]);
            for other in *b"0-,:=9x\n" {
                let byte = std::mem::replace(&mut data[at], other);
                check(&data);
                data[at] = byte;
            }
        }
        count += 1;
    }
    assert!(count >= 10, "{count} files");
}

#[test]
fn the_corpus_of_schedulers_holds() {
    each("scheduler", scheduler::scheduler);
}

#[test]
fn the_corpus_of_devices_holds() {
    each("device", device::device);
}

#[test]
fn the_corpus_of_faults_holds() {
    each("fault", fault::fault);
}
