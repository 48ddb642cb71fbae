//! What a command writes to stdout and to stderr.

use std::io::Write;

use elevon_plan::failure::{Failure, printable, shown};

/// Writes a line to stderr. An error is ignored, because there is no other place for the line.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "elevon: {}", shown(line));
}

/// Writes warnings to stderr, one per line.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        tell(&format!("warning: {warning}"));
    }
}

/// Combines the results of several actions that were all tried. Returns the last failure and prints
/// the others.
pub(crate) fn all(results: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let mut failures: Vec<Failure> = results.into_iter().filter_map(Result::err).collect();
    // A closed stdout is only reported if nothing else failed.
    failures.sort_by_key(|failure| !failure.is_broken_pipe());
    let last = failures.pop();
    let told = last.as_ref().map(ToString::to_string);
    for text in failures.iter().filter(|failure| !failure.is_broken_pipe()).map(ToString::to_string)
    {
        if Some(&text) != told.as_ref() {
            let _ = write!(std::io::stderr(), "{text}");
        }
    }
    last.map_or(Ok(()), Err)
}

/// Writes a text report to stdout.
pub(crate) fn emit_text(text: &str) -> Result<(), Failure> {
    emit(&printable(text))
}

/// Writes text to stdout and flushes it.
pub(crate) fn emit(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use elevon_plan::failure::MachineError;

    use super::*;

    #[test]
    fn of_several_failures_a_closed_pipe_is_the_last_to_matter() {
        let pipe = || Err(Failure::Output(std::io::ErrorKind::BrokenPipe.into()));
        let full = || Err(MachineError::StartIo(std::io::ErrorKind::StorageFull.into()).into());
        assert!(all([Ok(()), Ok(())]).is_ok());
        assert!(all([pipe(), Ok(())]).is_err_and(|failure| failure.is_broken_pipe()));
        assert!(all([full(), pipe()]).is_err_and(|failure| !failure.is_broken_pipe()));
    }
}
