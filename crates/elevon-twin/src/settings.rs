//! What is run, and on what.

use std::path::PathBuf;
use std::time::Duration;

use crate::disk::DiskSpec;
use crate::script::FileSystem;

/// What is run, and on what.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The user-mode kernel.
    pub kernel: PathBuf,
    /// The memory of the kernel in bytes, at least 64 MiB.
    pub memory: u64,
    /// The disk.
    pub disk: DiskSpec,
    /// Files of `/sys/block/vda/queue/` and what is written to them, in order.
    pub queue: Vec<(String, String)>,
    /// The file system.
    pub system: FileSystem,
    /// Options of the mount; may be empty.
    pub options: String,
    /// A folder of the host that the program sees at its place, even if that is below `/tmp`.
    /// All else of the host's files is visible, too, except `/tmp`. Nothing can be written.
    pub folder: PathBuf,
    /// The program with its arguments.
    pub program: Vec<String>,
    /// Files of the disk whose bytes are wanted when the program has ended, as the program names
    /// them.
    pub take: Vec<String>,
    /// The block events of the kernel are wanted.
    pub has_trace: bool,
    /// The places of the program's files on the disk are wanted.
    pub has_files: bool,
    /// True if the program talks to the terminal of this process. Then virtual time does not run
    /// ahead of real time.
    pub is_interactive: bool,
    /// How long the kernel may run on without a word, by the machine's clock.
    pub patience: Duration,
}
