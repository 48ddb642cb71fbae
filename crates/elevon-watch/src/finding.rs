//! Problems that stand: with the time since which they hold.

use elevon_trace::analysis::{Finding, FindingKind};

/// Windows without a finding after which it is over. A problem that comes and goes within a window
/// stands until then.
const ABSENT: u32 = 2;

/// The share of the time, in thousandths, that a device has to be busy before what it cannot do is
/// a problem.
const BUSY_PERMILLE: u64 = 500;

/// Returns true if a finding is about what the device cannot do.
const fn is_of_a_full_device(kind: FindingKind) -> bool {
    matches!(kind, FindingKind::DeviceBufferbloat | FindingKind::ShallowQueue)
}

/// Returns true if two findings are of one problem. Limits hold several cgroups, each for itself.
fn is_same(one: &Finding, other: &Finding) -> bool {
    one.kind == other.kind && (one.kind != FindingKind::HeldByLimit || one.who == other.who)
}

/// A problem that holds now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The problem, as the last window with it had it.
    pub finding: Finding,
    /// Time since which it holds, in nanoseconds of the trace's clock.
    pub since: u64,
    /// Windows since the last one that had it.
    absent: u32,
}

/// The problems of a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standings {
    all: Vec<Standing>,
}

impl Standings {
    /// Takes the findings of a window that began at a time. The device was busy for so many
    /// thousandths of it.
    pub(crate) fn take(&mut self, begin: u64, busy_permille: u64, findings: Vec<Finding>) {
        for standing in &mut self.all {
            standing.absent += 1;
        }
        let is_worth = |finding: &Finding| {
            busy_permille >= BUSY_PERMILLE || !is_of_a_full_device(finding.kind)
        };
        for finding in findings.into_iter().filter(is_worth) {
            let is_same = |standing: &&mut Standing| is_same(&standing.finding, &finding);
            match self.all.iter_mut().find(is_same) {
                Some(standing) => {
                    standing.absent = 0;
                    standing.finding = finding;
                }
                None => {
                    let since = finding.when.map_or(begin, |(first, _)| first.max(begin));
                    self.all.push(Standing { finding, since, absent: 0 });
                }
            }
        }
        self.all.retain(|standing| standing.absent < ABSENT);
        self.all.sort_by_key(|standing| {
            (standing.absent, std::cmp::Reverse(standing.finding.weight), standing.finding.kind)
        });
    }

    pub(crate) fn all(&self) -> &[Standing] {
        &self.all
    }
}
