//! Properties that must hold for any text of `--cpu-cost` under any scheduler (the first line). A
//! module of elevon-plan has this check.

use elevon_core::sched::SchedulerConfig;

/// Checks that the text gives an error of one line that names the option, or costs whose lock is
/// held no longer than the scheduler's CPU time.
pub(crate) fn cpu_cost(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (first, text) = text.split_once('\n').unwrap_or(("none", &text));
    let Ok(scheduler) = SchedulerConfig::parse(first) else { return };
    match crate::cpu_cost::cpu_cost(Some(text), &scheduler) {
        Err(failure) => {
            let said = failure.to_string();
            let is_one_line = said.lines().count() == 1 || text.contains(['\n', '\r']);
            assert!(
                failure.code() == 2 && said.starts_with("elevon: --cpu-cost") && is_one_line,
                "{said}"
            );
        }
        Ok((cost, _)) => assert!(cost.scheduler.locked <= cost.scheduler.request, "{first} {text}"),
    }
}
