//! The terminal of a user who works in the kernel.

use std::io::{self, Stdin, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant as RealInstant};

use elevon_core::units::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

/// The byte that ends a line of input as the end of a file does (Ctrl-D).
const END: u8 = 4;

/// The terminal of this process, and the pace of a kernel that waits for it.
pub(crate) struct Terminal {
    input: Stdin,
    /// The settings before, if this is a terminal.
    before: Option<Termios>,
    is_open: bool,
    /// A real and a virtual instant at which the pace began.
    begin: (RealInstant, Instant),
}

impl Terminal {
    /// Takes the terminal: keys go to the kernel as they are, which echoes them. `now` is the
    /// virtual time.
    pub(crate) fn open(now: Instant) -> io::Result<Self> {
        let input = io::stdin();
        let mut before = None;
        if isatty(&input) {
            let settings = tcgetattr(&input)?;
            let mut raw = settings.clone();
            raw.make_raw();
            tcsetattr(&input, OptionalActions::Now, &raw)?;
            before = Some(settings);
        }
        Ok(Self { input, before, is_open: true, begin: (RealInstant::now(), now) })
    }

    /// Waits until real time has come as far as the virtual time `until`, a key was pressed, or
    /// `other` can be read. Keys go to `kernel`. Returns true if the time has come.
    pub(crate) fn wait(
        &mut self,
        until: Instant,
        kernel: &mut UnixStream,
        other: &UnixStream,
    ) -> io::Result<bool> {
        let (real, virtual_begin) = self.begin;
        let due = Duration::from_nanos(until.since(virtual_begin).get());
        let left = due.saturating_sub(real.elapsed()).min(Duration::from_secs(3600));
        let wanted = if self.is_open { PollFlags::IN } else { PollFlags::empty() };
        let mut waits = [PollFd::new(other, PollFlags::IN), PollFd::new(&self.input, wanted)];
        let ready = poll(&mut waits, Some(&timespec(left)))?;
        if self.is_open && !waits[1].revents().is_empty() {
            self.pass_keys(kernel)?;
        }
        Ok(ready == 0)
    }

    fn pass_keys(&mut self, kernel: &mut UnixStream) -> io::Result<()> {
        let mut keys = [0; 1024];
        let count = rustix::io::read(&self.input, &mut keys)?;
        self.is_open = count > 0;
        if count == 0 {
            keys[0] = END;
        }
        kernel.write_all(&keys[..count.max(1)])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The terminal may be gone, and then there is nothing to restore.
            let _ = tcsetattr(&self.input, OptionalActions::Now, before);
        }
    }
}

/// Returns a length of time as the system takes it.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: duration.subsec_nanos().into() }
}
