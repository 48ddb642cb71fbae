//! Images of other programs: what a file has that is not a plain disk, and the locks by which QEMU
//! keeps others from an image that it uses.
//!
//! QEMU's locks are shared locks of single bytes, of open file descriptions. Byte 100 + n is locked
//! by a process that does n with the image, byte 200 + n by one that lets no other do it. n is 0
//! for reading, 1 for writing, 3 for a change of the size.

use std::os::fd::AsRawFd;

use super::file::{HostFile, OpenError};

const READ: i64 = 0;
const WRITE: i64 = 1;
const RESIZE: i64 = 3;
/// The byte of what is done.
const DOES: i64 = 100;
/// The byte of what others may not do.
const FORBIDS: i64 = 200;

/// Bytes at the start of a file by which its format is known.
const HEAD: usize = 4096;

/// The format of a configuration of a server.
const CONFIGURATION: &str = "a configuration of a server";

/// Returns what a file is that is no plain disk, by its first bytes.
fn format_of(head: &[u8]) -> Option<&'static str> {
    let formats: [(usize, &[u8], &str); 10] = [
        (0, b"QFI\xfb", "an image of qcow2"),
        (0, b"QED\0", "an image of QED"),
        (0, b"KDMV", "an image of VMDK"),
        (0, b"COWD", "an image of VMDK"),
        (0, b"# Disk DescriptorFile", "an image of VMDK"),
        (0, b"vhdxfile", "an image of VHDX"),
        (0, b"conectix", "an image of VHD"),
        (0x40, b"\x7f\x10\xda\xbe", "an image of VDI"),
        (0, b"WithoutFreeSpace", "an image of Parallels"),
        (0, b"WithouFreSpacExt", "an image of Parallels"),
    ];
    let is_there =
        |(at, magic, _): &&(usize, &[u8], &str)| head.get(*at..*at + magic.len()) == Some(*magic);
    let image = formats.iter().find(is_there).map(|(.., name)| *name);
    image.or_else(|| is_configuration(head).then_some(CONFIGURATION))
}

/// Returns true if a text has a table of a device or an export. A plain disk has other bytes there.
fn is_configuration(head: &[u8]) -> bool {
    let is_table =
        |line: &[u8]| [&b"[device."[..], b"[export."].iter().any(|table| line.starts_with(table));
    !head.contains(&0) && head.split(|byte| *byte == b'\n').any(is_table)
}

/// Returns what can be done about a file that does not look like a plain disk.
fn remedies(format: &str) -> &'static str {
    if format == CONFIGURATION {
        "end its name in .toml to serve what it says, or write format = \"raw\" (--format raw) if that is meant"
    } else {
        "convert it (qemu-img convert -O raw IMAGE DISK), or write format = \"raw\" (--format raw) if that is meant"
    }
}

impl HostFile {
    /// Returns a warning if the first bytes of the file are those of an image of another program,
    /// or of a configuration. It is no error: a client may have written them to its disk, and must
    /// not keep the server from the next start.
    pub fn format_warning(&self) -> Option<String> {
        let head = std::fs::File::open(&self.path).and_then(|file| {
            let mut head = vec![0; HEAD];
            let read = std::os::unix::fs::FileExt::read_at(&file, &mut head, 0)?;
            head.truncate(read);
            Ok(head)
        });
        let format = format_of(&head.unwrap_or_default())?;
        let path = self.path.display();
        Some(format!("{path}: is {format}, and its own bytes are served; {}", remedies(format)))
    }

    /// Takes QEMU's locks of an image: of what is done with it, and with `alone` of what others may
    /// not do. A file system without locks has none.
    ///
    /// # Errors
    /// A program that keeps to these locks has the image and does not share it.
    pub fn lock_as_qemu(&self, writes: bool, alone: bool) -> Result<(), OpenError> {
        let in_use = || OpenError::InUse { path: self.path.clone() };
        self.hold(DOES + READ);
        if writes {
            self.hold(DOES + WRITE);
            self.hold(FORBIDS + RESIZE);
        }
        if alone {
            self.hold(FORBIDS + WRITE);
        }
        let forbids = |what| self.is_held(FORBIDS + what);
        // One that reads has no use for an image that changes, if its writer is one that lets no
        // other write.
        let is_written = self.is_held(DOES + WRITE) && forbids(WRITE);
        let is_refused = forbids(READ) || is_written || (writes && forbids(WRITE));
        if is_refused || (alone && self.is_held(DOES + WRITE)) { Err(in_use()) } else { Ok(()) }
    }

    /// Locks a byte with others. A file system that has no locks, or a byte that another holds
    /// alone, is found by the checks that follow.
    fn hold(&self, byte: i64) {
        let mut lock = lock_of(libc::F_RDLCK as i16, byte);
        // SAFETY: an open descriptor, and a lock of one byte.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
    }

    /// Returns true if another open file has a byte locked.
    fn is_held(&self, byte: i64) -> bool {
        let mut lock = lock_of(libc::F_WRLCK as i16, byte);
        // SAFETY: as above.
        let result =
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
        result == 0 && lock.l_type != libc::F_UNLCK as i16
    }
}

fn lock_of(kind: i16, byte: i64) -> libc::flock {
    // SAFETY: all-zero bytes are a valid `flock` value, and its process has to be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (kind, libc::SEEK_SET as i16);
    (lock.l_start, lock.l_len) = (byte, 1);
    lock
}

#[cfg(test)]
mod tests {
    use super::super::file::OpenOptions;
    use super::*;

    #[test]
    fn images_are_known_by_their_first_bytes() {
        assert_eq!(format_of(b"QFI\xfb\0\0\0\x03"), Some("an image of qcow2"));
        assert_eq!(format_of(b"# Disk DescriptorFile\nversion=1"), Some("an image of VMDK"));
        let vdi = [&[b' '; 0x40][..], b"\x7f\x10\xda\xbe"].concat();
        assert_eq!(format_of(&vdi), Some("an image of VDI"));
        assert_eq!(format_of(b"listen = 's'\n[device.d]\ndevice = './d'\n"), Some(CONFIGURATION));
        for plain in [&b""[..], b"QFI", b"\xeb\x63\x90", b"\n[device.d]\n\0", &[0; HEAD]] {
            assert_eq!(format_of(plain), None);
        }
    }

    #[test]
    fn those_who_do_not_share_an_image_keep_others_out() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(1 << 20).expect("a size");
        let open = |write| {
            HostFile::open(file.path(), OpenOptions { write, ..OpenOptions::default() })
                .expect("it is there")
        };
        let refused = |writes, alone| open(writes).lock_as_qemu(writes, alone).is_err();
        let shared = open(true);
        shared.lock_as_qemu(true, false).expect("no other has it");
        assert_eq!(
            [refused(true, false), refused(false, false), refused(true, true)],
            [false, false, true]
        );
        drop(shared);
        let alone = open(true);
        alone.lock_as_qemu(true, true).expect("no other has it");
        assert_eq!(
            [refused(true, false), refused(false, false), refused(true, true)],
            [true, true, true]
        );
        drop(alone);
        let reads = open(false);
        reads.lock_as_qemu(false, false).expect("no other has it");
        // Readers that let no other write are QEMU's.
        reads.hold(FORBIDS + WRITE);
        assert_eq!([refused(true, false), refused(false, false)], [true, false]);
    }
}
