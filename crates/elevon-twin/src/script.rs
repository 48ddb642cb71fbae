//! The first program in the kernel: a shell script that prepares the disk and runs the program.
//!
//! The script and the laboratory talk by reads of `/sys/block/vda/serial`, each of which is a
//! request to the disk: a [`mark`](crate::lab) that has its exact place among the I/Os.

use std::fmt::Write;

/// Where the file system of the disk is mounted.
pub(crate) const MOUNT_POINT: &str = "/mnt";
/// Where the private folder of the run is in the kernel.
pub(crate) const PRIVATE: &str = "/run/elevon";

/// A file system for the disk, made by the host's own tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4.
    #[default]
    Ext4,
    /// XFS.
    Xfs,
    /// F2FS.
    F2fs,
    /// Btrfs.
    Btrfs,
    /// No file system: the program uses `/dev/vda`.
    None,
}

impl FileSystem {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("ext4", Self::Ext4),
        ("xfs", Self::Xfs),
        ("f2fs", Self::F2fs),
        ("btrfs", Self::Btrfs),
        ("none", Self::None),
    ];

    /// Returns the file system of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, system)| *system)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, system)| *system == self).map_or("none", |(name, _)| name)
    }

    /// Returns the program of the host that makes it; `None` without a file system.
    pub const fn maker(self) -> Option<&'static str> {
        match self {
            Self::Ext4 => Some("mkfs.ext4"),
            Self::Xfs => Some("mkfs.xfs"),
            Self::F2fs => Some("mkfs.f2fs"),
            Self::Btrfs => Some("mkfs.btrfs"),
            Self::None => None,
        }
    }

    /// Returns the size in bytes of the smallest disk that its tool accepts.
    pub const fn least_size(self) -> u64 {
        match self {
            Self::Xfs => 300 << 20,
            Self::Btrfs => 128 << 20,
            Self::F2fs => 64 << 20,
            Self::Ext4 | Self::None => 16 << 20,
        }
    }

    /// Returns true if it says where its files lie on the disk. The addresses of Btrfs are its own.
    pub const fn tells_places(self) -> bool {
        matches!(self, Self::Ext4 | Self::Xfs | Self::F2fs)
    }

    /// Returns the command that makes it. Its identifiers are fixed, so that each run is the same.
    const fn make(self) -> &'static str {
        match self {
            Self::Ext4 => {
                "mkfs.ext4 -q -F -U e1e40000-0000-4000-8000-000000000001 \
                 -E hash_seed=e1e40000-0000-4000-8000-000000000002 /dev/vda"
            }
            Self::Xfs => "mkfs.xfs -q -f -m uuid=e1e40000-0000-4000-8000-000000000001 /dev/vda",
            Self::F2fs => "mkfs.f2fs -q -f /dev/vda",
            Self::Btrfs => "mkfs.btrfs -q -f -U e1e40000-0000-4000-8000-000000000001 /dev/vda",
            Self::None => ":",
        }
    }

    /// Returns the command that checks it after a power cut, once its journal has been replayed.
    const fn check(self) -> &'static str {
        match self {
            Self::Ext4 => "e2fsck -f -n /dev/vda",
            Self::Xfs => "xfs_repair -n /dev/vda",
            Self::F2fs => "fsck.f2fs --dry-run /dev/vda",
            Self::Btrfs => "btrfs check --readonly /dev/vda",
            Self::None => ":",
        }
    }
}

/// What the script does with the disk before the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepare {
    /// Makes a file system and mounts it.
    Make,
    /// Mounts the file system that there is, unmounts it, checks it and mounts it again.
    Recover,
}

/// Returns the first command of the kernel's shell, in whose place comes the script. The process of
/// the kernel has the private folder as its own.
pub(crate) fn first_command() -> String {
    format!(
        "mount -t tmpfs none /run && mkdir {PRIVATE} && \
         mount -t hostfs -o /proc/self/cwd none {PRIVATE} && exec /bin/sh {PRIVATE}/init"
    )
}

/// Gives the kernel a constant in place of random numbers (RNDADDENTROPY). Otherwise a program that
/// asks for some waits until the kernel has gathered its own, which takes seconds. Without Perl the
/// script waits, before the program begins. Then starts the loopback (SIOCSIFFLAGS).
const BEGIN: &str = r#"PERL_HASH_SEED=0 PERL_INTERNAL_RAND_SEED=0 perl -e '
open(my $random, ">", "/dev/random") || exit 1;
my $seed = pack("ll", 512, 64) . ("elevon__" x 8);
ioctl($random, 0x40085203, $seed) || exit 1;
socket(my $socket, 2, 2, 0) || exit 0;
my $up = pack("a16 s x22", "lo", 0x41);
ioctl($socket, 0x8914, $up); exit 0' ||
head -c 1 /dev/random >/dev/null
"#;

/// The script's parts.
pub(crate) struct Script<'a> {
    /// A folder of the host that the program sees at its place.
    pub(crate) folder: &'a str,
    /// Files of the queue's folder in sysfs and what is written to them.
    pub(crate) queue: &'a [(String, String)],
    pub(crate) system: FileSystem,
    /// Options of the mount; may be empty.
    pub(crate) options: &'a str,
    pub(crate) prepare: Prepare,
    /// The program with its arguments, quoted for a shell.
    pub(crate) program: &'a str,
    /// Files that are copied to the private folder when the program has ended.
    pub(crate) take: &'a [String],
    /// True if the program talks to a terminal.
    pub(crate) is_interactive: bool,
    /// The program reads this file of the private folder as its standard input.
    pub(crate) input: Option<&'a str>,
    /// The kernel traces the block events of the program.
    pub(crate) has_trace: bool,
    /// The places of the files are wanted when the program has ended.
    pub(crate) has_files: bool,
}

/// The kernel's buffer of events, in KiB. A reader empties it while the program runs.
const TRACE_BUFFER: u32 = 8192;

/// Files of the private folder that the script writes.
pub(crate) const TRACE: &str = "trace";
pub(crate) const RELEASE: &str = "release";
pub(crate) const DEVICE: &str = "device";
pub(crate) const FILES: &str = "files";
pub(crate) const NETWORK: &str = "network";

impl Script<'_> {
    /// Returns the text of the script.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        text.push_str("#!/bin/sh\n");
        text.push_str("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n");
        text.push_str("export PATH HOME=/mnt TERM=${TERM:-dumb} LC_ALL=C.UTF-8\n");
        for mount in ["-t proc none /proc", "-t sysfs none /sys", "-t devtmpfs none /dev"] {
            let _ = writeln!(text, "mount {mount}");
        }
        // A folder below /tmp stays visible where the program expects it.
        let folder = quote(self.folder);
        let _ = writeln!(text, "mkdir /run/folder; mount --bind {folder} /run/folder");
        text.push_str(
            "mount -t tmpfs none /tmp; mkdir -p /dev/shm; mount -t tmpfs none /dev/shm\n",
        );
        let _ = writeln!(
            text,
            "test -d {folder} || {{ mkdir -p {folder} && mount --bind /run/folder {folder}; }}"
        );
        text.push_str("exec </dev/null >/dev/tty0 2>&1\n");
        text.push_str("mark() { read -r name </sys/block/vda/serial; }\n");
        let _ = writeln!(
            text,
            "end() {{ echo $1 >{PRIVATE}/status; sync -f {PRIVATE}/status; mark; sleep 1000000; }}"
        );
        text.push_str("fail() { echo \"elevon: $1 failed\"; end 1; }\n");
        text.push_str(BEGIN);
        self.push_settings(&mut text);
        self.push_preparation(&mut text);
        self.push_trace_begin(&mut text);
        text.push_str("mark\n");
        let input = match self.input {
            Some(file) => format!("{PRIVATE}/{file}"),
            None if self.is_interactive => "/dev/tty1".into(),
            None => "/dev/null".into(),
        };
        let error = if self.is_interactive { "/dev/tty1" } else { "/dev/tty0" };
        if !self.is_interactive {
            text.push_str("stty -F /dev/tty1 -opost; stty -F /dev/tty0 -opost\n");
        }
        let _ = writeln!(text, "{} <{input} >/dev/tty1 2>{error}", self.program);
        text.push_str("status=$?\nmark\n");
        self.push_trace_end(&mut text);
        for (index, file) in self.take.iter().enumerate() {
            let _ = writeln!(text, "cat {} >{PRIVATE}/take-{index}", quote(file));
        }
        if !self.take.is_empty() {
            text.push_str("sync\n");
        }
        let _ = writeln!(text, "cat /proc/net/snmp >{PRIVATE}/{NETWORK} 2>/dev/null");
        text.push_str("end $status\n");
        text
    }

    /// Begins to trace. The reader runs beside the program, so that the buffer is never full.
    fn push_trace_begin(&self, text: &mut String) {
        if !self.has_trace {
            return;
        }
        let _ = writeln!(text, "uname -r >{PRIVATE}/{RELEASE}");
        let _ =
            writeln!(text, "(cd /sys/block/vda; grep -r . dev size queue mq) >{PRIVATE}/{DEVICE}");
        let steps = [
            "tracing=/sys/kernel/tracing".to_owned(),
            "mount -t tracefs none $tracing || fail tracefs".to_owned(),
            "echo mono >$tracing/trace_clock".to_owned(),
            format!("echo {TRACE_BUFFER} >$tracing/buffer_size_kb"),
            "echo 1 >$tracing/events/block/enable || fail --trace".to_owned(),
            // A reader that has read nothing does not end with the tracing.
            "echo elevon >$tracing/trace_marker".to_owned(),
            format!("cat $tracing/trace_pipe >{PRIVATE}/{TRACE} & reader=$!"),
        ];
        text.extend(steps.map(|step| step + "\n"));
    }

    fn push_trace_end(&self, text: &mut String) {
        if self.has_trace {
            text.push_str("echo 0 >$tracing/tracing_on; wait $reader\n");
        }
        if self.has_files && self.system.tells_places() {
            let _ = writeln!(
                text,
                "find {MOUNT_POINT} -xdev -type f -exec filefrag -v {{}} + 2>/dev/null \
                 >{PRIVATE}/{FILES}"
            );
        }
        if self.has_trace || self.has_files {
            text.push_str("sync\n");
        }
    }

    fn push_settings(&self, text: &mut String) {
        for (file, value) in self.queue {
            let quoted = quote(value);
            let queue = "/sys/block/vda/queue";
            let _ = writeln!(text, "file={queue}/{file}");
            let _ = writeln!(text, "test -e $file || file={queue}/iosched/{file}");
            let _ = writeln!(text, "echo {quoted} >$file || fail '--set {file}'");
        }
    }

    fn push_preparation(&self, text: &mut String) {
        let system = self.system;
        if system == FileSystem::None {
            return;
        }
        let options =
            if self.options.is_empty() { String::new() } else { format!("-o {} ", self.options) };
        let mount = format!("mount -t {} {options}/dev/vda {MOUNT_POINT}", system.name());
        if self.prepare == Prepare::Make {
            let _ = writeln!(text, "{} || fail {}", system.make(), system.maker().unwrap_or(""));
        } else {
            let _ = writeln!(text, "{mount} || fail mount");
            let _ = writeln!(text, "umount {MOUNT_POINT}");
            let _ = writeln!(text, "{} >{PRIVATE}/check 2>&1 || fail fsck", system.check());
        }
        let _ = writeln!(text, "{mount} || fail mount");
        let _ = writeln!(text, "cd {MOUNT_POINT}");
    }
}

/// Returns a word quoted for a shell.
pub(crate) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
