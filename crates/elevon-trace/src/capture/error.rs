//! Why nothing can be recorded.

use std::io;
use std::path::PathBuf;

use super::layout::LayoutError;

/// Why nothing can be recorded. Prints as one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// tracefs is not mounted.
    #[error("tracefs is not mounted; as root: mount -t tracefs nodev /sys/kernel/tracing")]
    NoTracefs,
    /// The path is not tracefs.
    #[error("{}: is no tracefs (it has no `events`); as root: mount -t tracefs nodev /sys/kernel/tracing", path.display())]
    NotTracefs {
        /// The path.
        path: PathBuf,
    },
    /// This process may not trace.
    #[error("{}: {source}; recording needs root (sudo), and a kernel that is not locked down", path.display())]
    Denied {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel has no block events.
    #[error(
        "{}: not there: this kernel has no block events; one with CONFIG_BLK_DEV_IO_TRACE=y has them",
        path.display()
    )]
    NoBlockEvents {
        /// The path.
        path: PathBuf,
    },
    /// The kernel has no trace instances.
    #[error(
        "{}: has no `instances`: this kernel cannot trace beside others; copy its file `trace` as docs/reference/capture.md says",
        path.display()
    )]
    NoInstances {
        /// The path.
        path: PathBuf,
    },
    /// The kernel describes its events or pages in a way that is not known.
    #[error(
        "{0}: this kernel's trace is laid out in a way that is not known; record it as docs/reference/capture.md says"
    )]
    Layout(#[from] LayoutError),
    /// There is no memory for the buffer.
    #[error("cannot have a buffer of {kb} KiB for each CPU: {source}; give a smaller --buffer")]
    Buffer {
        /// What was asked for.
        kb: u64,
        /// Why.
        source: io::Error,
    },
    /// What was recorded cannot be kept.
    #[error("{}: cannot keep what is recorded: {source}; free some space there, or write elsewhere", folder.display())]
    Spool {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of tracefs does not do what it should.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
}
