//! Tests the texts that users write: jobs as fio reads them, files of tenants, control files, plans
//! of sweeps and configurations of servers.

/// Checks that the fuzz targets share.
#[path = "../../../../fuzz/checks"]
mod checks {
    pub(crate) mod cgroup;
    pub(crate) mod corpus;
    pub(crate) mod job;
    pub(crate) mod serve;
    pub(crate) mod sweep;
    pub(crate) mod tenants;
}
mod cgroup_properties;
mod common;
mod corpora;
mod fio_differential;
mod fio_errors;
mod fio_jobs;
mod fio_manual;
mod fio_options;
mod fio_properties;
mod fio_values;
mod tenants_manual;
