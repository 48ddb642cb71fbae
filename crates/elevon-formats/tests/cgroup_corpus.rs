//! Runs the fuzzer's corpora of control files and files of tenants through the fuzzer's checks.

#[path = "../../../fuzz/checks/cgroup.rs"]
mod cgroup;
#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/tenants.rs"]
mod tenants;

#[test]
fn the_corpus_of_control_files_holds() {
    corpus::each("cgroup", 6, 1, b"0 :=M\"\n", cgroup::cgroup);
}

#[test]
fn the_corpus_of_files_of_tenants_holds() {
    corpus::each("tenants", 6, 1, b"0 :=M\"\n", tenants::tenants);
}
