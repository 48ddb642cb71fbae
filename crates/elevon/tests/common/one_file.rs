//! A file system with one file that fails as it is told, mounted by FUSE.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite,
    Request, WriteFlags,
};

pub(crate) const SIZE: usize = 4 << 20;
const FILE: INodeNo = INodeNo(2);

/// Errors that the file system makes, and counts of what it was asked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Record {
    /// Number of the only fsync that fails, counted from 1.
    pub(crate) failing_fsync: Option<u32>,
    pub(crate) fsyncs: u32,
    /// The byte whose writes fail, and their errno.
    pub(crate) failing_byte: Option<(u64, i32)>,
}

/// A file system with one file, `file`, of [`SIZE`] bytes.
struct OneFile {
    record: Arc<Mutex<Record>>,
    content: Mutex<Vec<u8>>,
}

fn attributes(ino: INodeNo) -> FileAttr {
    let is_file = ino == FILE;
    FileAttr {
        ino,
        size: if is_file { SIZE as u64 } else { 0 },
        blocks: if is_file { SIZE as u64 / 512 } else { 0 },
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_file { FileType::RegularFile } else { FileType::Directory },
        perm: 0o777,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

const LASTING: Duration = Duration::from_secs(3600);

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "file" {
            reply.entry(&LASTING, &attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LASTING, &attributes(ino));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let content = self.content.lock().expect("no thread panics with it");
        let first = SIZE.min(offset as usize);
        reply.data(&content[first..SIZE.min(first + size as usize)]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let failing = self.record.lock().expect("no thread panics with it").failing_byte;
        let end = offset + data.len() as u64;
        match failing {
            Some((byte, errno)) if (offset..end).contains(&byte) => {
                reply.error(Errno::from_i32(errno));
            }
            _ => {
                self.content.lock().expect("no thread panics with it")
                    [offset as usize..end as usize]
                    .copy_from_slice(data);
                reply.written(data.len() as u32);
            }
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut record = self.record.lock().expect("no thread panics with it");
        record.fsyncs += 1;
        if record.failing_fsync == Some(record.fsyncs) {
            reply.error(Errno::EIO);
        } else {
            reply.ok();
        }
    }
}

/// A mounted file system; dropped, it is unmounted.
pub(crate) struct Mounted {
    pub(crate) record: Arc<Mutex<Record>>,
    pub(crate) file: PathBuf,
    // Dropped before the directory that it is mounted on.
    _session: BackgroundSession,
    _directory: tempfile::TempDir,
}

/// Mounts a file system that fails as `record` says. Returns `None` and prints a line if this
/// machine does not allow it.
pub(crate) fn mount(record: Record) -> Option<Mounted> {
    let directory = tempfile::tempdir().expect("a folder to mount on");
    let record = Arc::new(Mutex::new(record));
    let files = OneFile { record: Arc::clone(&record), content: Mutex::new(vec![0; SIZE]) };
    match fuser::spawn_mount(files, directory.path(), &Config::default()) {
        Ok(session) => {
            let file = directory.path().join("file");
            Some(Mounted { record, file, _session: session, _directory: directory })
        }
        Err(error) => {
            elevon_testkit::denied(&format!("no file system can be mounted by FUSE here: {error}"));
            None
        }
    }
}
