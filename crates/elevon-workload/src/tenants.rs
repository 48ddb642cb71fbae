//! The tenants of a run: the cgroups that its jobs name and those of a file of tenants, as one
//! tree, with their settings.

use std::collections::{BTreeMap, BTreeSet};

use elevon_core::nearest::did_you_mean;
use elevon_core::sched::SchedulerInfo;
use elevon_core::tenant::MAX_DEPTH;
use elevon_core::units::{Nanos, TenantId};
use elevon_formats::cgroup::{self, Setting, Weights};
use elevon_formats::fio::spec::JobSpec;
use elevon_formats::fio::{Complaint, Diagnostic, Problem, Span};
use elevon_formats::tenants::{TenantsFile, path_names};

/// The weight of a cgroup without a weight of its own, as in Linux.
pub const DEFAULT_WEIGHT: u32 = cgroup::DEFAULT_WEIGHT as u32;

/// A cgroup that a job or a file names, or an ancestor of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Path below the root, without leading or trailing slashes.
    pub path: String,
    /// Its parent; 0 for the root.
    pub parent: TenantId,
    /// Weight under BFQ in its parent at the start of a run, 1 to 1000: the result of its
    /// settings.
    pub weight: u32,
    /// Its settings before the run, in order.
    pub settings: Vec<Setting>,
}

/// A change during a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantChange {
    /// The time of the change, from the start of the run.
    pub at: Nanos,
    /// The tenant of the setting; the root for the device's settings.
    pub tenant: TenantId,
    /// The new setting.
    pub setting: Setting,
}

/// The tenants of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantPlan {
    /// The settings of the device before the run, in order.
    pub device: Vec<Setting>,
    /// Every tenant. The tenant at index n is [`TenantId`] n + 1, and a parent comes before its
    /// children. Tenants of jobs come first, in the order of [`tenants`].
    pub tenants: Vec<Tenant>,
    /// The changes during the run, by time; changes at the same time are in the file's order.
    pub changes: Vec<TenantChange>,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

/// The maximum number of tenants without a job that get a warning each.
const MOST_WARNINGS: usize = 3;

/// The tree while it is built.
#[derive(Default)]
struct Tree {
    tenants: Vec<Tenant>,
    known: BTreeMap<String, TenantId>,
}

impl Tree {
    /// Returns the tenant of a path; 0 for an empty path. Adds it and its ancestors if they are
    /// new.
    fn at<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> TenantId {
        let mut parent = TenantId(0);
        let mut path = String::new();
        for name in names {
            path += if path.is_empty() { "" } else { "/" };
            path += name;
            let next = TenantId(self.tenants.len() as u32 + 1);
            let id = *self.known.entry(path.clone()).or_insert(next);
            if id == next {
                let settings = Vec::new();
                self.tenants.push(Tenant {
                    path: path.clone(),
                    parent,
                    weight: DEFAULT_WEIGHT,
                    settings,
                });
            }
            parent = id;
        }
        parent
    }

    fn of_jobs(specs: &[JobSpec]) -> Self {
        let mut tree = Self::default();
        for spec in specs {
            let tenant = tree.at(names(spec));
            if let (Some(at), Some(weight)) = (tenant.index().checked_sub(1), spec.tenant.weight) {
                let tenant = &mut tree.tenants[at];
                // The last job that sets a weight decides, as the last write to a file does.
                tenant.settings = vec![Setting::Weight(weight as u16)];
                tenant.weight = weight;
            }
        }
        tree
    }
}

/// Returns the cgroups that jobs name. The cgroup at index n is [`TenantId`] n + 1, and a parent
/// comes before its children.
pub fn tenants(specs: &[JobSpec]) -> Vec<Tenant> {
    Tree::of_jobs(specs).tenants
}

/// Tenants by path. A lookup costs O(log tenants).
#[derive(Clone, Debug)]
pub struct TenantsByPath<'a>(BTreeMap<&'a str, TenantId>);

impl<'a> TenantsByPath<'a> {
    /// Takes the paths of tenants, of which the one at index n is tenant n + 1.
    pub fn new(tenants: &'a [Tenant]) -> Self {
        Self(
            tenants
                .iter()
                .zip(1..)
                .map(|(tenant, id)| (tenant.path.as_str(), TenantId(id)))
                .collect(),
        )
    }

    /// Returns the tenant of a path; 0 for the root, and for one that is not there.
    pub fn get(&self, path: &str) -> TenantId {
        self.0.get(path).copied().unwrap_or(TenantId(0))
    }

    /// Returns the tenant of a job; 0 for a job without a cgroup.
    pub fn of(&self, spec: &JobSpec) -> TenantId {
        let path = names(spec).collect::<Vec<_>>().join("/");
        self.get(&path)
    }
}

fn names(spec: &JobSpec) -> impl Iterator<Item = &str> {
    spec.tenant
        .cgroup
        .as_deref()
        .unwrap_or_default()
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".")
}

/// Returns a complaint about a job's `cgroup`, at the start of its section.
fn diagnostic(spec: &JobSpec, complaint: Complaint) -> Diagnostic {
    let place = spec.origin.rsplit_once(':').map(|(file, line)| (file, line.parse().ok()));
    let (file, line) =
        place.map_or((String::new(), 1), |(file, line)| (file.to_owned(), line.unwrap_or(1)));
    Span { file, line, column: 1 }.diagnostic("cgroup", complaint)
}

/// Returns true if a setting is a weight of any kind.
pub const fn is_weight(setting: &Setting) -> bool {
    matches!(setting, Setting::Weight(_) | Setting::IoWeight(_) | Setting::BfqWeight(_))
}

/// Returns what is said of settings of tenants that do nothing under a scheduler, a line for each
/// kind. `divides`: io.cost is enabled, or some of the tenants share a limit, which they do by
/// weight.
pub fn in_vain<'a>(
    scheduler: &SchedulerInfo,
    divides: bool,
    settings: impl IntoIterator<Item = &'a Setting>,
) -> Vec<&'static str> {
    let (mut weighs, mut reserves) = (false, false);
    for setting in settings {
        weighs |= is_weight(setting);
        reserves |= matches!(setting, Setting::Reserve(_));
    }
    let divides = divides || scheduler.divides_as.is_some();
    let weight = "nothing here divides the device by weights; what does is --scheduler aileron or bfq, \
                  or under [device] \"io.cost.qos\" = \"enable=1\"";
    let reserve = "nothing here keeps a reserve; --scheduler aileron does";
    let all = [(weighs && !divides, weight), (reserves && !scheduler.keeps_reserves, reserve)];
    all.into_iter().filter(|(is_in_vain, _)| *is_in_vain).map(|(_, line)| line).collect()
}

impl TenantPlan {
    /// Returns the tenants of jobs and of a file, if there is one. The file's weights override
    /// those of jobs.
    ///
    /// # Errors
    /// A job's `cgroup` is no path of a tenant, or a tenant cannot be made: all complaints.
    pub fn new(specs: &[JobSpec], file: Option<&TenantsFile>) -> Result<Self, Vec<Diagnostic>> {
        let bad = |spec: &JobSpec| {
            let message = path_names(spec.tenant.cgroup.as_deref()?).err()?;
            Some(diagnostic(spec, message))
        };
        let errors: Vec<Diagnostic> = specs.iter().filter_map(bad).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut tree = Tree::of_jobs(specs);
        if let Some(tenant) = tree
            .tenants
            .iter()
            .find(|tenant| tenant.path.split('/').count() > usize::from(MAX_DEPTH))
        {
            let job = specs.iter().find(|spec| names(spec).count() > usize::from(MAX_DEPTH));
            let message = format!("{}: tenants nest at most {MAX_DEPTH} deep", tenant.path);
            return Err(job
                .map(|job| diagnostic(job, Problem::OutOfRange.because(message)))
                .into_iter()
                .collect());
        }
        let of_jobs = tree.tenants.len();
        let mut plan = Self::default();
        let Some(file) = file else {
            plan.tenants = tree.tenants;
            return Ok(plan);
        };
        for table in &file.tenants {
            let id = tree.at(table.path.split('/'));
            let tenant = &mut tree.tenants[id.index() - 1];
            if !tenant.settings.is_empty() && table.settings.iter().any(is_weight) {
                tenant.settings.clear();
                let place = format!("{}:{}", table.place.file, table.place.line);
                plan.warnings.push(format!(
                    "{place}: {}: the weight of this file holds, not cgroup_weight of the job",
                    table.path
                ));
            }
            tenant.settings.extend_from_slice(&table.settings);
            tenant.weight = u32::from(Weights::of(&tenant.settings).bfq);
        }
        plan.changes = changes(&tree, file)?;
        plan.warn_of_tenants_without_jobs(&tree.tenants[..of_jobs], file);
        plan.device = file.device.clone();
        plan.tenants = tree.tenants;
        Ok(plan)
    }

    /// Warns of tables for tenants without a job, because a misspelt name has no effect.
    fn warn_of_tenants_without_jobs(&mut self, of_jobs: &[Tenant], file: &TenantsFile) {
        let known: BTreeSet<&str> = of_jobs.iter().map(|tenant| tenant.path.as_str()).collect();
        let without_jobs: Vec<_> =
            file.tenants.iter().filter(|table| !known.contains(table.path.as_str())).collect();
        for table in without_jobs.iter().take(MOST_WARNINGS) {
            let meant = did_you_mean(&table.path, known.iter().copied());
            let (file, line, path) = (&table.place.file, table.place.line, &table.path);
            self.warnings.push(format!(
                "{file}:{line}: {path}: no job lies in this tenant{meant}; cgroup= of a job names its own"
            ));
        }
        if without_jobs.len() > MOST_WARNINGS {
            let more = without_jobs.len() - MOST_WARNINGS;
            self.warnings.push(format!("{more} more tenants of the file have no job"));
        }
    }
}

/// Returns the changes by time, or complaints about tenants that do not exist.
fn changes(tree: &Tree, file: &TenantsFile) -> Result<Vec<TenantChange>, Vec<Diagnostic>> {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for change in &file.changes {
        let tenant = match &change.tenant {
            None => Some(TenantId(0)),
            Some(path) => tree.known.get(path).copied(),
        };
        match (tenant, &change.tenant) {
            (Some(tenant), _) => {
                all.extend(change.settings.iter().map(|&setting| TenantChange {
                    at: change.at,
                    tenant,
                    setting,
                }));
            }
            (None, path) => {
                let path = path.as_deref().unwrap_or_default();
                let meant = did_you_mean(path, tree.known.keys().map(String::as_str));
                let message = format!(
                    "{path}: no such tenant{meant}; give it a table, or name it as cgroup= of a job"
                );
                errors.push(
                    change.place.diagnostic("change.tenant", Problem::Unknown.because(message)),
                );
            }
        }
    }
    all.sort_by_key(|change: &TenantChange| change.at);
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_core::kernel::Kernel;
    use elevon_formats::cgroup::{Cap, IoMax};
    use elevon_formats::fio::spec::JobTenant;
    use elevon_formats::tenants::parse;

    fn job(cgroup: Option<&str>, weight: Option<u32>) -> JobSpec {
        let tenant = JobTenant { cgroup: cgroup.map(str::to_owned), weight };
        JobSpec { tenant, ..JobSpec::default_job("j") }
    }

    fn plan(jobs: &[JobSpec], text: &str) -> Result<TenantPlan, Vec<String>> {
        let file = parse("t.toml", text, &Kernel::V6_18.rules()).expect("a good file");
        TenantPlan::new(jobs, Some(&file))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    fn shape(tenants: &[Tenant]) -> Vec<(&str, u32, u32)> {
        tenants.iter().map(|t| (t.path.as_str(), t.parent.0, t.weight)).collect()
    }

    #[test]
    fn cgroups_become_a_tree_with_the_weights_that_jobs_give() {
        let jobs = [
            job(None, Some(7)),
            job(Some("/a/b"), Some(300)),
            job(Some("c"), None),
            job(Some("a"), Some(50)),
            job(Some("a/b/"), None),
            job(Some("a"), Some(60)),
        ];
        let all = tenants(&jobs);
        assert_eq!(shape(&all), [("a", 0, 60), ("a/b", 1, 300), ("c", 0, DEFAULT_WEIGHT)]);
        assert_eq!(all.iter().map(|t| t.settings.len()).collect::<Vec<_>>(), [1, 1, 0]);
        let by_path = TenantsByPath::new(&all);
        assert_eq!(jobs.each_ref().map(|job| by_path.of(job).0), [0, 2, 3, 1, 2, 1]);
        assert_eq!(TenantPlan::new(&jobs, None).expect("a plan").tenants, all);
    }

    #[test]
    fn a_file_joins_the_tree_of_the_jobs_and_its_weights_win() {
        let jobs = [job(Some("a/b"), Some(300)), job(Some("x/y/z"), Some(700))];
        let text = "[tenant.'q/r']\nweight = 5000\n[tenant.'a/b']\nio.max = 'rbps=5'\nweight = 20\n[tenant.x]\nio.bfq.weight = '8:0 30'\nweight = 7\n[tenant.'x/y/z']\nio.max = 'wbps=5'\n";
        let plan = plan(&jobs, text).expect("a plan");
        assert_eq!(
            shape(&plan.tenants),
            [
                ("a", 0, 100),
                ("a/b", 1, 20),
                ("x", 0, 7),
                ("x/y", 3, 100),
                ("x/y/z", 4, 700),
                ("q", 0, 100),
                ("q/r", 6, 1000)
            ]
        );
        let rbps = Setting::IoMax(IoMax { rbps: Some(Cap::At(5)), ..IoMax::default() });
        assert_eq!(plan.tenants[1].settings, [rbps, Setting::Weight(20)]);
        assert_eq!(
            plan.tenants[4].settings[0],
            Setting::Weight(700),
            "a file without a weight leaves the job's"
        );
        assert_eq!(plan.warnings.len(), 2, "{:?}", plan.warnings);
        assert!(
            plan.warnings[0].starts_with("t.toml:3: a/b: the weight of this file holds"),
            "{:?}",
            plan.warnings
        );
        assert!(
            plan.warnings[1].starts_with("t.toml:1: q/r: no job lies in this tenant;"),
            "{:?}",
            plan.warnings
        );
        assert_eq!(
            tenants(&jobs).len(),
            5,
            "tenants of jobs have the same ids with and without the file"
        );
    }

    #[test]
    fn changes_are_ordered_by_time_and_know_their_tenant() {
        let jobs = [job(Some("a"), None)];
        let text = "[[change]]\nat = '5s'\ntenant = 'a'\nweight = 1\nclass = 'idle'\n[[change]]\nat = '1s'\ntenant = '/a/'\nweight = 2\n[[change]]\nat = '5s'\n'io.cost.qos' = 'enable=1'\n";
        let plan = plan(&jobs, text).expect("a plan");
        let found: Vec<_> = plan
            .changes
            .iter()
            .map(|c| (c.at.get() / 1_000_000_000, c.tenant.0, c.setting.name()))
            .collect();
        assert_eq!(
            found,
            [(1, 1, "weight"), (5, 1, "weight"), (5, 1, "io.prio.class"), (5, 0, "io.cost.qos")]
        );
    }

    #[test]
    fn nobody_is_changed_who_is_not_there() {
        let text = "[[change]]\nat = '5s'\ntenant = 'bach'\nweight = 1\n";
        let error = plan(&[job(Some("batch"), None)], text).expect_err("no such tenant");
        assert_eq!(
            error,
            [
                "t.toml:3:10: change.tenant: bach: no such tenant (did you mean `batch`?); give it a table, or name it as cgroup= of a job"
            ]
        );
        let deep = vec!["x"; 65].join("/");
        assert!(TenantPlan::new(&[job(Some(&deep), None)], None).is_err());
    }

    #[test]
    fn a_path_means_the_same_in_a_job_and_in_a_file() {
        let text = "[tenant.'a//b/./c/']\nweight = 20\n";
        let plan = plan(&[job(Some("/a/./b//c"), None)], text).expect("a plan");
        assert_eq!(shape(&plan.tenants), [("a", 0, 100), ("a/b", 1, 100), ("a/b/c", 2, 20)]);
        assert_eq!(plan.warnings, [""; 0]);
        let error = TenantPlan::new(&[job(Some("../.."), None)], None).expect_err("no such name");
        assert!(
            error[0].to_string().contains("cgroup: \"..\" is no name of a tenant"),
            "{}",
            error[0]
        );
        assert!(
            TenantPlan::new(&[job(Some("/"), None)], None)
                .is_ok_and(|plan| plan.tenants.is_empty()),
            "the root"
        );
    }

    #[test]
    fn a_hundred_thousand_tenants() {
        let text: String = (0..100_000).map(|n| format!("tenant.t{n}.weight = 5\n")).collect();
        let plan = plan(&[job(Some("t7"), None)], &text).expect("a plan");
        assert_eq!(
            (plan.tenants.len(), plan.warnings.len(), plan.tenants[0].path.as_str()),
            (100_000, 4, "t7")
        );
    }
}
