//! Runs the fuzzer's corpora of texts that users write through the fuzzer's checks.

use crate::checks::{cgroup, corpus, job, serve, sweep, tenants};

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

#[test]
fn the_corpus_of_job_files_holds() {
    corpus::each("job", 10, 1, b"", job::job);
}

#[test]
fn the_corpus_of_server_configurations_holds() {
    corpus::each("serve", 4, 1, b"0 =[\"\n", serve::serve);
}
