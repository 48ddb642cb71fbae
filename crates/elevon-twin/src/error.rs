//! What can go wrong, each as one line.

use std::io;
use std::path::PathBuf;

/// Why a program could not be run in a real kernel.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    /// The device or one of its faults is not valid.
    #[error("{0}")]
    Device(String),
    /// A file of the host cannot be used.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The kernel broke a protocol, or ended in the midst of a message.
    #[error("the kernel: {0}")]
    Protocol(String),
    /// The connection to the kernel failed.
    #[error("the connection to the kernel: {0}")]
    Connection(#[from] io::Error),
    /// The kernel did not connect to its clock.
    #[error(
        "--kernel: it runs, but does not connect to its clock; it needs \
         CONFIG_UML_TIME_TRAVEL_SUPPORT"
    )]
    NoClock,
    /// The kernel ended before it connected to its clock.
    #[error(
        "--kernel: it does not start on this machine (it needs seccomp filters or ptrace, and a \
         /dev/shm that is not mounted noexec); it says: {0}"
    )]
    NoStart(String),
    /// Nothing can wake the kernel any more.
    #[error("the kernel sleeps for ever: no timer is set and no I/O is in flight")]
    Asleep,
    /// The kernel gave no sign of life for so many seconds.
    #[error(
        "virtual time has stood still for {0} s of real time: a thread spins without a system \
         call, or the program is that slow (--patience)"
    )]
    Spins(u64),
    /// The kernel ended before the program.
    #[error("the kernel ended before the program did; its last lines are above")]
    Ended,
    /// A step of the script failed.
    #[error("the disk could not be prepared; the last line above says which step failed")]
    Step,
    /// There is no such file.
    #[error("--kernel {path}: no such file", path = .0.display())]
    NoFile(PathBuf),
    /// No kernel of this version was built.
    #[error(
        "--kernel {name}: not in {folder} ({built}); `cargo xtask twin build --kernel {name}` \
         builds it, and the variable ELEVON_TWIN names another folder",
        folder = folder.display()
    )]
    NoKernel {
        /// The version.
        name: String,
        /// The versions that were built.
        built: String,
        /// The folder that was looked in.
        folder: PathBuf,
    },
    /// The folder of the kernel's memory has too little room.
    #[error("/dev/shm has {free} MiB free; the kernel's memory takes {needed} (--memory)")]
    NoRoom {
        /// What is free, in MiB.
        free: u64,
        /// What is needed, in MiB.
        needed: u64,
    },
    /// A program of the host is missing.
    #[error("--fs needs {0}, which this machine does not have")]
    NoTool(&'static str),
}

impl TwinError {
    /// Returns true if what was asked for cannot be done, rather than failed.
    pub const fn is_input(&self) -> bool {
        matches!(
            self,
            Self::Device(_)
                | Self::File { .. }
                | Self::NoClock
                | Self::NoStart(_)
                | Self::NoFile(_)
                | Self::NoKernel { .. }
                | Self::NoRoom { .. }
                | Self::NoTool(_)
                | Self::Spins(_)
                | Self::Step
        )
    }
}
