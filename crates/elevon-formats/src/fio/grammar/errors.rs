//! Errors that do not end a job.

use super::super::draft::Draft;
use super::super::number::Scan;
use crate::diagnostic::{Complaint, Problem};

pub(in super::super) fn continue_on_error(
    draft: &mut Draft,
    _: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    draft.spec.errors.continues = match text {
        "none" | "0" => [false; 3],
        "read" => [true, false, false],
        "write" => [false, true, false],
        "io" | "all" | "1" => [true; 3],
        "verify" => [false; 3],
        _ => {
            return Err(Problem::NoChoice.because(format!(
                "`{text}` is no choice; must be one of none read write io verify all"
            )));
        }
    };
    draft.spec.errors.continues_on_mismatch = matches!(text, "verify" | "all" | "1");
    Ok(())
}

pub(in super::super) fn ignore_error(
    draft: &mut Draft,
    _: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    let lists: Vec<&str> = text.split(',').collect();
    if lists.len() > 3 {
        return Err(Problem::TooMany.because(format!(
            "`{text}` has too many lists; must be at most three: READ,WRITE,VERIFY"
        )));
    }
    let mut errors = [Vec::new(), Vec::new(), Vec::new()];
    for (slot, list) in errors.iter_mut().zip(lists) {
        for name in list.split(':').map(str::trim).filter(|name| !name.is_empty()) {
            slot.push(errno(name)?);
        }
    }
    draft.spec.errors.ignored = errors;
    Ok(())
}

fn errno(name: &str) -> Result<i32, Complaint> {
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|&(_, number)| number);
    let number = known.or_else(|| name.parse().ok().filter(|number| (1..4096).contains(number)));
    number.ok_or_else(|| {
        Problem::NoChoice.because(format!(
            "`{name}` is no error; must be a name such as EIO, or a number from 1 to 4095"
        ))
    })
}

/// The errnos of Linux that I/O can return.
const NAMES: &[(&str, i32)] = &[
    ("EPERM", 1),
    ("ENOENT", 2),
    ("EINTR", 4),
    ("EIO", 5),
    ("ENXIO", 6),
    ("EBADF", 9),
    ("EAGAIN", 11),
    ("EWOULDBLOCK", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("ENOTBLK", 15),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("EFBIG", 27),
    ("ENOSPC", 28),
    ("ESPIPE", 29),
    ("EROFS", 30),
    ("ENOSYS", 38),
    ("ENODATA", 61),
    ("ETIME", 62),
    ("ENOLINK", 67),
    ("EBADE", 52),
    ("EPROTO", 71),
    ("EOVERFLOW", 75),
    ("EILSEQ", 84),
    ("ENOTSUP", 95),
    ("EOPNOTSUPP", 95),
    ("ETIMEDOUT", 110),
    ("EREMOTEIO", 121),
    ("EDQUOT", 122),
    ("ENOMEDIUM", 123),
    ("ECANCELED", 125),
];
