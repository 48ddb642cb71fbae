//! Properties that must hold for any bytes given as the plan of a sweep. The fuzz target and tests
//! share this check.

use elevon_formats::sweep::parse;

/// Checks that the text gives errors of one line with a place, or a plan with a job file.
pub(crate) fn sweep(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse("p.toml", &text, &["device", "scheduler", "fault"]) {
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(
                    error.line > 0 && error.column > 0 && !error.message.is_empty(),
                    "{error:?}"
                );
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
        Ok(plan) => {
            assert!(plan.job.is_some_and(|job| !job.value.trim().is_empty()));
            assert!(plan.over.iter().all(|axis| axis.is_list || axis.values.len() == 1));
        }
    }
}
