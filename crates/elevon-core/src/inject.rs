//! Error injection (`error_injection` of a disk in debugfs, 7.2 and later): a bio that a rule
//! matches ends with the rule's status after throttling and before it is queued, without an event
//! and without reaching the device. The parts of a bio that is split are tested again as they come
//! up.
//!
//! A rule matches a bio of its operation that has a sector in its range; the newest rule goes
//! first. With a chance of 1 in K, which bios those are is a hash of how many the rule has matched,
//! so that it is the same in every run.
//!
//! Cost: O(rules) per bio if there are rules, else one comparison.

use alloc::vec::Vec;
use core::fmt;

use crate::bio::Bio;
use crate::mix::{GOLDEN_GAMMA, finish};
use crate::op::Op;
use crate::status::Status;

const OPS: [(&str, Op); 7] = [
    ("READ", Op::Read),
    ("WRITE", Op::Write),
    ("FLUSH", Op::Flush),
    ("DISCARD", Op::Discard),
    ("SECURE_ERASE", Op::SecureErase),
    ("ZONE_APPEND", Op::ZoneAppend),
    ("WRITE_ZEROES", Op::WriteZeroes),
];

const ENOMEM: u16 = 12;
const EBUSY: u16 = 16;
const ETIME: u16 = 62;

/// Statuses; those that no device model returns are the errno that the caller sees.
const STATUSES: [(&str, Status); 15] = [
    ("NOTSUPP", Status::NotSupported),
    ("TIMEOUT", Status::Timeout),
    ("NOSPC", Status::NoSpace),
    ("TRANSPORT", Status::Transport),
    ("TARGET", Status::Target),
    ("RESV_CONFLICT", Status::Reservation),
    ("MEDIUM", Status::Medium),
    ("PROTECTION", Status::Protection),
    ("RESOURCE", Status::Os(ENOMEM)),
    ("DEV_RESOURCE", Status::Os(EBUSY)),
    ("AGAIN", Status::Again),
    ("OFFLINE", Status::Offline),
    ("DURATION_LIMIT", Status::Os(ETIME)),
    ("INVAL", Status::Invalid),
    ("IOERR", Status::IoError),
];

/// What `--set error_injection=` takes.
pub(crate) const TAKES: &str =
    "add,op=OP,status=STATUS[,start=S][,nr_sectors=N][,chance=K]|removeall";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ErrorRule {
    op: (&'static str, Op),
    status: (&'static str, Status),
    /// The first and the last sector, both included.
    sectors: (u64, u64),
    chance: u64,
    /// Bios that it has matched.
    matched: u64,
}

/// The rules of a queue, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorInjection {
    rules: Vec<ErrorRule>,
}

impl ErrorInjection {
    /// Carries out commands as they are written to the file, with spaces between them.
    ///
    /// # Errors
    /// A command is not valid. Nothing is changed in this case.
    pub fn write(&mut self, commands: &str) -> Result<(), &'static str> {
        if commands.trim().is_empty() {
            return Err("`add,op=...,status=...` or `removeall`");
        }
        let mut next = self.clone();
        for command in commands.split(' ').map(str::trim).filter(|command| !command.is_empty()) {
            match command {
                "removeall" => next.rules.clear(),
                _ => next.rules.push(rule(command)?),
            }
        }
        *self = next;
        Ok(())
    }

    /// Returns true if there are no rules.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the status that a bio ends with; `None` if it goes on.
    #[cold]
    pub(crate) fn status_of(&mut self, bio: &Bio) -> Option<Status> {
        let sectors = bio.sectors().get();
        if sectors == 0 {
            return None;
        }
        let (first, last) = (bio.sector.get(), bio.sector.get() + sectors - 1);
        let meets = |rule: &ErrorRule| {
            rule.op.1 == bio.op && rule.sectors.0 <= last && first <= rule.sectors.1
        };
        for rule in self.rules.iter_mut().rev().filter(|rule| meets(rule)) {
            rule.matched += 1;
            if hash(rule.matched).is_multiple_of(rule.chance) {
                return Some(rule.status.1);
            }
        }
        None
    }
}

/// Shows the commands that make the rules; `removeall` without rules.
impl fmt::Display for ErrorInjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return f.write_str("removeall");
        }
        for (at, ErrorRule { op, status, sectors: (first, last), chance, .. }) in
            self.rules.iter().enumerate()
        {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}add,op={},status={},start={first}", op.0, status.0)?;
            if *last != u64::MAX {
                write!(f, ",nr_sectors={}", last - first + 1)?;
            }
            if *chance != 1 {
                write!(f, ",chance={chance}")?;
            }
        }
        Ok(())
    }
}

/// Returns the rule of a command `add,...`, whose parts have commas or line ends between them.
fn rule(command: &str) -> Result<ErrorRule, &'static str> {
    let mut words = command.split([',', '\n']);
    if words.next() != Some("add") {
        return Err("`add,op=...,status=...` or `removeall`");
    }
    let (mut op, mut status, mut start, mut count, mut chance) = (None, None, 0, 0, 1);
    for word in words {
        let (key, value) =
            word.split_once('=').ok_or("KEY=VALUE after `add`, with commas between")?;
        let number =
            || value.parse::<u64>().map_err(|_| "a whole number for start, nr_sectors and chance");
        match key {
            "op" => op = OPS.into_iter().find(|(name, _)| *name == value),
            "status" => status = STATUSES.into_iter().find(|(name, _)| *name == value),
            "start" => start = number()?,
            "nr_sectors" => count = number()?,
            "chance" => chance = number()?,
            _ => return Err("op, status, start, nr_sectors or chance"),
        }
    }
    let op =
        op.ok_or("op=READ, WRITE, FLUSH, DISCARD, SECURE_ERASE, ZONE_APPEND or WRITE_ZEROES")?;
    let status = status.ok_or(
        "status=NOTSUPP, TIMEOUT, NOSPC, TRANSPORT, TARGET, RESV_CONFLICT, MEDIUM, PROTECTION, RESOURCE, \
         DEV_RESOURCE, AGAIN, OFFLINE, DURATION_LIMIT, INVAL or IOERR",
    )?;
    if chance == 0 {
        return Err("a chance of 1 in 1 or more");
    }
    let last = match count {
        0 => u64::MAX,
        count => start.checked_add(count - 1).ok_or("a range that ends before sector 2^64")?,
    };
    Ok(ErrorRule { op, status, sectors: (start, last), chance, matched: 0 })
}

/// Mixes the bits of a number.
const fn hash(number: u64) -> u64 {
    finish(number.wrapping_mul(GOLDEN_GAMMA))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn commands_are_checked_and_shown_as_they_are_written() {
        let mut rules = ErrorInjection::default();
        assert_eq!(rules.to_string(), "removeall");
        let all = "add,op=WRITE,status=MEDIUM,start=100,nr_sectors=8 add,op=READ,status=IOERR,start=0,chance=3";
        assert_eq!(rules.write(all), Ok(()));
        assert_eq!(rules.to_string(), all);
        for wrong in [
            "",
            "add",
            "remove",
            "add,op=WRITE",
            "add,status=IOERR",
            "add,op=TRIM,status=IOERR",
            "add,op=READ,status=EIO",
            "add,op=READ,status=IOERR,chance=0",
            "add,op=READ,status=IOERR,start=x",
            "add,op=READ,status=IOERR,start=18446744073709551615,nr_sectors=2",
            "add,op=READ,status=IOERR,removeall",
            "removeall add,op=READ",
        ] {
            assert!(rules.write(wrong).is_err(), "{wrong}");
            assert_eq!(rules.to_string(), all, "{wrong}");
        }
        assert_eq!(rules.write("removeall\n"), Ok(()));
        assert!(rules.is_empty());
        assert_eq!(rules.write("add\nop=READ\nstatus=MEDIUM\n"), Ok(()));
        assert_eq!(rules.to_string(), "add,op=READ,status=MEDIUM,start=0");
    }

    #[test]
    fn a_chance_is_met_in_its_share() {
        for chance in [2, 7, 100] {
            let met = (1..=100_000).filter(|n| hash(*n).is_multiple_of(chance)).count() as u64;
            let mean = 100_000 / chance;
            assert!((mean * 9 / 10..=mean * 11 / 10).contains(&met), "1 in {chance}: {met}");
        }
    }
}
