//! What a device answered, as data; errno only at the edge.

/// Completion status of a bio or request (`blk_status_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Done.
    #[default]
    Ok,
    /// The device cannot do this operation.
    NotSupported,
    /// Nobody answered in time.
    Timeout,
    /// A thin pool is full.
    NoSpace,
    /// The path failed; another path may work.
    Transport,
    /// The target failed for good.
    Target,
    /// A reservation is in the way.
    Reservation,
    /// The medium cannot give or take the data.
    Medium,
    /// Integrity check failed.
    Protection,
    /// Any other failure.
    IoError,
    /// It would have had to wait, and must not.
    Again,
    /// The device is gone.
    Offline,
    /// The request is not valid for this device.
    Invalid,
    /// An error of a real file or device that is none of the above: its errno, as the system call
    /// returned it (EDQUOT, EFBIG, EROFS, EPERM ...). No model answers it.
    Os(u16),
}

impl Status {
    /// Whether the I/O succeeded.
    #[inline]
    pub const fn is_ok(self) -> bool {
        matches!(self, Self::Ok)
    }

    /// The errno a caller sees (positive; 0 for success). The one place in the core that knows
    /// errno.
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

    /// The status of an errno (positive) that a system call returned. The other direction of
    /// [`Self::errno`]: no errno of the kernel (up to 4095) changes on the way there and back.
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

    /// Whether another try, perhaps by another path, may succeed: all but the device's own final
    /// answers, and what a real file system answered.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Transport | Self::Timeout | Self::IoError | Self::Again | Self::Offline)
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
