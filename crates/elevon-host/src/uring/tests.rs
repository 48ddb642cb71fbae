use std::os::fd::FromRawFd;

use elevon_core::driver::Piece;
use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;
use elevon_core::units::{HwQueue, RequestId, Sector, Tag};

use super::*;
use crate::OpenOptions;

struct NoPieces;

impl Pieces for NoPieces {
    fn for_each(&self, _each: &mut dyn FnMut(Piece)) {}
}

fn command(sequence: u64, op: Op, flags: Flags) -> Command {
    Command {
        request: RequestId(sequence as u32),
        sequence,
        queue: HwQueue(0),
        tag: Tag(sequence as u32),
        op,
        flags,
        ioprio: IoPrio::NONE,
        sector: Sector::ZERO,
        bytes: Bytes::ZERO,
    }
}

fn entry(op: Op, flags: Flags) -> InFlight {
    let bytes = Bytes::new(4096);
    let command = Command { bytes, ..command(0, op, flags) };
    InFlight { command, spans: Vec::new(), iovecs: Vec::new(), moved: 0, tries: 0, is_live: true }
}

fn over(settled: &Settled) -> Option<Status> {
    match settled {
        Settled::Again => None,
        Settled::Finished(status) => Some(*status),
    }
}

#[test]
fn what_promises_durability_is_asked_for_once() {
    for errno in [libc::EINTR, libc::EAGAIN] {
        assert_eq!(over(&entry(Op::Write, Flags::NONE).settle(-errno)), None);
        for mut promise in [entry(Op::Flush, Flags::NONE), entry(Op::Write, Flags::FUA)] {
            assert_eq!(over(&promise.settle(-errno)), Some(Status::from_errno(errno)));
        }
    }
    assert_eq!(over(&entry(Op::Flush, Flags::NONE).settle(-libc::EDQUOT)), Some(Status::Os(122)));
}

#[test]
fn a_command_that_is_never_heard_fails_in_the_end() {
    let mut write = entry(Op::Write, Flags::NONE);
    let tries = (0..).find(|_| over(&write.settle(-libc::EAGAIN)).is_some());
    assert_eq!(tries, Some(TRIES - 1));
}

/// The first bytes of buffer 1 of a task.
struct FirstBytes(u64);

impl Pieces for FirstBytes {
    fn for_each(&self, each: &mut dyn FnMut(Piece)) {
        each(Piece { task: TaskId(0), token: 1, offset: 0, len: self.0, sector: Sector::ZERO });
    }
}

/// The kernel keeps the pages of what is registered, also when the process has others there.
#[test]
fn a_buffer_is_registered_with_its_first_direct_io_and_not_when_its_memory_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = OpenOptions { write: true, direct: false, grow_to: 1 << 20, fill: false };
    let mut file = HostFile::open(&directory.path().join("file"), options).expect("a file");
    let mut ring = match Uring::new(8) {
        Ok(ring) => ring,
        Err(error) => return elevon_testkit::denied(&format!("io_uring is denied here: {error}")),
    };
    let (task, mut buffers) = (TaskId(0), Buffers::default());
    buffers.prepare(task, 2, 16 << 10).expect("memory");
    // Returns the entry that the I/O used.
    let carry_out = |ring: &mut Uring, buffers: &mut Buffers, file: &HostFile, op, bytes| {
        let command = Command { bytes: Bytes::new(bytes), ..command(0, op, Flags::NONE) };
        assert_eq!(ring.queue(file, buffers, &command, &FirstBytes(bytes)), Accept::Ok);
        loop {
            match ring.poll(file, buffers) {
                Some(finished) => break assert_eq!(finished.status, Status::Ok),
                None => assert!(ring.wait(None, false)),
            }
        }
        ring.table[0].spans[0].registered
    };
    buffers.slot(task, 1).expect("it is idle").fill(7);
    assert_eq!(
        carry_out(&mut ring, &mut buffers, &file, Op::Write, 8192),
        None,
        "through the page cache"
    );
    file.is_direct = true;
    let Some(index) = carry_out(&mut ring, &mut buffers, &file, Op::Write, 4096) else {
        return elevon_testkit::denied("the kernel registers no buffers here");
    };
    let reads = |ring: &mut Uring, buffers: &mut Buffers, bytes| {
        buffers.slot(task, 1).expect("it is idle").fill(1);
        let entry = carry_out(ring, buffers, &file, Op::Read, bytes);
        let is_read = |byte: &u8| *byte == 7;
        assert!(
            buffers.slot(task, 1).expect("it is idle")[..bytes as usize].iter().all(is_read),
            "{bytes} bytes"
        );
        entry
    };
    assert_eq!(reads(&mut ring, &mut buffers, 8192), Some(index), "the entry has grown");
    ring.unregister(&mut buffers, task, Some(1));
    buffers.empty_slot(task, 1);
    assert_eq!(
        reads(&mut ring, &mut buffers, 4096),
        Some(index),
        "an entry that was released is used again"
    );
    ring.unregister(&mut buffers, task, None);
    buffers.prepare(task, 2, 8192).expect("memory");
    assert_eq!(reads(&mut ring, &mut buffers, 8192), Some(index));
}

#[test]
fn a_lack_of_memory_passes() {
    match Uring::new(8) {
        Ok(mut ring) => {
            ring.note(Err(std::io::Error::from_raw_os_error(libc::ENOMEM)));
            assert!(ring.failure().is_none());
        }
        Err(error) => elevon_testkit::denied(&format!("io_uring is denied here: {error}")),
    }
}

#[test]
fn a_ring_without_time_limits_is_refused() {
    assert!(waits_with_a_limit(true).is_ok());
    let error = waits_with_a_limit(false).expect_err("too old");
    assert!(error.to_string().contains("5.11"), "{error}");
}

/// Returns a file of 1 MiB with its directory, and a ring of eight places; `None`, after a line
/// that says so, if there can be no ring.
fn file_and_ring() -> Option<(tempfile::TempDir, HostFile, Uring)> {
    let directory = tempfile::tempdir().expect("a directory");
    let options = OpenOptions { write: true, direct: false, grow_to: 1 << 20, fill: false };
    let file = HostFile::open(&directory.path().join("file"), options).expect("a file");
    match Uring::new(8) {
        Ok(ring) => Some((directory, file, ring)),
        Err(error) => {
            elevon_testkit::denied(&format!("io_uring is denied here: {error}"));
            None
        }
    }
}

/// The ring's descriptor is replaced by another file, so that every call fails permanently.
#[test]
fn a_ring_that_fails_for_good_answers_everything_and_takes_nothing() {
    let Some((_directory, file, mut ring)) = file_and_ring() else { return };
    let mut buffers = Buffers::default();
    let fd = ring.ring.as_raw_fd();
    // SAFETY: the descriptor is valid; the copy keeps the ring alive until the end of the test.
    let copy = unsafe { std::os::fd::OwnedFd::from_raw_fd(libc::dup(fd)) };
    // SAFETY: both descriptors are valid.
    assert_eq!(unsafe { libc::dup2(file.file.as_raw_fd(), fd) }, fd);
    // More commands than the queue holds: a full queue is submitted, and that fails.
    let mut taken = 0;
    for sequence in 0..1000 {
        match ring.queue(&file, &mut buffers, &command(sequence, Op::Flush, Flags::NONE), &NoPieces)
        {
            Accept::Ok => taken += 1,
            refused => {
                assert_eq!(refused, Accept::Error(Status::Offline));
                break;
            }
        }
    }
    assert!(ring.failure().is_some() && (1..1000).contains(&taken), "{taken} were taken");
    let mut answered = 0;
    while ring.wait(None, false) {
        let finished =
            ring.poll(&file, &mut buffers).expect("a wait that says so brings something");
        assert_eq!(finished.status, Status::Offline);
        answered += 1;
    }
    assert_eq!(answered, taken);
    let alarm = crate::Alarm::new().expect("a descriptor");
    ring.watch(alarm.fd());
    alarm.ring();
    assert!(ring.wait(None, true), "others still call");
    drop(ring);
    drop(copy);
}

/// Linux 5.11 to 6.0 have no DEFER_TASKRUN: the entry of an alarm is there without a wait, and may
/// be taken after the caller has looked for what the alarm rang for.
#[test]
fn an_alarm_that_was_taken_between_waits_ends_the_next_wait() {
    let ring = match IoUring::new(8).and_then(Uring::from_ring) {
        Ok(ring) => ring,
        Err(error) => return elevon_testkit::denied(&format!("io_uring is denied here: {error}")),
    };
    let (mut ring, mut buffers) = (ring, Buffers::default());
    let alarm = crate::Alarm::new().expect("a descriptor");
    ring.watch(alarm.fd());
    for _ in 0..3 {
        // The poll of the alarm gets into the ring.
        assert!(ring.wait(Some(Duration::ZERO), true));
        alarm.ring();
        while !ring.has_rung {
            assert!(ring.poll_socket(&mut buffers).is_none());
        }
        // Nothing rings any more: a wait that sleeps never ends.
        assert!(ring.wait(None, true));
    }
}

#[test]
fn a_ring_outlasts_a_kernel_without_memory() {
    let Some((_directory, file, mut ring)) = file_and_ring() else { return };
    let (mut buffers, count) = (Buffers::default(), 100);
    ring.fails = 150;
    // More than the submission queue has places for.
    for sequence in 0..count {
        assert_eq!(
            ring.queue(&file, &mut buffers, &command(sequence, Op::Flush, Flags::NONE), &NoPieces),
            Accept::Ok
        );
    }
    assert!(
        !ring.backlog.is_empty() && ring.fails > 0,
        "it fails for longer than it takes to queue them"
    );
    let mut ended = Vec::new();
    while ended.len() < count as usize {
        match ring.poll(&file, &mut buffers) {
            Some(finished) => ended.push((finished.command.sequence, finished.status)),
            None => assert!(ring.wait(None, false)),
        }
    }
    assert!(ring.failure().is_none() && ring.fails == 0 && ring.backlog.is_empty());
    ended.sort_by_key(|(sequence, _)| *sequence);
    assert!(
        ended
            .iter()
            .zip(0..count)
            .all(|((ended, status), sequence)| *ended == sequence && *status == Status::Ok)
    );
}
