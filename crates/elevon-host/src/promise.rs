//! Tracks whether a flush of this file may still report success.

use elevon_core::driver::Command;
use elevon_core::op::{Flags, Op};
use elevon_core::status::Status;

/// Remembers the first failed flush or FUA write.
///
/// The flushes of all jobs of a run share one open file ([`crate::HostFile`]), and the kernel
/// reports a lost write once to each open file. The first flush after it fails and the next one
/// succeeds, although the lost write may be another job's. So after a failed flush or FUA write, no
/// flush of the run succeeds: data that the failed one covered is never reported as durable by a
/// later one.
///
/// A FUA write out of memory that a guest has taken away (EFAULT) is no such failure: nothing of it
/// reached the device.
///
/// A FUA write of a regular file for which there was no room is no such failure: if its sync met
/// lost data of others, the kernel reports that to the open file of the flushes as well.
#[derive(Debug, Default)]
pub struct Promises {
    broken: Option<Status>,
}

impl Promises {
    /// Returns the status to report to the stack for a command that ended with `status`.
    pub fn settle(&mut self, command: &Command, status: Status) -> Status {
        let is_of_memory = command.op == Op::Write && status.errno() == libc::EFAULT;
        if !is_promise(command) || is_of_memory {
            return status;
        }
        if !status.is_ok() {
            self.broken.get_or_insert(status);
            return status;
        }
        match self.broken {
            Some(broken) if command.op == Op::Flush => broken,
            _ => status,
        }
    }

    /// Returns the status to report for a command of a regular file whose flushes go through an
    /// open file of their own.
    pub fn settle_of_regular_file(&mut self, command: &Command, status: Status) -> Status {
        let has_no_room = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG].contains(&status.errno());
        if command.op == Op::Write && has_no_room { status } else { self.settle(command, status) }
    }

    /// Returns why no flush succeeds any more, if that is so.
    pub const fn broken(&self) -> Option<Status> {
        self.broken
    }

    /// Lets no later flush succeed: what it would cover may be lost.
    pub fn break_with(&mut self, status: Status) {
        self.broken.get_or_insert(status);
    }
}

/// Returns true if the success of a command means that data is durable. Such a command is never
/// retried, whatever its result.
pub(crate) const fn is_promise(command: &Command) -> bool {
    matches!(command.op, Op::Flush) || command.flags.contains(Flags::FUA)
}

#[cfg(test)]
mod tests {
    use elevon_core::ioprio::IoPrio;
    use elevon_core::units::{Bytes, HwQueue, RequestId, Sector, Tag};

    use super::*;

    fn command(op: Op, flags: Flags) -> Command {
        Command {
            request: RequestId(0),
            sequence: 0,
            queue: HwQueue(0),
            tag: Tag(0),
            op,
            flags,
            ioprio: IoPrio::NONE,
            sector: Sector::ZERO,
            bytes: Bytes::ZERO,
        }
    }

    #[test]
    fn no_flush_succeeds_after_one_that_failed() {
        let flush = command(Op::Flush, Flags::NONE);
        for first in [flush, command(Op::Write, Flags::FUA)] {
            let mut promises = Promises::default();
            assert_eq!(promises.settle(&flush, Status::Ok), Status::Ok);
            assert_eq!(promises.settle(&first, Status::Os(122)), Status::Os(122));
            assert_eq!(promises.settle(&flush, Status::Ok), Status::Os(122));
            assert_eq!(
                promises.settle(&flush, Status::IoError),
                Status::IoError,
                "an error stays what it is"
            );
            assert_eq!(promises.settle(&flush, Status::Ok), Status::Os(122));
        }
    }

    #[test]
    fn a_write_without_room_breaks_no_promise_of_a_regular_file() {
        let (flush, write) = (command(Op::Flush, Flags::NONE), command(Op::Write, Flags::FUA));
        let mut promises = Promises::default();
        assert_eq!(promises.settle_of_regular_file(&write, Status::NoSpace), Status::NoSpace);
        assert_eq!(promises.settle_of_regular_file(&flush, Status::Ok), Status::Ok);
        assert_eq!(promises.settle_of_regular_file(&write, Status::IoError), Status::IoError);
        assert_eq!(promises.settle_of_regular_file(&flush, Status::Ok), Status::IoError);
        let mut promises = Promises::default();
        assert_eq!(promises.settle_of_regular_file(&flush, Status::NoSpace), Status::NoSpace);
        assert_eq!(
            promises.settle_of_regular_file(&flush, Status::Ok),
            Status::NoSpace,
            "its flush failed"
        );
        let mut promises = Promises::default();
        promises.settle(&write, Status::NoSpace);
        assert_eq!(
            promises.settle(&flush, Status::Ok),
            Status::NoSpace,
            "a device's cache may have lost others'"
        );
    }

    #[test]
    fn memory_that_a_guest_takes_away_breaks_no_promise_to_others() {
        let (flush, write) = (command(Op::Flush, Flags::NONE), command(Op::Write, Flags::FUA));
        let mut promises = Promises::default();
        let fault = Status::from_errno(libc::EFAULT);
        assert_eq!(promises.settle(&write, fault), fault);
        assert_eq!(promises.settle(&flush, Status::Ok), Status::Ok);
        assert_eq!(promises.settle(&flush, fault), fault, "a flush uses no memory");
        assert_eq!(promises.settle(&flush, Status::Ok), fault);
    }

    #[test]
    fn what_promises_nothing_fails_for_itself() {
        let mut promises = Promises::default();
        let write = command(Op::Write, Flags::NONE);
        assert_eq!(promises.settle(&write, Status::IoError), Status::IoError);
        assert_eq!(promises.settle(&command(Op::Flush, Flags::NONE), Status::Ok), Status::Ok);
        promises.settle(&command(Op::Flush, Flags::NONE), Status::IoError);
        assert_eq!(promises.settle(&write, Status::Ok), Status::Ok);
        // A FUA write covers only its own bytes, which it wrote itself.
        assert_eq!(promises.settle(&command(Op::Write, Flags::FUA), Status::Ok), Status::Ok);
    }
}
