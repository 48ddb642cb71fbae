//! What a terminal has to read, and whether it is still there.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What there is to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Something.
    Something,
    /// Nothing in this time.
    Nothing,
    /// A signal came first.
    Interrupted,
    /// The terminal is gone: its window was closed, or the connection to it ended.
    Gone,
}

/// Waits until a terminal has something to read, but no longer than a time.
///
/// # Errors
/// Of the system.
pub fn wait_for_input(terminal: BorrowedFd<'_>, time: Duration) -> io::Result<Input> {
    let mut asked = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let milliseconds = libc::c_int::try_from(time.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call writes to the one entry that it is told of.
    let found = unsafe { libc::poll(&raw mut asked, 1, milliseconds) };
    if found < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted {
            Ok(Input::Interrupted)
        } else {
            Err(error)
        };
    }
    let is_gone = asked.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0;
    Ok(match (found, is_gone) {
        (0, _) => Input::Nothing,
        (_, true) => Input::Gone,
        _ => Input::Something,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_can_be_read_and_what_is_gone_are_told() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let wait = || wait_for_input(reader.as_fd(), Duration::ZERO).expect("polled");
        assert_eq!(wait(), Input::Nothing);
        writer.write_all(b"q").expect("written");
        assert_eq!(wait(), Input::Something);
        drop(writer);
        assert_eq!(wait(), Input::Gone);
    }
}
