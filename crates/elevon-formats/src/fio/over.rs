//! Options that a command line gives to jobs, over what their file says.

use super::lines::KeyValue;
use super::source::PatternFiles;
use crate::diagnostic::{Diagnostic, Problem, Span};

/// An option of jobs from a command line: `[JOB:]KEY[=VALUE]`. It is applied after the options of
/// the job's section; without a job, to every job, before those that name one.
#[derive(Clone, Debug)]
pub struct JobOption {
    /// Name of the section of the only job that gets it.
    pub(super) job: Option<String>,
    pub(super) entry: KeyValue,
}

impl JobOption {
    /// Parses an option. `name` is that of the command line's option, for complaints about it.
    ///
    /// # Errors
    /// The text has no key, or an empty name of a job. Whether the option exists is found when the
    /// jobs are parsed.
    pub fn parse(name: &str, text: &str) -> Result<Self, Diagnostic> {
        let at = Span { file: format!("{name} {text}"), line: 0, column: 0 };
        let (front, value) = match text.split_once('=') {
            Some((front, value)) => (front, Some(value.trim().to_owned())),
            None => (text, None),
        };
        let (job, key) = match front.rsplit_once(':') {
            Some((job, key)) => (Some(job.trim().to_owned()), key.trim()),
            None => (None, front.trim()),
        };
        if key.is_empty() || job.as_ref().is_some_and(String::is_empty) {
            let complaint =
                Problem::Syntax.because("must be KEY=VALUE or JOB:KEY=VALUE, such as iodepth=32");
            return Err(at.diagnostic("", complaint));
        }
        let entry = KeyValue {
            at,
            value_column: 0,
            key: key.to_owned(),
            value,
            unset: Vec::new(),
            files: PatternFiles::new(),
        };
        Ok(Self { job, entry })
    }

    /// Returns true if a job of this name gets the option.
    pub(super) fn is_for(&self, job: &str) -> bool {
        self.job.as_deref().is_none_or(|own| own == job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::{MemorySource, ParsedJobs, parse_all_with};

    const FILE: &str =
        "[global]\nioengine=libaio\nrw=randread\nsize=1m\n[a]\niodepth=2\n[b]\nbs=8k\n";

    fn parsed(over: &[&str]) -> Result<ParsedJobs, String> {
        let mut source = MemorySource::one("f.fio", FILE);
        let over: Result<Vec<_>, _> =
            over.iter().map(|text| JobOption::parse("--job-option", text)).collect();
        let over = over.map_err(|error| error.to_string())?;
        parse_all_with(&mut source, &["f.fio"], &over).map_err(|errors| errors[0].to_string())
    }

    #[test]
    fn an_option_of_the_command_line_wins() {
        let jobs = parsed(&["bs=16k", "b:iodepth=32", "b:bs=32k"]).expect("good options").jobs;
        let own: Vec<_> = jobs.iter().map(|job| (job.queue.depth, job.options.clone())).collect();
        assert_eq!((own[0].0, own[1].0), (2, 32));
        let bs = |job: usize| {
            own[job].1.iter().filter(|(key, _)| key == "bs").map(|(_, value)| value.as_str())
        };
        assert_eq!(bs(0).collect::<Vec<_>>(), ["16k"]);
        assert_eq!(
            bs(1).collect::<Vec<_>>(),
            ["32k"],
            "what the file says is not listed beside it"
        );
        let files = parsed(&["filename=x", "b:filename=y:z"]).expect("good options").jobs;
        assert_eq!(
            (&files[0].files.names[..], &files[1].files.names[..]),
            (&["x".to_owned()][..], &["y".to_owned(), "z".to_owned()][..])
        );
        let either = [["bs=16k", "b:bs=32k"], ["b:bs=32k", "bs=16k"]];
        let [one, other] = either.map(|over| parsed(&over).expect("good options").jobs);
        assert_eq!(one, other, "an option for one job wins, in any order");
    }

    #[test]
    fn a_wrong_option_is_one_line_that_names_it() {
        let lines = [
            (
                "iodepht=4",
                "--job-option iodepht=4: iodepht: unknown option; did you mean `iodepth`?",
            ),
            ("c:iodepth=4", "--job-option c:iodepth=4: no job `c`; must be one of a, b"),
            ("=4", "--job-option =4: must be KEY=VALUE or JOB:KEY=VALUE, such as iodepth=32"),
            (":bs=4", "--job-option :bs=4: must be KEY=VALUE or JOB:KEY=VALUE, such as iodepth=32"),
        ];
        for (text, line) in lines {
            assert_eq!(parsed(&[text]).expect_err(text), line);
        }
        let line = parsed(&["iodepth=many"]).expect_err("no number");
        assert!(line.starts_with("--job-option iodepth=many: iodepth: "), "{line}");
    }
}
