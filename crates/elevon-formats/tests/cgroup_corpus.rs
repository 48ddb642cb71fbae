//! Runs the fuzzer's corpora of control files, files of tenants and plans of sweeps through the
//! fuzzer's checks.

#[path = "../../../fuzz/checks/cgroup.rs"]
mod cgroup;
#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/sweep.rs"]
mod sweep;
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

#[test]
fn the_corpus_of_plans_of_sweeps_holds() {
    corpus::each("sweep", 3, 1, b"0 =[\"\n", sweep::sweep);
}
