//! Runs the fuzzer's corpora of schedulers, devices, faults and memory through their checks.

#[path = "../../../../fuzz/checks/buffers.rs"]
mod buffers;
#[path = "../../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/device.rs"]
mod device;
#[path = "../../../../fuzz/checks/fault.rs"]
mod fault;
#[path = "../../../../fuzz/checks/scheduler.rs"]
mod scheduler;

const OTHERS: &[u8] = b"0-,:=9x\n";

#[test]
fn the_corpus_of_schedulers_holds() {
    corpus::each("scheduler", 10, 1, OTHERS, scheduler::scheduler);
}

#[test]
fn the_corpus_of_devices_holds() {
    corpus::each("device", 10, 1, OTHERS, device::device);
}

#[test]
fn the_corpus_of_faults_holds() {
    corpus::each("fault", 10, 1, OTHERS, fault::fault);
}

#[test]
fn the_corpus_of_models_of_memory_holds() {
    corpus::each("buffers", 10, 1, b"0,:=x\n", buffers::buffers);
}
