//! Opens the file or block device that a user named, and determines its limits.

use std::ffi::CString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use elevon_core::limits::QueueLimits;
use elevon_core::units::{Bytes, SECTOR_SIZE, Sector, Sectors};

/// Calls a function while files and sockets that the process creates can be opened by their owner
/// alone: the mask is that of all its threads.
pub fn of_owner<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: plain numbers; it cannot fail.
    let mask = unsafe { libc::umask(0o177) };
    let made = make();
    // SAFETY: as above.
    unsafe { libc::umask(mask) };
    made
}

/// Returns without an error if the process may write a file. It is not opened for writing.
///
/// # Errors
/// Why not.
pub fn may_write(path: &Path) -> io::Result<()> {
    let is_block_device = std::fs::metadata(path)?.file_type().is_block_device();
    if is_block_device && is_read_only(&File::open(path)?) {
        return Err(io::Error::other("it is a read-only block device"));
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a text with its end.
    let result = unsafe { libc::access(path.as_ptr(), libc::W_OK) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What makes two paths those of one file or one block device, whatever links and nodes name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileIdentity {
    /// A file, by its file system's device number and its inode.
    File(u64, u64),
    /// A block device, by its number.
    BlockDevice(u64),
}

impl FileIdentity {
    /// Returns the identity of the file or block device that a path leads to; `None` if it leads to
    /// nothing that can be looked at.
    pub fn from_path(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::of_metadata(&metadata))
    }

    /// Returns the bytes that the file or block device has now; `None` if the path leads to it no
    /// more.
    pub fn bytes_at(self, path: &Path) -> Option<u64> {
        let file = File::open(path).ok()?;
        let is_it = file.metadata().is_ok_and(|metadata| Self::of_metadata(&metadata) == self);
        size_of(&file, matches!(self, Self::BlockDevice(_))).ok().filter(|_| is_it)
    }

    fn of_metadata(metadata: &std::fs::Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::BlockDevice(metadata.rdev())
        } else {
            Self::File(metadata.dev(), metadata.ino())
        }
    }
}

/// Options for opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The file will be written.
    pub write: bool,
    /// Bypass the page cache (O_DIRECT) if the file system allows it.
    pub direct: bool,
    /// Create a regular file of this size, or extend one to it; 0 keeps the size.
    pub grow_to: u64,
    /// The file system is to be filled: a regular file grows without taking room (a write for
    /// which there is none left fails with ENOSPC), and a new one with a `grow_to` of 0
    /// becomes as long as all that is free.
    pub fill: bool,
}

/// An open file or block device.
#[derive(Debug)]
pub struct HostFile {
    pub(crate) file: File,
    /// The file, opened a second time for flushes. The kernel reports a lost write once to
    /// each open file. If flushes shared `file` with writes, a FUA write (`RWF_DSYNC`) could
    /// consume the error that belongs to a flush in flight, and that flush would succeed.
    pub(crate) flush_file: File,
    /// The path as the user gave it.
    pub path: PathBuf,
    /// Size; of a pool that of its address space.
    pub size: Sectors,
    /// Size of this file alone.
    pub(crate) own_size: Sectors,
    /// Whether it is a block device.
    pub is_block_device: bool,
    /// Whether O_DIRECT is in use.
    pub is_direct: bool,
    /// Whether the file system has nothing but memory (tmpfs, ramfs): reads and writes wait for no
    /// device.
    pub is_in_memory: bool,
    /// Limits: from sysfs for a block device, generous ones for a file.
    pub limits: QueueLimits,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The parts of a pool after this one, which is the first ([`Self::joined`]).
    pub(crate) others: Vec<Self>,
}

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path is a directory, socket, terminal ...
    #[error("{}: is {what}; a regular file or a block device is needed", .path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// The type of file.
        what: &'static str,
    },
    /// A block device that is mounted or in use otherwise was opened for writing.
    #[error(
        "{}: is mounted, or something else holds it; writing to it would destroy what is there. Unmount it, or name another",
        .path.display()
    )]
    Busy {
        /// The path.
        path: PathBuf,
    },
    /// A block device that cannot be written was opened for writing.
    #[error("{}: is a read-only block device (blockdev --getro says 1); use it read-only, or make it writable", .path.display())]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// Another server has the file, and one of both writes it through a page cache.
    #[error(
        "{}: another server has it, and one of both writes it through a page cache, which the other does not see; end that \
         one, or serve the file without a cache from both",
        .path.display()
    )]
    Served {
        /// The path.
        path: PathBuf,
    },
    /// A program that keeps to QEMU's locks of images has the file and does not share it.
    #[error(
        "{}: QEMU, or another program that locks images as it does, has it and does not share it; end that one. Two \
         writers would destroy the image",
        .path.display()
    )]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The file is empty.
    #[error(
        "{}: has size 0; name a file with content (`truncate -s 1GiB FILE` makes one of zeroes)",
        .path.display()
    )]
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// The file is smaller than a block.
    #[error("{}: has {bytes} bytes, less than a block of {block}; name a larger file", .path.display())]
    Small {
        /// The path.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The logical block size.
        block: u32,
    },
    /// A system call failed.
    #[error("{}: cannot {action}: {error}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The error.
        #[source]
        error: std::io::Error,
    },
}

impl HostFile {
    /// Opens a path. A regular file is created or extended only if the caller writes and gives a
    /// size.
    ///
    /// # Errors
    /// The path is no regular file or block device, is in use, is empty, or cannot be opened as
    /// asked.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Self, OpenError> {
        let is_missing = || {
            std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        let may_create = options.write && (options.grow_to > 0 || options.fill);
        let created = if may_create && is_missing() { Created::at(path) } else { Ok(None) };
        let created = created.map_err(|error| OpenError::Io {
            path: path.to_owned(),
            action: "create it",
            error,
        })?;
        let opened = Self::open_existing(path, options, created.is_some());
        if let (Err(_), Some(created)) = (&opened, created) {
            // The error says more than that an incomplete file is left.
            let _ = created.remove();
        }
        opened
    }

    fn open_existing(path: &Path, options: OpenOptions, is_new: bool) -> Result<Self, OpenError> {
        let io = |action| move |error| OpenError::Io { path: path.to_owned(), action, error };
        let usable = |kind| match unusable(kind) {
            Some(what) => Err(OpenError::Kind { path: path.to_owned(), what }),
            None => Ok(kind.is_block_device()),
        };
        let is_block_device = usable(std::fs::metadata(path).map_err(io("open it"))?.file_type())?;
        let mut notes = Vec::new();
        let opened = open_as(path, options, is_block_device, &mut notes);
        let (file, is_direct) = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) if is_block_device => OpenError::Busy { path: path.to_owned() },
            _ => io("open it")(error),
        })?;
        // The path may refer to another file by now.
        if usable(file.metadata().map_err(io("find what it is"))?.file_type())? != is_block_device {
            return Err(io("open it")(std::io::Error::other("it was replaced meanwhile")));
        }
        if is_block_device && options.write && is_read_only(&file) {
            return Err(OpenError::ReadOnly { path: path.to_owned() });
        }
        let mut bytes = size_of(&file, is_block_device).map_err(io("find its size"))?;
        let wanted = match (options.fill && is_new, options.grow_to) {
            (true, 0) => free_bytes(&file).map_err(io("find what is free"))?,
            (_, wanted) => wanted,
        };
        if !is_block_device && options.write && bytes < wanted {
            let grown =
                if options.fill { file.set_len(wanted) } else { grow(&file, bytes, wanted) };
            grown.map_err(io("make room for it"))?;
            bytes = wanted;
        }
        let limits = limits_of(&file, is_block_device, is_direct);
        let size = Bytes::new(bytes - bytes % u64::from(limits.logical_block_size)).sectors_floor();
        if size.is_zero() {
            let (path, block) = (path.to_owned(), limits.logical_block_size);
            return Err(if bytes == 0 {
                OpenError::Empty { path }
            } else {
                OpenError::Small { path, bytes, block }
            });
        }
        let tail = bytes - size.bytes().get();
        if tail > 0 {
            let block = limits.logical_block_size;
            notes.push(format!(
                "{}: its last {tail} bytes fill no block of {block} and are left alone",
                path.display()
            ));
        }
        let flush_file =
            open_to_flush(path, &file, options.write).map_err(io("open it a second time"))?;
        let is_in_memory = !is_block_device && is_in_memory(&file);
        let path = path.to_owned();
        Ok(Self {
            file,
            flush_file,
            path,
            size,
            is_block_device,
            is_direct,
            is_in_memory,
            limits,
            notes,
            own_size: size,
            others: Vec::new(),
        })
    }
}

impl HostFile {
    /// Returns a second descriptor of the file, which has no part in its lock.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn try_clone(&self) -> std::io::Result<File> {
        self.flush_file.try_clone()
    }

    /// Returns what it is, whatever its path leads to by now; `None` if it cannot be looked at.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.file.metadata().ok().map(|metadata| FileIdentity::of_metadata(&metadata))
    }

    /// Returns its bytes in whole logical blocks; of the first part if it is a pool.
    pub fn bytes(&self) -> u64 {
        self.own_size.bytes().get()
    }

    /// Returns the size as it is now, in whole logical blocks.
    pub(crate) fn size_now(&self) -> std::io::Result<Sectors> {
        // Of another open file: no two threads move one position.
        let bytes = size_of(&self.flush_file, self.is_block_device)?;
        Ok(Bytes::new(bytes - bytes % u64::from(self.limits.logical_block_size)).sectors_floor())
    }

    /// Takes a lock on a regular file for as long as it is open: one server may have it `alone`, or
    /// several together. It binds only processes that ask for it (flock). Block devices, and files
    /// of file systems that know no locks, are never refused.
    ///
    /// # Errors
    /// Another has a lock beside which this one cannot be.
    pub fn lock(&self, alone: bool) -> Result<(), OpenError> {
        for part in self.parts() {
            let locked = if alone { part.file.try_lock() } else { part.file.try_lock_shared() };
            if matches!(locked, Err(TryLockError::WouldBlock)) && !part.is_block_device {
                return Err(OpenError::Served { path: part.path.clone() });
            }
        }
        Ok(())
    }
}

/// A part of a file that is allocated, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Bytes, more than 0.
    pub bytes: u64,
    /// Nothing is allocated, and it reads as zeroes.
    pub is_hole: bool,
}

impl HostFile {
    /// Yields which parts of a range are allocated, one after the other from `offset` on. Of a
    /// block device, and of a file whose file system cannot tell, all of it is.
    pub fn allocation(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Allocation> {
        let (part, first) = self.part_at(Sector::ZERO + Bytes::new(offset).sectors_floor());
        let offset = first + offset % SECTOR_SIZE;
        let (mut at, end) = (offset, offset.saturating_add(bytes));
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (next, is_hole) = match part.seek(at, libc::SEEK_DATA) {
                // No data follows.
                Err(libc::ENXIO) => (end, true),
                Ok(data) if data > at => (data, true),
                Ok(_) => (part.seek(at, libc::SEEK_HOLE).unwrap_or(end), false),
                Err(_) => (end, false),
            };
            let next = next.clamp(at + 1, end);
            let found = Allocation { bytes: next - at, is_hole };
            at = next;
            Some(found)
        })
    }

    /// Returns where data or a hole begins at or after an offset, or an errno. No I/O depends on
    /// the position of the open file, which this moves.
    fn seek(&self, from: u64, what: libc::c_int) -> Result<u64, i32> {
        if self.is_block_device {
            return Err(libc::EINVAL);
        }
        let from = libc::off_t::try_from(from).map_err(|_| libc::EINVAL)?;
        // SAFETY: a valid descriptor and plain numbers.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), from, what) };
        u64::try_from(found)
            .map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

fn unusable(kind: std::fs::FileType) -> Option<&'static str> {
    if kind.is_file() || kind.is_block_device() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_char_device() {
        Some("a character device")
    } else if kind.is_fifo() {
        Some("a pipe")
    } else {
        Some("a socket")
    }
}

/// A file that this process has created, and may therefore remove.
struct Created {
    file: File,
    path: PathBuf,
}

impl Created {
    /// Creates a file. `None`: another process has created it meanwhile, whose it is.
    fn at(path: &Path) -> std::io::Result<Option<Self>> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            match File::options().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Some(Self { file, path })),
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(error);
                }
                // A symbolic link to a file that is missing is not followed by `create_new`.
                Err(_) => match std::fs::read_link(&path) {
                    Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
                    Err(_) => return Ok(None),
                },
            }
        }
        Err(std::io::Error::from_raw_os_error(libc::ELOOP))
    }

    /// Removes the file, unless another has taken its place.
    fn remove(&self) -> std::io::Result<()> {
        let is_it = is_same(&std::fs::symlink_metadata(&self.path)?, &self.file.metadata()?);
        if is_it { std::fs::remove_file(&self.path) } else { Ok(()) }
    }
}

/// Maximum length of a chain of symbolic links, as in the kernel.
const MAX_LINKS: usize = 40;

/// Returns true if both are of one file.
fn is_same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn open_as(
    path: &Path,
    options: OpenOptions,
    is_block_device: bool,
    notes: &mut Vec<String>,
) -> std::io::Result<(File, bool)> {
    let open = |direct: bool| {
        // Without O_CREAT, O_EXCL on a block device means that it is not in use: no file system, no
        // md, no swap.
        let exclusive = if is_block_device && options.write { libc::O_EXCL } else { 0 };
        let flags = libc::O_CLOEXEC | exclusive | if direct { libc::O_DIRECT } else { 0 };
        File::options().read(true).write(options.write).custom_flags(flags).open(path)
    };
    if !options.direct {
        return Ok((open(false)?, false));
    }
    match open(true) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            notes.push(format!(
                "{}: the file system has no O_DIRECT; I/O goes through the page cache",
                path.display()
            ));
            Ok((open(false)?, false))
        }
        Err(error) => Err(error),
    }
}

/// Returns the file for flushes: opened a second time if it is written to; see
/// [`HostFile::flush_file`].
fn open_to_flush(path: &Path, file: &File, write: bool) -> std::io::Result<File> {
    if !write {
        return file.try_clone();
    }
    let second = File::options().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)?;
    // The path may refer to another file by now.
    if is_same(&file.metadata()?, &second.metadata()?) { Ok(second) } else { file.try_clone() }
}

/// Returns true if a block device takes no writes, although it can be opened for writing.
fn is_read_only(device: &File) -> bool {
    let mut answer: libc::c_int = 0;
    // SAFETY: a valid descriptor, and memory for the answer.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), BLKROGET, &raw mut answer) };
    result == 0 && answer != 0
}

/// Asks whether a block device is read-only: `_IO(0x12, 94)` of linux/fs.h.
const BLKROGET: libc::Ioctl = 0x125e;

/// Returns true if the file system of a file is tmpfs or ramfs.
fn is_in_memory(file: &File) -> bool {
    /// `RAMFS_MAGIC` of linux/magic.h.
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    // SAFETY: all-zero bytes are a valid `statfs` value.
    let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a valid descriptor and memory for the answer.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut answer) };
    result == 0 && [libc::TMPFS_MAGIC as u64, RAMFS_MAGIC].contains(&(answer.f_type as u64))
}

fn size_of(file: &File, is_block_device: bool) -> std::io::Result<u64> {
    if !is_block_device {
        return Ok(file.metadata()?.len());
    }
    let mut file = file;
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))
}

/// Makes a file longer and reserves its blocks, so that a full disk is detected now and not in the
/// middle of the run. If that fails, the file is as it was.
fn grow(file: &File, from: u64, to: u64) -> std::io::Result<()> {
    let len =
        libc::off_t::try_from(to).map_err(|_| std::io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: a valid descriptor and plain numbers.
    let allocate = |mode| match unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, len) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // Its length shows only at the end that the room was there. Neither call shortens a file that
    // another process has made longer.
    let grown = allocate(libc::FALLOC_FL_KEEP_SIZE).and_then(|()| allocate(0));
    match grown {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            // The library writes to each block.
            // SAFETY: as above.
            match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
                0 => Ok(()),
                errno => Err(std::io::Error::from_raw_os_error(errno)),
            }
        }
        Err(error) => {
            // What was reserved beyond the end goes.
            if file.metadata().is_ok_and(|now| now.len() == from) {
                let _ = file.set_len(from);
            }
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Returns how many bytes of a file's file system are free.
fn free_bytes(file: &File) -> std::io::Result<u64> {
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a valid descriptor, and room for the answer.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so all of it is written.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bfree.saturating_mul(found.f_frsize))
}

/// Returns a block device's limits from sysfs; for a file, what io_uring accepts in one call.
fn limits_of(file: &File, is_block_device: bool, is_direct: bool) -> QueueLimits {
    let mut limits = QueueLimits {
        logical_block_size: if is_direct { 4096 } else { 512 },
        max_hw_sectors: Sectors::new(8192),
        max_segments: 1024,
        max_segment_size: u32::MAX,
        seg_boundary_mask: u64::MAX,
        max_hw_discard_sectors: Sectors::new(1 << 22),
        discard_granularity: 4096,
        max_write_zeroes_sectors: Sectors::new(1 << 22),
        write_cache: true,
        fua: true,
        nowait: false,
        ..QueueLimits::default()
    };
    let Ok(meta) = file.metadata() else { return limits };
    if is_block_device {
        let dev = meta.rdev();
        let base = format!("/sys/dev/block/{}:{}", libc::major(dev), libc::minor(dev));
        // A partition's queue is its disk's.
        let queue = [format!("{base}/queue"), format!("{base}/../queue")]
            .into_iter()
            .find(|p| Path::new(p).is_dir());
        let number = |name: &str| {
            let text = std::fs::read_to_string(format!("{}/{name}", queue.as_ref()?)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        if let Some(lbs) = number("logical_block_size") {
            limits.logical_block_size = lbs as u32;
        }
        if let Some(pbs) = number("physical_block_size") {
            limits.physical_block_size = pbs as u32;
        }
        if let Some(kb) = number("max_sectors_kb") {
            limits.max_hw_sectors = Sectors::new(kb * 2);
        }
        limits.rotational = number("rotational") == Some(1);
        limits.max_hw_discard_sectors =
            Sectors::new(number("discard_max_bytes").unwrap_or(0) / 512);
        limits.discard_granularity = number("discard_granularity").unwrap_or(0) as u32;
        let atomic = |name: &str| number(&format!("atomic_write_{name}_bytes")).unwrap_or(0) as u32;
        limits.atomic_write_max = atomic("max");
        limits.atomic_write_boundary = atomic("boundary");
        (limits.atomic_write_unit_min, limits.atomic_write_unit_max) =
            (atomic("unit_min"), atomic("unit_max"));
    } else if is_direct {
        limits.logical_block_size = direct_alignment(file).unwrap_or(4096);
        let (unit_min, unit_max) = atomic_units(file).unwrap_or((0, 0));
        limits.atomic_write_max = unit_max;
        (limits.atomic_write_unit_min, limits.atomic_write_unit_max) = (unit_min, unit_max);
    }
    limits
}

/// Returns the smallest and the largest atomic write of this file in bytes (statx, 6.11 and later);
/// `None` if it has none.
fn atomic_units(file: &File) -> Option<(u32, u32)> {
    /// The kernel's `struct statx` as words: with glibc, libc's has no fields for atomic writes.
    #[repr(C, align(8))]
    struct Answer([u32; 64]);
    const UNIT_MIN: usize = 168 / 4;
    let mut answer = Answer([0; 64]);
    let (fd, empty) = (file.as_raw_fd(), c"".as_ptr());
    let into = (&raw mut answer).cast();
    // SAFETY: a valid descriptor, an empty path with AT_EMPTY_PATH, and memory for the answer.
    let result =
        unsafe { libc::statx(fd, empty, libc::AT_EMPTY_PATH, libc::STATX_WRITE_ATOMIC, into) };
    let [mask, min, max] = [0, UNIT_MIN, UNIT_MIN + 1].map(|word| answer.0[word]);
    (result == 0 && mask & libc::STATX_WRITE_ATOMIC != 0 && max > 0).then_some((min, max))
}

/// Returns the alignment that direct I/O on this file needs (statx, 6.1 and later).
fn direct_alignment(file: &File) -> Option<u32> {
    const EMPTY: &std::ffi::CStr = c"";
    // SAFETY: all-zero bytes are a valid `statx` value.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: a valid descriptor, an empty path with AT_EMPTY_PATH, and memory for the answer.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            EMPTY.as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &mut answer,
        )
    };
    let align = answer.stx_dio_offset_align.max(answer.stx_dio_mem_align);
    (result == 0
        && answer.stx_mask & libc::STATX_DIOALIGN != 0
        && align.is_power_of_two()
        && align <= 4096)
        .then(|| align.max(512))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};

    #[test]
    fn a_file_is_of_one_server_alone_or_of_several() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let open = || {
            HostFile::open(
                &path,
                OpenOptions { write: true, direct: false, grow_to: 4096, fill: false },
            )
            .expect("a file")
        };
        let (one, other) = (open(), open());
        assert!(one.lock(true).is_ok());
        assert!(other.lock(true).is_err() && other.lock(false).is_err());
        drop(one);
        assert!(other.lock(false).is_ok());
        let third = open();
        assert!(third.lock(true).is_err() && third.lock(false).is_ok());
    }

    #[test]
    fn what_is_made_of_the_owner_is_closed_to_others() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let made = of_owner(|| std::os::unix::net::UnixListener::bind(&path));
        let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
        assert!(made.is_ok() && mode & 0o777 == 0o600, "{mode:o}");
    }

    #[test]
    fn holes_of_a_file_are_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let sparse = File::create(&path).expect("a file");
        sparse.set_len(1 << 20).expect("a size");
        std::os::unix::fs::FileExt::write_all_at(&sparse, &[1; 4096], 512 << 10).expect("written");
        let file = HostFile::open(&path, OpenOptions::default()).expect("a file");
        let parts: Vec<Allocation> = file.allocation(4096, (1 << 20) - 4096).collect();
        assert_eq!(
            parts.iter().map(|part| part.bytes).sum::<u64>(),
            (1 << 20) - 4096,
            "the range is covered"
        );
        let data =
            parts.iter().position(|part| !part.is_hole).expect("what was written is no hole");
        let before: u64 = parts[..data].iter().map(|part| part.bytes).sum();
        assert!(4096 + before <= 512 << 10, "{parts:?}");
        assert_eq!(file.allocation(0, 0).next(), None);
    }

    #[test]
    fn a_file_that_cannot_grow_is_left_as_it_was_and_only_a_new_one_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        std::fs::write(&old, [7; 8192]).expect("written");
        // No file system has so much room.
        let options = OpenOptions { write: true, direct: false, grow_to: 1 << 61, fill: false };
        for path in [&old, &new] {
            let error = HostFile::open(path, options).expect_err("no room");
            assert!(matches!(error, OpenError::Io { action: "make room for it", .. }), "{error}");
        }
        assert_eq!(std::fs::read(&old).expect("it is there"), [7; 8192]);
        assert!(!new.exists());
    }

    #[test]
    fn a_file_of_another_process_is_neither_taken_for_created_nor_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let created = Created::at(&path).expect("a place").expect("it is new");
        assert!(Created::at(&path).expect("no error").is_none(), "whoever created it has it");
        std::fs::rename(&path, folder.path().join("moved")).expect("a rename");
        std::fs::write(&path, "of another").expect("written");
        created.remove().expect("nothing to do");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"of another");
        std::fs::rename(folder.path().join("moved"), &path).expect("a rename");
        created.remove().expect("removed");
        assert!(!path.exists());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("file", &link).expect("a link to nothing");
        Created::at(&link).expect("a place").expect("it is new").remove().expect("removed");
        assert!(!path.exists() && link.is_symlink());
    }

    #[test]
    fn flushes_have_an_open_file_of_their_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let options = OpenOptions { write: true, direct: false, grow_to: 8192, fill: false };
        let file = HostFile::open(&directory.path().join("file"), options).expect("a file");
        // Descriptors of one open file share its position.
        (&file.flush_file).seek(SeekFrom::Start(4096)).expect("a seek");
        assert_eq!((&file.file).stream_position().expect("a position"), 0);
    }
}
