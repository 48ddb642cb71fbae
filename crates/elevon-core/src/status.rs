//! Completion status. It is converted to an errno only where a caller needs one.

/// Completion status of a bio or request (`blk_status_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Success.
    #[default]
    Ok,
    /// The device cannot do this operation.
    NotSupported,
    /// The device did not answer in time.
    Timeout,
    /// A thin pool is full.
    NoSpace,
    /// The path failed; another path may work.
    Transport,
    /// The target failed for good.
    Target,
    /// A reservation conflict.
    Reservation,
    /// The medium cannot read or store the data.
    Medium,
    /// Integrity check failed.
    Protection,
    /// Any other failure.
    IoError,
    /// The operation would have to wait, and must not.
    Again,
    /// The device is gone.
    Offline,
    /// The request is not valid for this device.
    Invalid,
    /// An error of a real file or device that is none of the above: its errno, as the system call
    /// returned it (EDQUOT, EFBIG, EROFS, EPERM ...). No device model returns it.
    Os(u16),
}

impl Status {
    /// Returns true if the I/O succeeded.
    #[inline]
    pub const fn is_ok(self) -> bool {
        matches!(self, Self::Ok)
    }

    /// Returns the errno that a caller sees (positive; 0 for success). Only this function and
    /// [`Self::from_errno`] convert between the two.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::NotSupported => 95,
            Self::Timeout => 110,
            Self::NoSpace => 28,
            Self::Transport => 67,
            Self::Target => 121,
            Self::Reservation => 52,
            Self::Medium => 61,
            Self::Protection => 84,
            Self::IoError => 5,
            Self::Again => 11,
            Self::Offline => 19,
            Self::Invalid => 22,
            Self::Os(errno) => errno as i32,
        }
    }

    /// Returns the status for an errno (positive) that a system call returned. The inverse of
    /// [`Self::errno`]: every errno of the kernel (up to 4095) is the same after both conversions.
    pub const fn from_errno(errno: i32) -> Self {
        match errno {
            0 => Self::Ok,
            95 => Self::NotSupported,
            110 => Self::Timeout,
            28 => Self::NoSpace,
            67 => Self::Transport,
            121 => Self::Target,
            52 => Self::Reservation,
            61 => Self::Medium,
            84 => Self::Protection,
            11 => Self::Again,
            19 => Self::Offline,
            22 => Self::Invalid,
            1..=4095 if errno != 5 => Self::Os(errno as u16),
            _ => Self::IoError,
        }
    }

    /// Returns true if a retry, perhaps on another path, may succeed: all errors except the
    /// device's own final answers, and the errors of a real file system.
    pub(crate) const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Transport | Self::Timeout | Self::IoError | Self::Again | Self::Offline
        )
    }

    /// The words the kernel log uses.
    pub const fn log_words(self) -> &'static str {
        match self {
            Self::Ok => "",
            Self::NotSupported => "operation not supported",
            Self::Timeout => "timeout",
            Self::NoSpace => "critical space allocation",
            Self::Transport => "recoverable transport",
            Self::Target => "critical target",
            Self::Reservation => "reservation conflict",
            Self::Medium => "critical medium",
            Self::Protection => "protection",
            Self::IoError | Self::Os(_) => "I/O",
            Self::Again => "nonblocking retry",
            Self::Offline => "device offline",
            Self::Invalid => "invalid",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_round_trips() {
        for errno in 0..=4095 {
            assert_eq!(Status::from_errno(errno).errno(), errno);
        }
        assert_eq!(Status::from_errno(5), Status::IoError);
        assert_eq!(Status::from_errno(122), Status::Os(122));
        assert!(!Status::Os(122).is_retryable());
    }
}
