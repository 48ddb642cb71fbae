//! Programs in a real kernel. Without one that `cargo xtask twin build` has built, the tests are
//! skipped.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use elevon_core::op::Op;
use elevon_testkit::{tools, twin_kernels};
use elevon_twin::lab::{self, Outcome};
use elevon_twin::power::{Cuts, LostWrite, Verdict};
use elevon_twin::{DiskSpec, FileSystem, Settings, Stream, TwinError, files, find_kernel};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Returns a kernel of this machine.
fn kernel() -> Option<PathBuf> {
    Some(twin_kernels()?.join("7.3/linux"))
}

/// Returns the settings of a shell command.
fn settings(kernel: PathBuf, device: &str, system: FileSystem, command: &str) -> Settings {
    Settings {
        kernel,
        memory: 128 << 20,
        disk: DiskSpec { device: device.into(), faults: Vec::new(), seed: 1, size: 128 << 20 },
        queue: vec![("scheduler".into(), "none".into())],
        system,
        options: String::new(),
        folder: env!("CARGO_MANIFEST_DIR").into(),
        program: ["sh", "-c", command].map(str::to_owned).to_vec(),
        take: Vec::new(),
        has_trace: false,
        has_files: false,
        is_interactive: false,
        patience: Duration::from_secs(300),
    }
}

/// Runs a program. Returns the outcome and what it wrote.
fn run(settings: &Settings) -> Result<(Outcome, String), TwinError> {
    let mut text = Vec::new();
    let outcome = lab::run(settings, &mut |_, bytes| text.extend_from_slice(bytes))?;
    Ok((outcome, String::from_utf8_lossy(&text).into_owned()))
}

/// Returns the time, kind, sector and end of each step of the program, as text.
fn steps(outcome: &Outcome) -> Vec<String> {
    let steps = &outcome.history.events()[outcome.phase.first..outcome.phase.last];
    let line = |step: &elevon_twin::Event| {
        let command = step.command;
        format!("{:?} {:?} {:?} {:?}", step.at, command.op, command.sector, step.end)
    };
    steps.iter().map(line).collect()
}

#[test]
fn completions_come_at_the_instants_of_the_model() {
    let Some(kernel) = kernel() else { return };
    let device = "slots:slots=1,latency=2ms";
    let reads = "dd if=/dev/vda of=/dev/null bs=4096 count=50 iflag=direct 2>/dev/null";
    let settings = settings(kernel, device, FileSystem::None, reads);
    let (outcome, _) = run(&settings).expect("a run");
    let steps = &outcome.history.events()[outcome.phase.first..outcome.phase.last];
    assert_eq!((outcome.status, steps.len()), (0, 100));
    for read in steps.chunks_exact(2) {
        assert_eq!((read[0].command.op, read[0].end), (Op::Read, None));
        // 4 KiB at 500 MB/s beside the latency.
        assert_eq!(read[1].at.since(read[0].at).get(), 2_008_192);
    }
    // The next read follows at once: the processor costs nothing.
    let waits = steps[1..99].chunks_exact(2).map(|pair| pair[1].at.since(pair[0].at).get());
    assert!(waits.clone().all(|wait| wait < 20_000), "{:?}", waits.collect::<Vec<_>>());
}

#[test]
fn two_runs_are_the_same() {
    let Some(kernel) = kernel() else { return };
    let work = "for n in 1 2 3; do echo $n >file; sync file; sleep 1; date +%s.%N; done; \
                head -c 8 /dev/urandom | od -t x8";
    let settings = settings(kernel, "nvme-consumer", FileSystem::Ext4, work);
    let ((first, text), (second, again)) =
        (run(&settings).expect("a run"), run(&settings).expect("a run"));
    assert_eq!(text, again);
    assert!(text.lines().count() > 4, "{text}");
    assert_eq!(steps(&first), steps(&second));
    let bytes = |outcome: &Outcome| {
        let mut bytes = vec![0; 128 << 20];
        outcome.image.read(0, &mut bytes);
        bytes
    };
    assert!(bytes(&first) == bytes(&second), "the disks differ");
}

#[test]
fn the_status_the_files_and_the_settings_are_the_programs() {
    let Some(kernel) = kernel() else { return };
    let work = "cat /sys/block/vda/queue/scheduler; echo kept >result; touch /etc/x; exit 7";
    let mut settings = settings(kernel, "nvme-consumer", FileSystem::Ext4, work);
    settings.queue = vec![("scheduler".into(), "bfq".into()), ("slice_idle".into(), "0".into())];
    settings.take = vec!["result".into()];
    let (outcome, text) = run(&settings).expect("a run");
    assert_eq!((outcome.status, outcome.taken), (7, vec![b"kept\n".to_vec()]));
    assert!(text.contains("[bfq]") && text.contains("Read-only file system"), "{text}");
}

#[test]
fn a_program_that_makes_the_host_writable_still_cannot_write() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("written");
    let work = "mount -o remount,rw /run/folder; echo bad >/run/folder/written";
    let mut settings = settings(kernel, "null", FileSystem::None, work);
    settings.folder = folder.path().into();
    let (outcome, text) = run(&settings).expect("a run");
    assert!(outcome.status != 0 && !file.exists(), "{text}");
}

#[test]
fn a_fault_of_the_device_reaches_the_program() {
    let Some(kernel) = kernel() else { return };
    let read = "dd if=/dev/vda of=/dev/null bs=4096 count=1 skip=100 iflag=direct";
    let mut settings = settings(kernel, "null", FileSystem::None, read);
    settings.disk.faults = vec!["error:sectors=800-807,status=medium".into()];
    let (outcome, text) = run(&settings).expect("a run");
    assert_eq!(outcome.status, 1);
    assert!(text.contains("Input/output error"), "{text}");
    assert!(outcome.faults["error"] > 0);
}

/// Twenty transactions of SQLite. Each is told when it is committed.
const COMMIT: &str = r#"{
    echo "pragma synchronous=MODE; create table orders(n);"
    for n in 1 2 3 4 5; do echo "insert into orders values($n); select 'committed $n';"; done
} | sqlite3 shop.db"#;

/// All that was told must be there.
const CHECK: &str = r#"said=$(grep -c committed)
[ "$said" = 0 ] && exit 0
have=$(sqlite3 shop.db 'pragma integrity_check; select count(*) from orders') || exit 1
[ "$(echo $have)" = "ok $said" ] || [ "$(echo $have)" = "ok $((said + 1))" ]"#;

/// Returns what power cuts do to SQLite with this value of `synchronous`.
fn cut_sqlite(kernel: PathBuf, synchronous: &str, count: usize) -> Vec<Verdict> {
    let work = COMMIT.replace("MODE", synchronous);
    let run_settings = settings(kernel, "nvme-consumer", FileSystem::Ext4, &work);
    let mut output = Vec::new();
    let mut sink = |stream: Stream, bytes: &[u8]| {
        if stream == Stream::Output {
            output.extend_from_slice(bytes);
        }
    };
    let outcome = lab::run(&run_settings, &mut sink).expect("a run");
    let program = ["sh", "-c", CHECK].map(str::to_owned).to_vec();
    let settings = Settings { program, ..run_settings };
    let cuts = Cuts { settings: &settings, history: &outcome.history, output: &output };
    let chosen = cuts.choose(outcome.phase.first, outcome.phase.last, count, 1);
    cuts.make_all(&chosen, 2).expect("checks")
}

#[test]
fn a_database_that_does_not_flush_loses_commits_and_one_that_does_keeps_them() {
    let Some(kernel) = kernel() else { return };
    if !tools(&["sqlite3"]) {
        return;
    }
    let losses = |mode| cut_sqlite(kernel.clone(), mode, 8).iter().filter(|v| v.is_loss()).count();
    assert!(losses("off") > 0, "nothing was flushed");
    assert_eq!(losses("extra"), 0, "everything was flushed");
}

/// Writes new prices, and then their number in an index. Both bypass the page cache. FLUSH is what
/// is between the two.
const PUBLISH: &str = r#"
direct="bs=4096 iflag=fullblock oflag=direct status=none"
put() { printf %4096d $1 | dd of=$2 $direct conv=notrunc$3; }
put 0 prices && put 0 index && sync prices index . || exit 1
echo ready
for n in 1 2 3 4; do put $n prices FLUSH && put $n index FLUSH; done"#;

/// The index must not be newer than the prices.
const IN_ORDER: &str = "grep -q ready || exit 0; [ $(cat index) -le $(cat prices) ]";

/// Returns how many of 40 cuts of [`PUBLISH`] lose data, and the files of the smallest loss of the
/// first.
fn cut_publication(kernel: PathBuf, flush: &str) -> (usize, Option<Vec<String>>) {
    let work = PUBLISH.replace(" FLUSH", flush);
    let mut run_settings = settings(kernel, "nvme-consumer", FileSystem::Ext4, &work);
    run_settings.has_files = true;
    let (outcome, output) = run(&run_settings).expect("a run");
    assert_eq!((outcome.status, &output[..]), (0, "ready\n"));
    let program = ["sh", "-c", IN_ORDER].map(str::to_owned).to_vec();
    let settings = Settings { program, has_files: false, ..run_settings };
    let history = &outcome.history;
    let cuts = Cuts { settings: &settings, history, output: output.as_bytes() };
    let chosen = cuts.choose(outcome.phase.first, outcome.phase.last, 40, 1);
    let verdicts = cuts.make_all(&chosen, 2).expect("checks");
    let mut lost = chosen.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_loss());
    let count = lost.clone().count();
    let smallest = lost.next().map(|(cut, _)| cuts.shrink(*cut).expect("a search"));
    let files = smallest.map(|smallest| {
        let of = |write: &LostWrite| {
            let start = write.sector.byte_offset().get();
            files::at(&outcome.files, start, start + write.bytes.get()).join(" ")
        };
        smallest.lost.iter().map(of).collect()
    });
    (count, files)
}

#[test]
fn the_smallest_loss_of_writes_that_are_not_ordered_is_one_write() {
    let Some(kernel) = kernel() else { return };
    let (losses, smallest) = cut_publication(kernel.clone(), "");
    assert!(losses > 0);
    assert_eq!(smallest, Some(vec!["/mnt/prices".to_owned()]));
    assert_eq!(cut_publication(kernel, ",fdatasync"), (0, None));
}

#[test]
fn every_file_system_is_made_checked_and_survives_a_power_cut() {
    let Some(kernel) = kernel() else { return };
    for (name, system) in FileSystem::ALL {
        let Some(maker) = system.maker().filter(|maker| tools(&[maker])) else { continue };
        let work = "echo kept >file; sync file .; cat /proc/mounts | grep /mnt; echo $(cat file)";
        let mut run_settings = settings(kernel.clone(), "nvme-consumer", system, work);
        // XFS wants 300 MiB.
        run_settings.disk.size = 512 << 20;
        let (outcome, text) = run(&run_settings).unwrap_or_else(|error| panic!("{maker}: {error}"));
        assert!(outcome.status == 0 && text.contains(&format!("/mnt {name} ")), "{name}: {text}");
        run_settings.program = ["cat", "file"].map(str::to_owned).to_vec();
        let cuts = Cuts { settings: &run_settings, history: &outcome.history, output: b"" };
        let chosen = cuts.choose(outcome.phase.last, outcome.phase.last, 4, 1);
        let verdicts = cuts.make_all(&chosen, 2).expect("checks");
        assert!(verdicts.iter().all(|verdict| !verdict.is_loss()), "{name}: {verdicts:?}");
    }
}

#[test]
fn the_loopback_works_and_a_program_that_wants_another_network_is_told() {
    let Some(kernel) = kernel() else { return };
    let connect = |address: &str| {
        format!(
            "perl -MIO::Socket -e 'my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => \
                 \"127.0.0.1:999\") or die; IO::Socket::INET->new(\"{address}:999\") or die $!'"
        )
    };
    let try_it = |address: &str| {
        let settings = settings(kernel.clone(), "null", FileSystem::None, &connect(address));
        let (outcome, text) = run(&settings).expect("a run");
        (outcome.status == 0, outcome.has_missed_network, text)
    };
    assert_eq!(try_it("127.0.0.1"), (true, false, String::new()));
    let (succeeded, missed, text) = try_it("192.0.2.1");
    assert!(!succeeded && missed && text.contains("unreachable"), "{text}");
}

/// Runs a program on a host that refuses these system calls.
fn run_without(
    calls: &[libc::c_long],
    settings: &Settings,
) -> Result<(Outcome, String), TwinError> {
    let rules = calls.iter().map(|&call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let processor = std::env::consts::ARCH.try_into().expect("a known processor");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, processor);
    let filter: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
    let work = || {
        apply_filter(&filter).expect("a host with seccomp");
        run(settings)
    };
    std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}

#[test]
fn a_host_without_seccomp_uses_ptrace_and_one_without_both_is_told() {
    let Some(kernel) = kernel() else { return };
    let settings = settings(kernel, "null", FileSystem::None, "echo works");
    let (outcome, text) = run(&settings).expect("a run");
    assert!(outcome.is_repeatable && text == "works\n", "{text}");
    let (outcome, text) = run_without(&[libc::SYS_seccomp], &settings).expect("a run by ptrace");
    assert!(!outcome.is_repeatable && text == "works\n", "{text}");
    let error = run_without(&[libc::SYS_seccomp, libc::SYS_ptrace], &settings);
    let error = error.expect_err("no kernel can run").to_string();
    assert!(error.contains("needs seccomp filters or ptrace"), "{error}");
}

#[test]
fn what_cannot_run_is_said_in_one_line() {
    let missing = find_kernel("0.1").expect_err("no such kernel").to_string();
    assert!(missing.contains("cargo xtask twin build --kernel 0.1"), "{missing}");
    let mut other = settings("/bin/true".into(), "null", FileSystem::None, "true");
    other.patience = Duration::from_millis(300);
    assert!(matches!(run(&other), Err(TwinError::NoStart(_))));
    let script = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
    let deaf = "#!/usr/bin/perl\nuse IO::Socket::UNIX;\n\
                my $disk = IO::Socket::UNIX->new(Peer => \"disk\"); sleep 100;\n";
    std::fs::write(&script, deaf).expect("a script");
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("its mode");
    let without_clock = Settings { kernel: script.to_path_buf(), ..other.clone() };
    assert!(matches!(run(&without_clock), Err(TwinError::NoClock)));
    other.disk.device = "nothing".into();
    assert!(matches!(run(&other), Err(TwinError::Device(_))));
    other.disk.device = "null".into();
    other.memory = 1 << 50;
    assert!(matches!(run(&other), Err(TwinError::NoRoom { .. })));
    let Some(kernel) = kernel() else { return };
    let mut spins = settings(kernel, "null", FileSystem::None, "while :; do :; done");
    spins.patience = Duration::from_secs(5);
    let error = run(&spins).expect_err("virtual time stands still");
    assert!(matches!(error, TwinError::Spins(5)), "{error}");
    spins.queue = vec![("no_such_file".into(), "1".into())];
    assert!(matches!(run(&spins), Err(TwinError::Step)));
}
