//! The settings that a trace was recorded under, as options of a stack.

use elevon_core::kernel::Kernel;
use elevon_core::sched::{self, SchedulerConfig, SchedulerInfo, TunableInfo};
use elevon_trace::Recorded;

use elevon_plan::options::StackOptions;

/// Settings of the queue that belong to the software and not to the hardware: another device keeps
/// them.
const SETTINGS: [&str; 3] = ["max_sectors_kb", "nr_requests", "nomerges"];

/// Returns the options with the scheduler, the kernel and the queue settings that the trace was
/// recorded under, where the command line does not give them, and those that were taken as words
/// of a command line.
///
/// `is_valid` tells whether the device accepts a combination of options; a setting that it refuses
/// is left out.
pub(crate) fn filled(
    args: &StackOptions,
    recorded: &Recorded,
    is_valid: &dyn Fn(&StackOptions) -> bool,
) -> (StackOptions, Vec<String>) {
    let (mut all, mut taken) = (args.clone(), Vec::new());
    let scheduler = recorded.scheduler().and_then(sched::scheduler);
    let scheduler = scheduler.filter(|_| all.queue.scheduler.is_none());
    all.queue.scheduler =
        all.queue.scheduler.or_else(|| scheduler.map(|info| info.name.to_owned()));
    if all.queue.kernel.is_none()
        && let Some(kernel) = recorded.get("kernel").and_then(kernel)
    {
        taken.extend(["--kernel".to_owned(), kernel.name().to_owned()]);
        all.queue.kernel = Some(kernel.name().to_owned());
    }
    if let Some(info) = scheduler {
        let scheduler = with_tunables(info, recorded, &all, is_valid);
        taken.splice(0..0, ["--scheduler".to_owned(), scheduler.clone()]);
        all.queue.scheduler = Some(scheduler);
    }
    for key in SETTINGS {
        let is_given = args
            .queue
            .set
            .iter()
            .any(|set| set.split_once('=').is_some_and(|(given, _)| given == key));
        let Some(value) = recorded.number(&format!("queue/{key}")).filter(|_| !is_given) else {
            continue;
        };
        let (set, mut trial) = (format!("{key}={value}"), all.clone());
        trial.queue.set.insert(0, set.clone());
        if is_valid(&trial) {
            all = trial;
            taken.extend(["--set".to_owned(), set]);
        }
    }
    (all, taken)
}

/// Returns the recorded scheduler with those of its tunables that are not at their default and that
/// the kernel of `args` has.
fn with_tunables(
    info: &SchedulerInfo,
    recorded: &Recorded,
    args: &StackOptions,
    is_valid: &dyn Fn(&StackOptions) -> bool,
) -> String {
    let is_default = |tunable: &TunableInfo, value: &str| match tunable.default {
        "nr_requests" => recorded.get("queue/nr_requests") == Some(value),
        default => default == value,
    };
    let is_changed = |(key, value): &(&str, &str)| {
        let tunable = info.tunables.iter().find(|tunable| tunable.name == *key);
        tunable.is_some_and(|tunable| !is_default(tunable, value))
    };
    let changed =
        recorded.tunables().filter(is_changed).map(|(key, value)| format!("{key}={value}"));
    let mut scheduler = info.name.to_owned();
    for tunable in changed {
        let separator = if scheduler.contains(':') { ',' } else { ':' };
        let text = format!("{scheduler}{separator}{tunable}");
        let mut trial = args.clone();
        trial.queue.scheduler = Some(text.clone());
        if SchedulerConfig::parse(&text).is_ok() && is_valid(&trial) {
            scheduler = text;
        }
    }
    scheduler
}

/// Returns the modelled kernel whose rules are nearest to a release such as `6.17.3-arch1`: the
/// last one that is not newer, or the oldest.
fn kernel(release: &str) -> Option<Kernel> {
    let version = |text: &str| {
        let mut parts = text.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?))
    };
    let wanted = version(release)?;
    let known =
        || Kernel::ALL.into_iter().filter_map(|kernel| Some((version(kernel.name())?, kernel)));
    let not_newer =
        known().filter(|(version, _)| *version <= wanted).max_by_key(|(version, _)| *version);
    not_newer.or_else(|| known().min_by_key(|(version, _)| *version)).map(|(_, kernel)| kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Recorded {
        let mut recorded = Recorded::default();
        for (key, value) in [
            ("kernel", "6.17.3-arch1"),
            ("queue/scheduler", "none [mq-deadline] bfq"),
            ("queue/iosched/read_expire", "500"),
            ("queue/iosched/fifo_batch", "3"),
            ("queue/iosched/unknown", "3"),
            ("queue/max_sectors_kb", "512"),
            ("queue/nr_requests", "64"),
            ("queue/nomerges", "7"),
        ] {
            recorded.note(key, value);
        }
        recorded
    }

    #[test]
    fn what_the_command_line_does_not_give_is_as_recorded() {
        let args =
            StackOptions::of_text("--device hdd-7200 --set nr_requests=8").expect("good options");
        let is_valid = |args: &StackOptions| args.queue.set.iter().all(|set| set != "nomerges=7");
        let (all, taken) = filled(&args, &recorded(), &is_valid);
        assert_eq!(all.queue.scheduler.as_deref(), Some("mq-deadline:fifo_batch=3"));
        assert_eq!(
            (all.queue.kernel.as_deref(), &all.queue.set[..]),
            (Some("6.16"), &["max_sectors_kb=512".into(), "nr_requests=8".into()][..])
        );
        let expected =
            "--scheduler mq-deadline:fifo_batch=3 --kernel 6.16 --set max_sectors_kb=512";
        assert_eq!(taken.join(" "), expected);
        let args = StackOptions::of_text(
            "--scheduler none --kernel 6.1 --set max_sectors_kb=4 --set nr_requests=8",
        );
        let (all, taken) = filled(&args.expect("good options"), &recorded(), &is_valid);
        assert_eq!(
            (all.queue.scheduler.as_deref(), all.queue.kernel.as_deref(), taken.len()),
            (Some("none"), Some("6.1"), 0)
        );
        let args = StackOptions::of_text("--device hdd-7200").expect("good options");
        assert_eq!(
            filled(&args, &Recorded::default(), &is_valid).1,
            [""; 0],
            "nothing was recorded"
        );
    }

    #[test]
    fn a_release_has_the_rules_of_the_last_kernel_before_it() {
        for (release, name) in [
            ("4.19.1", "5.10"),
            ("6.1.176-1", "6.1"),
            ("6.5", "6.1"),
            ("6.12.0-rc1", "6.12"),
            ("6.18.44-x", "6.18"),
            ("7.3.0", "7.3"),
        ] {
            assert_eq!(kernel(release).map(Kernel::name), Some(name), "{release}");
        }
        assert_eq!((kernel("x"), kernel("6")), (None, None));
    }
}
