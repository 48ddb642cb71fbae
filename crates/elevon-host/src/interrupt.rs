//! Signals as flags: a signal makes a run stop, drain what is in flight and still report; or it
//! requests the status so far.
//!
//! SIGINT, SIGTERM and SIGHUP ask the run to stop. Senders often send two: timeout(1) signals its
//! child and then its own group, a terminal that closes sends SIGHUP after SIGTERM. So a further
//! signal ends the process at once only if it arrives at least [`GRACE`] after the first; an
//! earlier one counts as the same request. SIGUSR1 requests the status so far, as with fio, and
//! never ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use elevon_core::units::{Instant, Nanos};
use libc::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

/// A signal that arrives within this time after the first does not end the process.
pub const GRACE: Nanos = Nanos::from_secs(1);

/// The user's requests. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<SignalState>);

#[derive(Debug, Default)]
struct SignalState {
    /// The first signal that asked to stop; 0 for none.
    signal: AtomicI32,
    /// When it arrived, in nanoseconds of the machine's monotonic clock; 0 until that is known.
    at: AtomicU64,
    is_status_wanted: AtomicBool,
    is_reload_wanted: AtomicBool,
    is_silent: AtomicBool,
}

/// The effect of a signal that asks to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The first signal: the run is to stop.
    Stop,
    /// The signal belongs to the first one.
    Same,
    /// The process is to end at once.
    GiveUp,
}

impl Interrupt {
    /// Returns flags that only [`Self::set`] sets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns flags that signals set. SIGHUP stays ignored if it is ignored already (nohup).
    ///
    /// # Errors
    /// A handler cannot be installed.
    pub fn on_signals() -> std::io::Result<Self> {
        let flags = Self::new();
        flags.stop_on(&[SIGINT, SIGTERM, SIGHUP])?;
        Ok(flags)
    }

    /// Returns flags that signals set as in [`Self::on_signals`], except that SIGHUP asks to read
    /// the configuration again.
    ///
    /// # Errors
    /// A handler cannot be installed.
    pub fn on_signals_with_reload() -> std::io::Result<Self> {
        let flags = Self::new();
        flags.stop_on(&[SIGINT, SIGTERM])?;
        let reload = flags.clone();
        let ask = move || reload.0.is_reload_wanted.store(true, Ordering::Relaxed);
        // SAFETY: the handler only stores to an atomic.
        unsafe { signal_hook::low_level::register(SIGHUP, ask) }?;
        Ok(flags)
    }

    fn stop_on(&self, signals: &[i32]) -> std::io::Result<()> {
        ignore_file_size_signal();
        for &signal in signals {
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            let flags = self.clone();
            // SAFETY: the handler reads a clock, touches atomics, and calls poll, write and _exit:
            // all of them may be called in a signal handler, and errno is put back.
            unsafe { signal_hook::low_level::register(signal, move || flags.handle(signal)) }?;
        }
        let status = self.clone();
        let ask = move || status.0.is_status_wanted.store(true, Ordering::Relaxed);
        // SAFETY: the handler only stores to an atomic.
        unsafe { signal_hook::low_level::register(SIGUSR1, ask) }?;
        Ok(())
    }

    /// Asks the run to stop, as SIGINT does.
    pub fn set(&self) {
        let _ = self.on_signal(SIGINT, Instant::ZERO);
    }

    /// Lets signals write nothing to stderr: the caller says in its own form that it stops.
    pub fn silence(&self) {
        self.0.is_silent.store(true, Ordering::Relaxed);
    }

    /// Returns true if a signal or [`Self::set`] asked the run to stop.
    pub fn is_set(&self) -> bool {
        self.0.signal.load(Ordering::Relaxed) != 0
    }

    /// Returns the number of the first signal that asked to stop.
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.signal.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }

    /// Returns true if the status was requested since the last call.
    pub fn take_status_request(&self) -> bool {
        self.0.is_status_wanted.swap(false, Ordering::Relaxed)
    }

    /// Returns true if the configuration was to be read again since the last call.
    pub fn take_reload_request(&self) -> bool {
        self.0.is_reload_wanted.swap(false, Ordering::Relaxed)
    }

    fn on_signal(&self, signal: i32, now: Instant) -> Meaning {
        let SignalState { signal: first, at, .. } = &*self.0;
        if first.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            at.store(now.get().max(1), Ordering::Relaxed);
            return Meaning::Stop;
        }
        match at.load(Ordering::Relaxed) {
            // Another thread is handling the first signal.
            0 => Meaning::Same,
            at if now.since(Instant::new(at)) < GRACE => Meaning::Same,
            _ => Meaning::GiveUp,
        }
    }

    /// Handles a signal, in the signal handler.
    fn handle(&self, signal: i32) {
        let is_silent = self.0.is_silent.load(Ordering::Relaxed);
        let say = |text| {
            if !is_silent {
                say(text);
            }
        };
        match self.on_signal(signal, clock()) {
            Meaning::Stop => {
                say(name(signal));
                say(
                    ": stopping once all I/O in flight has finished; a second signal, 1 s from now or later, stops at once\n",
                );
            }
            Meaning::Same => {}
            Meaning::GiveUp => {
                say(name(signal));
                say(" again: given up\n");
                signal_hook::low_level::exit(128 + signal);
            }
        }
    }
}

const fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "elevon: SIGINT",
        SIGTERM => "elevon: SIGTERM",
        SIGHUP => "elevon: SIGHUP",
        _ => "elevon: a signal",
    }
}

/// Returns the time of the machine's monotonic clock.
fn clock() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer. An error leaves zero.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Instant::new(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Lets a write beyond the limit of file sizes (`RLIMIT_FSIZE`) fail with EFBIG in place of ending
/// the process.
fn ignore_file_size_signal() {
    // SAFETY: no handler is given, and a signal that is ignored runs nothing.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns true if a signal is currently ignored.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: zeroes are a valid sigaction, and a null pointer in place of a new one only asks for
    // the old.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut old) == 0
            && old.sa_sigaction == libc::SIG_IGN
    }
}

/// Writes to stderr if that does not block: a signal handler must not wait for the reader.
fn say(text: &str) {
    // SAFETY: errno is this thread's own; the pollfd and the text are valid while they are used.
    unsafe {
        let errno = *libc::__errno_location();
        let mut stderr =
            libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
        if libc::poll(&raw mut stderr, 1, 0) == 1 && stderr.revents & libc::POLLOUT != 0 {
            // A line that cannot be written is lost: there is no other output.
            let _ = libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        }
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_signal_counts_only_some_time_after_the_first() {
        let flags = Interrupt::new();
        assert_eq!((flags.is_set(), flags.signal()), (false, None));
        let at = |ms: u64| Instant::new(5_000_000_000 + ms * 1_000_000);
        let meanings =
            [(SIGTERM, 0), (SIGTERM, 0), (SIGINT, 999), (SIGHUP, 1_000), (SIGINT, 60_000)]
                .map(|(signal, ms)| flags.on_signal(signal, at(ms)));
        use Meaning::{GiveUp, Same, Stop};
        assert_eq!(meanings, [Stop, Same, Same, GiveUp, GiveUp]);
        assert_eq!(
            (flags.is_set(), flags.signal()),
            (true, Some(SIGTERM)),
            "the first names the end"
        );
    }

    #[test]
    fn a_request_for_the_status_is_taken_once() {
        let flags = Interrupt::new();
        flags.clone().0.is_status_wanted.store(true, Ordering::Relaxed);
        assert_eq!(
            [flags.take_status_request(), flags.take_status_request(), flags.is_set()],
            [true, false, false]
        );
    }
}
