//! A kernel that runs: its clock, its disk, and what its program writes, in one loop.
//!
//! The kernel does nothing while it waits for its clock. The loop then lets time pass to the next
//! event of the disk or to the time that the kernel wants, whichever is first. So the order of all
//! that happens is a function of the kernel's and the disk's own decisions, never of the host.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Child;
use std::time::Duration;

use elevon_core::units::Instant;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::clock::{Answer, Calendar, MESSAGE_BYTES};
use crate::disk::Disk;
use crate::error::TwinError;
use crate::front_end::{FrontEnd, Step};
use crate::shared::SharedClock;
use crate::terminal::{Terminal, timespec};

/// How often a kernel that computes is looked at.
const GLANCE: Duration = Duration::from_millis(500);

/// Where the text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The program's standard output.
    Output,
    /// The program's standard error, and messages of the kernel and of the laboratory.
    Error,
}

/// How a run of the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A mark of the script; see [`Step::Mark`].
    Mark,
    /// The kernel has ended.
    Ended,
}

/// A kernel's process with what its terminals write, and where they read keys. A write to a file
/// never waits for its reader, so the host has no part in when a program goes on.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) output: File,
    pub(crate) error: File,
    pub(crate) keys: UnixStream,
    /// The host gives the kernel no random numbers.
    pub(crate) is_repeatable: bool,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended. Nothing else can go wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A kernel with its clock and its disk.
pub(crate) struct Machine<'a> {
    process: Process,
    calendar: Calendar,
    clock: UnixStream,
    driver: UnixListener,
    front_end: Option<FrontEnd>,
    pub(crate) disk: Disk,
    /// How long the kernel may run on without a word, by the machine's clock.
    patience: Duration,
    /// How long it has run on.
    silence: Duration,
    /// The kernel has run since its output was last read.
    has_run: bool,
    /// What the kernel has said since its start; `None` once the program runs.
    early: Option<Vec<u8>>,
    /// The user's terminal, if the program talks to one.
    terminal: Option<Terminal>,
    sink: &'a mut dyn FnMut(Stream, &[u8]),
}

impl<'a> Machine<'a> {
    /// Connects to a kernel that was started with these sockets.
    pub(crate) fn connect(
        mut process: Process,
        clock: &UnixListener,
        driver: UnixListener,
        disk: Disk,
        (calendar, patience): (Calendar, Duration),
        sink: &'a mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Self, TwinError> {
        let mut waits = [
            PollFd::new(clock, PollFlags::IN),
            PollFd::new(&process.keys, PollFlags::empty()),
            // A kernel connects to its disk later than to its clock, if it has one.
            PollFd::new(&driver, PollFlags::IN),
        ];
        let limit = timespec(patience);
        poll(&mut waits, Some(&limit)).map_err(io::Error::from)?;
        let [has_clock, has_ended, _] = waits.map(|wait| !wait.revents().is_empty());
        if !has_clock {
            if !has_ended {
                return Err(TwinError::NoClock);
            }
            let mut text = Vec::new();
            let _ = process.error.read_to_end(&mut text);
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            return Err(TwinError::NoStart(lines.collect::<Vec<_>>().join("; ")));
        }
        let (clock, _) = clock.accept()?;
        Ok(Self {
            process,
            calendar,
            clock,
            driver,
            front_end: None,
            disk,
            patience,
            silence: Duration::ZERO,
            has_run: true,
            early: Some(Vec::new()),
            terminal: None,
            sink,
        })
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Instant {
        self.calendar.now()
    }

    /// From now on, what the kernel says is for the user. What it has said is forgotten.
    pub(crate) fn begin_program(&mut self) -> Result<(), TwinError> {
        self.read_output()?;
        self.early = None;
        Ok(())
    }

    /// Takes the user's terminal for the program. Virtual time now keeps to real time.
    pub(crate) fn open_terminal(&mut self) -> io::Result<()> {
        self.terminal = Some(Terminal::open(self.now())?);
        Ok(())
    }

    /// Shows what the kernel has said since its start, except lines of terminals and disks that it
    /// lacks.
    pub(crate) fn show_early(&mut self) {
        // What failed is told already; if the rest cannot be read, this changes nothing.
        let _ = self.read_output();
        for line in self.early.take().unwrap_or_default().split_inclusive(|&byte| byte == b'\n') {
            let is_noise = [&b"setup_one_line"[..], b"Failed to initialize ubd"];
            if !is_noise.iter().any(|noise| line.starts_with(noise)) {
                (self.sink)(Stream::Error, line);
            }
        }
    }

    /// Ends the kernel. Returns its disk.
    pub(crate) fn into_disk(self) -> Disk {
        self.disk
    }

    /// Runs the kernel until the script's next mark, or its end.
    pub(crate) fn run(&mut self) -> Result<Stop, TwinError> {
        loop {
            let stop = match self.calendar.waits_until() {
                Some(until) => self.pass_time(until).map(|()| None),
                None => self.listen(),
            };
            match stop {
                Ok(None) => {}
                Ok(Some(stop)) => return Ok(stop),
                Err(error) if is_end(&error) => {
                    self.read_output()?;
                    return Ok(Stop::Ended);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets time pass, while the kernel waits until `until`.
    fn pass_time(&mut self, until: Instant) -> Result<(), TwinError> {
        if std::mem::take(&mut self.has_run) {
            self.read_output()?;
        }
        if self.interrupt()? {
            return Ok(());
        }
        if !self.keep_pace(until)? {
            return Ok(());
        }
        let now = self.disk.wait(until);
        if now == Instant::MAX {
            return Err(TwinError::Asleep);
        }
        self.advance(now)?;
        if let Some(front_end) = &mut self.front_end {
            while let Some(end) = self.disk.poll() {
                front_end.finish(&end)?;
            }
        }
        if !self.interrupt()? && now >= until {
            self.calendar.limit(self.disk.next_event());
            let message = self.calendar.run();
            self.clock.write_all(&message)?;
            self.has_run = true;
        }
        Ok(())
    }

    /// With a terminal, waits until real time has come as far as virtual time is to go. Returns
    /// false if something else came first, after which the kernel may want another time.
    fn keep_pace(&mut self, until: Instant) -> Result<bool, TwinError> {
        let until = until.min(self.disk.next_event());
        let Some(terminal) = &mut self.terminal else { return Ok(true) };
        if terminal.wait(until, &mut self.process.keys, &self.clock)? {
            return Ok(true);
        }
        let mut waits = [PollFd::new(&self.clock, PollFlags::IN)];
        if poll(&mut waits, Some(&timespec(Duration::ZERO))).map_err(io::Error::from)? > 0 {
            self.take_clock_message()?;
        }
        Ok(false)
    }

    fn advance(&mut self, now: Instant) -> Result<(), TwinError> {
        self.calendar.advance(now).map_err(|error| TwinError::Protocol(error.to_string()))
    }

    /// Interrupts the kernel if requests have ended, and waits until it has taken the interrupt.
    fn interrupt(&mut self) -> Result<bool, TwinError> {
        let Some(front_end) = &mut self.front_end else { return Ok(false) };
        if !front_end.interrupt()? {
            return Ok(false);
        }
        loop {
            let front_end = self.front_end.as_mut().expect("it was there");
            let channel = front_end.channel().expect("it had an interrupt");
            let mut waits =
                [PollFd::new(channel, PollFlags::IN), PollFd::new(&self.clock, PollFlags::IN)];
            poll(&mut waits, None).map_err(io::Error::from)?;
            let [is_taken, has_message] = waits.map(|wait| !wait.revents().is_empty());
            if has_message {
                self.take_clock_message()?;
            } else if is_taken {
                front_end.take_acknowledgement()?;
                return Ok(true);
            }
        }
    }

    fn take_clock_message(&mut self) -> Result<(), TwinError> {
        let mut message = [0; MESSAGE_BYTES];
        self.clock.read_exact(&mut message)?;
        let answer = self.calendar.handle(&message);
        match answer.map_err(|error| TwinError::Protocol(error.to_string()))? {
            Answer::None => {}
            Answer::Message(answer) => self.clock.write_all(&answer)?,
            Answer::Start(answer) => self.start_clock(&answer)?,
        }
        Ok(())
    }

    /// Answers the first message of the clock. The kernel may share its memory.
    fn start_clock(&mut self, answer: &[u8]) -> Result<(), TwinError> {
        let fds = self.calendar.shared().map(SharedClock::descriptors);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if let Some(fds) = &fds {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let parts = [IoSlice::new(answer)];
        sendmsg(&self.clock, &parts, &mut ancillary, SendFlags::empty())
            .map_err(io::Error::from)?;
        Ok(())
    }

    /// Waits for a message of the kernel while it runs, and takes it.
    fn listen(&mut self) -> Result<Option<Stop>, TwinError> {
        let driver = match &self.front_end {
            Some(front_end) => front_end.stream().as_fd(),
            None => self.driver.as_fd(),
        };
        let mut waits = [
            PollFd::from_borrowed_fd(driver, PollFlags::IN),
            PollFd::new(&self.clock, PollFlags::IN),
        ];
        let ready = poll(&mut waits, Some(&timespec(GLANCE))).map_err(io::Error::from)?;
        let [from_driver, from_clock] = waits.map(|wait| wait.revents());
        if ready == 0 {
            self.silence += GLANCE;
            if self.silence >= self.patience {
                return Err(TwinError::Spins(self.patience.as_secs()));
            }
            self.read_output()?;
            return Ok(None);
        }
        self.silence = Duration::ZERO;
        if !from_driver.is_empty() {
            return self.take_driver_message();
        }
        if !from_clock.is_empty() {
            self.take_clock_message()?;
        }
        Ok(None)
    }

    fn take_driver_message(&mut self) -> Result<Option<Stop>, TwinError> {
        let Some(front_end) = &mut self.front_end else {
            let (stream, _) = self.driver.accept()?;
            self.front_end = Some(FrontEnd::new(stream, &self.disk));
            return Ok(None);
        };
        while self.disk.now() < self.calendar.now() {
            self.disk.wait(self.calendar.now());
        }
        let step = front_end.handle(&mut self.disk)?;
        let is_due = front_end.is_due();
        self.calendar.limit(if is_due { self.calendar.now() } else { self.disk.next_event() });
        front_end.acknowledge()?;
        match step {
            Step::Done => Ok(None),
            Step::Mark => Ok(Some(Stop::Mark)),
        }
    }

    /// Hands on what the terminals have written.
    fn read_output(&mut self) -> Result<(), TwinError> {
        let mut buffer = [0; 16384];
        let Process { output, error, .. } = &mut self.process;
        for (stream, file) in [(Stream::Output, output), (Stream::Error, error)] {
            loop {
                let bytes = file.read(&mut buffer)?;
                if bytes == 0 {
                    break;
                }
                if stream == Stream::Output {
                    self.disk.note_output(bytes as u64);
                }
                match &mut self.early {
                    Some(early) => early.extend_from_slice(&buffer[..bytes]),
                    None => (self.sink)(stream, &buffer[..bytes]),
                }
            }
        }
        Ok(())
    }
}

/// Returns true if an error says that the kernel has ended.
fn is_end(error: &TwinError) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error, TwinError::Connection(error)
        if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof))
}
