//! Properties that must hold for any bytes given as a job file. The fuzz target and a test over the
//! corpus share this check.

use elevon_formats::fio::{JobSpec, MemorySource, parse};
use elevon_render::jobs as render;

/// Checks that parsing does not panic, that an error has a place and a message, and that accepted
/// jobs are the same after rendering and parsing.
pub(crate) fn job(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut source = MemorySource::one("job.fio", &text);
    // Files and variables for includes and variables in the input.
    source.files.insert("inc.fio".to_owned(), "iodepth=4\ninclude inc.fio\n".to_owned());
    source.variables.insert("V".to_owned(), "4k".to_owned());
    match parse(&mut source, "job.fio") {
        Err(errors) => {
            assert!(!errors.is_empty());
            assert!(
                errors
                    .iter()
                    .all(|error| error.line > 0 && error.column > 0 && !error.message.is_empty())
            );
        }
        Ok(first) => {
            let plain = |job: &JobSpec| JobSpec {
                origin: String::new(),
                global_options: Vec::new(),
                options: Vec::new(),
                ..job.clone()
            };
            let before: Vec<JobSpec> = first.jobs.iter().map(plain).collect();
            let rendered = render(&first.jobs);
            // A literal text may contain what the second parsing takes for a variable: `$${V}V`.
            if rendered.contains('$') {
                return;
            }
            let second =
                parse(&mut MemorySource::one("job.fio", &rendered), "job.fio").expect(&rendered);
            assert_eq!(before, second.jobs.iter().map(plain).collect::<Vec<_>>(), "{rendered}");
        }
    }
}
