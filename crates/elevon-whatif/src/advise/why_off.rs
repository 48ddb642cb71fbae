//! Why a replay as captured is far off from its trace.

use elevon_trace::analysis::{Group, Inspection};

use super::goal::{Subject, mean, percent};
use crate::figures::Figure;

/// Error of the check, in percent, from which it is worth a word: the mean of all figures, or that
/// of one process' throughput.
const FAR_OFF: f64 = 40.0;
/// Share of the time of requests that passes before their issue from which it is worth a word, in
/// percent.
const ABOVE_THE_DRIVER: f64 = 10.0;

/// What is far off in a check, in a sentence; `None` if nothing is.
pub(super) fn far_off(processes: &[Subject]) -> Option<String> {
    let errors = processes
        .iter()
        .flat_map(|one| Figure::ALL.into_iter().filter_map(|figure| one.error(figure)));
    if let Some(error) = mean(errors).map(percent).filter(|&error| error >= FAR_OFF) {
        return Some(format!("The replay is off by {error:.0} % on average."));
    }
    let (subject, gain) = worst(processes)?;
    let (label, change) = (&subject.label, percent(gain));
    (percent(gain.abs()) >= FAR_OFF)
        .then(|| format!("The throughput of {label} is off by {change:+.0} %."))
}

/// Returns the process whose throughput is farthest off, and by how much, as a logarithm.
fn worst(processes: &[Subject]) -> Option<(&Subject, f64)> {
    let errors = processes
        .iter()
        .filter_map(|one| Some((one, one.measured.gain(&one.checked, Figure::Throughput)?)));
    errors.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
}

/// What may be the reason. `of_device` are the doubts about the fitted device.
pub(super) fn reasons(
    processes: &[Subject],
    trace: &Inspection,
    of_device: Vec<String>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(share) = above_the_driver(trace).filter(|&share| share >= ABOVE_THE_DRIVER) {
        reasons.push(format!(
            "{share:.0} % of the time of requests in the trace passes before they are issued to the driver, which a \
             replay has only as far as the scheduler and the limits of the queue make it"
        ));
    }
    reasons.extend(of_device);
    if let Some((subject, _)) = worst(processes).filter(|(_, gain)| percent(*gain) >= FAR_OFF) {
        reasons.push(format!(
            "what may have kept {} from its CPU (interrupts, workers, other processes) is not in a replay",
            subject.label
        ));
    }
    reasons
}

/// Returns the share of the time of reads and writes that passes before their issue, in percent;
/// `None` if the trace does not show when they were queued.
fn above_the_driver(trace: &Inspection) -> Option<f64> {
    let stages = [Group::Read, Group::Write].map(|group| &trace.stages[group as usize]);
    // Both over the same requests: those whose queueing is known.
    let whole: u64 = stages.iter().map(|of| of.request_total.count).sum();
    let driver: u64 = stages.iter().map(|of| of.issued_to_completed.count).sum();
    let sum = |all: [u128; 2]| all.iter().sum::<u128>() as f64;
    let total = sum(stages.map(|of| of.request_total.sum)) / whole as f64;
    let below = sum(stages.map(|of| of.issued_to_completed.sum)) / driver as f64;
    (whole > 0 && driver > 0 && total > 0.0).then(|| (1.0 - below / total) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    fn subject(label: &str, measured: f64, checked: f64) -> Subject {
        let of = |per_second| Figures {
            ios: 1000,
            per_second,
            p50: 1e6,
            p99: 2e6,
            ..Figures::default()
        };
        let (measured, checked) = (of(measured), of(checked));
        Subject {
            label: label.to_owned(),
            name: None,
            id: None,
            measured,
            checked,
            is_waited_for: true,
            is_wanted: true,
            alone: None,
        }
    }

    #[test]
    fn one_process_that_is_far_off_is_named() {
        let near = [subject("a-1", 100.0, 110.0), subject("b-2", 100.0, 90.0)];
        assert_eq!(far_off(&near), None);
        let off = [subject("a-1", 100.0, 168.0), subject("b-2", 100.0, 90.0)];
        assert_eq!(far_off(&off).as_deref(), Some("The throughput of a-1 is off by +68 %."));
        let all = [subject("a-1", 100.0, 900.0)];
        assert!(
            far_off(&all).is_some_and(|line| line.contains("on average")),
            "a factor of nine in one of three"
        );
    }

    #[test]
    fn time_above_the_driver_is_named() {
        let text: String = (0..40)
            .map(|n| {
                let (us, sector) = (n * 2000, n * 16);
                format!(
                    "a-11 [000] ..... 1.{us:06}: block_bio_queue: 8,0 R {sector} + 16 [a]\n\
                     a-11 [000] ..... 1.{us:06}: block_getrq: 8,0 R {sector} + 16 [a]\n\
                     a-11 [000] ..... 1.{:06}: block_rq_issue: 8,0 R 8192 () {sector} + 16 [a]\n\
                     a-11 [000] ..... 1.{:06}: block_rq_complete: 8,0 R () {sector} + 16 [0]\n",
                    us + 300,
                    us + 1000
                )
            })
            .collect();
        let mut open = || elevon_trace::from_bytes(text.clone().into_bytes());
        let found =
            elevon_trace::analysis::inspect(&mut open, None, None, &mut |_| {}).expect("a trace");
        let reasons = reasons(&[subject("a-1", 100.0, 168.0)], &found, vec!["a doubt".to_owned()]);
        assert!(reasons[0].starts_with("30 % of the time of requests"), "{reasons:?}");
        assert!(
            reasons[1] == "a doubt" && reasons[2].contains("kept a-1 from its CPU"),
            "{reasons:?}"
        );
    }
}
