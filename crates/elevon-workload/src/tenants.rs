//! Tenants of a job file: the cgroups that its jobs name, as a tree.

use elevon_core::units::TenantId;
use elevon_formats::fio::spec::JobSpec;

/// Weight of a cgroup for which no job gives one, as in Linux.
pub const DEFAULT_WEIGHT: u32 = 100;

/// A cgroup that a job names, or one on the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Path below the root, without slashes at its ends.
    pub path: String,
    /// The cgroup that it lies in; 0 for the root.
    pub parent: TenantId,
    /// Weight in its parent, 1 to 1000: `cgroup_weight` of the last job that gives one.
    pub weight: u32,
}

/// Every tenant of the jobs; the tenant at index n is [`TenantId`] n + 1, and a parent comes before its children. O(jobs · tenants).
pub fn tenants(specs: &[JobSpec]) -> Vec<Tenant> {
    let mut all: Vec<Tenant> = Vec::new();
    for spec in specs {
        let mut parent = TenantId(0);
        let mut path = String::new();
        for name in names(spec) {
            path += if path.is_empty() { "" } else { "/" };
            path += name;
            parent = match find(&all, &path) {
                TenantId(0) => {
                    all.push(Tenant { path: path.clone(), parent, weight: DEFAULT_WEIGHT });
                    TenantId(all.len() as u32)
                }
                known => known,
            };
        }
        if let (Some(at), Some(weight)) = (parent.index().checked_sub(1), spec.cgroup_weight) {
            all[at].weight = weight;
        }
    }
    all
}

/// The tenant of a job; 0 for one without a cgroup.
pub fn tenant_of(tenants: &[Tenant], spec: &JobSpec) -> TenantId {
    find(tenants, &names(spec).collect::<Vec<_>>().join("/"))
}

fn names(spec: &JobSpec) -> impl Iterator<Item = &str> {
    spec.cgroup.as_deref().unwrap_or_default().split('/').filter(|name| !name.is_empty())
}

fn find(tenants: &[Tenant], path: &str) -> TenantId {
    TenantId(tenants.iter().position(|tenant| tenant.path == path).map_or(0, |at| at as u32 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_become_a_tree_with_the_weights_that_jobs_give() {
        let job = |cgroup: Option<&str>, weight| JobSpec {
            cgroup: cgroup.map(str::to_owned),
            cgroup_weight: weight,
            ..JobSpec::default_job("j")
        };
        let jobs = [
            job(None, Some(7)),
            job(Some("/a/b"), Some(300)),
            job(Some("c"), None),
            job(Some("a"), Some(50)),
            job(Some("a/b/"), None),
        ];
        let all = tenants(&jobs);
        let found: Vec<_> = all.iter().map(|t| (t.path.as_str(), t.parent.0, t.weight)).collect();
        assert_eq!(found, [("a", 0, 50), ("a/b", 1, 300), ("c", 0, DEFAULT_WEIGHT)]);
        assert_eq!(jobs.map(|job| tenant_of(&all, &job).0), [0, 2, 3, 1, 2]);
    }
}
