//! Tests `elevon serve` with more of what clients of other projects do: many requests in flight,
//! requests that no polite client sends, images, and a proxy.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};

use crate::common::nbd::{Client, READ, WRITE};
use crate::common::served::{DISK, Served, ok};

/// Returns bytes of which some blocks are zero.
fn pattern() -> Vec<u8> {
    let of_block = |block: usize| {
        (0..4096_usize)
            .map(move |at| if block % 5 < 2 { 0 } else { (block * 7 + at * 31 + (at >> 8)) as u8 })
    };
    (0..DISK / 4096).flat_map(of_block).collect()
}

/// Runs a script of Python with libnbd: `h` is a handle, `uri` the export's address.
fn nbdsh(served: &Served, script: &str) -> bool {
    let head = "
import errno
def fails(number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, (error, number)
    else:
        raise AssertionError('it succeeded')
";
    let script = format!("uri = '{}'\n{head}{script}", served.uri);
    let Some(mut command) = elevon_testkit::tool("nbdsh") else { return false };
    // Another Python that comes first in PATH does not have libnbd's module.
    command.current_dir(served.bench.path("")).env("PATH", "/usr/bin:/bin").args(["-c", &script]);
    ok(&command.output().expect("the tool ran"));
    true
}

#[test]
fn odd_requests_are_answered_and_the_connection_goes_on() {
    let served = Served::start(&[]);
    nbdsh(
        &served,
        "
h.add_meta_context('base:allocation')
h.connect_uri(uri)
h.set_strict_mode(0)
size = h.get_size()
h.pwrite(b'x' * 512, 512)
fails(errno.EINVAL, lambda: h.pread(512, size))
fails(errno.EINVAL, lambda: h.pread(1024, size - 512))
fails(errno.ENOSPC, lambda: h.pwrite(b'y' * 1024, size - 512))
fails(errno.ENOSPC, lambda: h.zero(512, size))
fails(errno.EINVAL, lambda: h.trim(512, size))
assert h.pread(100, 462) == b'\\0' * 50 + b'x' * 50
fails(errno.EINVAL, lambda: h.pread(512, 2**63 - 512))
fails(errno.EINVAL, lambda: h.pread(512, 0, 1 << 12))
fails(errno.EINVAL, lambda: h.pwrite(b'y' * 512, 0, nbd.CMD_FLAG_REQ_ONE))
h.zero(512, 4096, nbd.CMD_FLAG_FAST_ZERO)
fails(errno.EINVAL, lambda: h.block_status(0, 0, lambda *a: 0))
# One that no disk of this size serves, but that is read past.
fails(errno.ENOSPC, lambda: h.pwrite(b'z' * (33 << 20), 0))
# FUA is allowed on every command, and so are requests of no bytes.
assert h.pread(512, 512, nbd.CMD_FLAG_FUA) == b'x' * 512
h.pwrite(b'', 0)
h.flush()
h.trim(512, 1024, nbd.CMD_FLAG_FUA)
h.zero(512, 1536, nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_NO_HOLE)
h.cache(4096, 0)
extents = []
h.block_status(size, 0, lambda name, offset, entries, error: extents.extend(entries))
assert sum(extents[::2]) == size, extents
chunks = []
h.pread_structured(1024, 512, lambda data, offset, status, error: chunks.append((offset, len(data))), nbd.CMD_FLAG_DF)
assert chunks == [(512, 1024)], chunks
h.shutdown()
",
    );
    served.end();
}

#[test]
fn a_client_that_was_told_large_blocks_is_held_to_them() {
    let served = Served::run(crate::common::Bench::new(), &["ufs-3.1", "--listen", "unix:s"]);
    nbdsh(
        &served,
        "
h.connect_uri(uri)
h.set_strict_mode(0)
assert h.get_block_size(nbd.SIZE_MINIMUM) == 4096
fails(errno.EINVAL, lambda: h.pread(100, 0))
fails(errno.EINVAL, lambda: h.pread(4096, 7))
fails(errno.EINVAL, lambda: h.pwrite(b'y' * 512, 0))
assert h.pread(4096, 4096) == bytes(4096)
h.shutdown()
# One that did not ask may ask for anything.
other = nbd.NBD()
other.set_request_block_size(False)
other.connect_uri(uri)
other.set_strict_mode(0)
other.pwrite(b'y' * 100, 4090)
assert other.pread(102, 4089) == b'\\0' + b'y' * 100 + b'\\0'
other.shutdown()
",
    );
    served.end();
}

/// qemu as a client hands the disk on, and so does libnbd to the kernel's FUSE.
#[test]
fn the_disk_is_handed_on_by_qemu_and_by_fuse() {
    let served = Served::start(&["--scheduler", "bfq"]);
    let path = |name: &str| served.bench.path(name).display().to_string();
    if !elevon_testkit::tools(&["qemu-storage-daemon", "qemu-io"]) {
        return;
    }
    let mut daemon = Command::new("qemu-storage-daemon");
    let node = format!(
        "driver=nbd,node-name=n,server.type=unix,server.path={},export=disk.img",
        path("s")
    );
    let listen = format!("addr.type=unix,addr.path={}", path("q"));
    daemon.args([
        "--blockdev",
        &node,
        "--nbd-server",
        &listen,
        "--export",
        "nbd,id=e,node-name=n,name=x,writable=on",
    ]);
    let mut daemon = daemon.spawn().expect("it started");
    crate::common::nbdkit::until("it listens", || served.bench.path("q").exists());
    let through = format!("nbd+unix:///x?socket={}", path("q"));
    let commands = [
        "write -P 7 1001 70000",
        "read -P 7 1001 70000",
        "write -z 5000 3000",
        "discard 1M 2M",
        "flush",
    ];
    ok(&served.qemu_io(&through, &commands).expect("installed"));
    daemon.kill().and_then(|()| daemon.wait()).expect("it ended");
    ok(&served
        .qemu_io(&served.uri, &["read -P 0 5000 3000", "read -P 7 8000 63001"])
        .expect("installed"));
    // The helper of FUSE mounts for users other than root, and unmounts.
    if std::path::Path::new("/dev/fuse").exists()
        && elevon_testkit::tools(&["nbdfuse", "fusermount3"])
    {
        fs::create_dir(served.bench.path("mount")).expect("a folder");
        let mut fuse = Command::new("nbdfuse")
            .args([&path("mount"), "--unix", &path("s")])
            .spawn()
            .expect("it started");
        let file = served.bench.path("mount/nbd");
        crate::common::nbdkit::until("it is mounted", || file.exists());
        let mut disk = fs::OpenOptions::new().read(true).write(true).open(&file).expect("a file");
        let bytes: Vec<u8> = (0..10_101_u32).map(|at| (at % 251) as u8).collect();
        disk.seek(SeekFrom::Start(2331)).and_then(|_| disk.write_all(&bytes)).expect("any range");
        let mut back = vec![0; bytes.len()];
        disk.seek(SeekFrom::Start(2331))
            .and_then(|_| disk.read_exact(&mut back))
            .expect("any range");
        assert!(back == bytes);
        disk.sync_all().expect("it flushes");
        drop(disk);
        ok(&served.client("fusermount3", &["-u", "mount"]).expect("installed"));
        fuse.wait().expect("it ended");
        assert!(
            fs::read(served.bench.path("disk.img")).expect("the disk")[2331..][..bytes.len()]
                == bytes
        );
    }
    served.end();
}

/// What a client without block sizes does: neighbours that share a sector are in flight at once on
/// three connections, and every READ is held against plain memory.
const ANY_RANGE: &str = "
import random
rng = random.Random(1)
h.set_request_block_size(False)
h.add_meta_context('base:allocation')
h.connect_uri(uri)
h.set_strict_mode(0)
others = [nbd.NBD() for _ in range(2)]
for other in others:
    other.set_request_block_size(False)
    other.connect_uri(uri)
    other.set_strict_mode(0)
handles = [h] + others
size = h.get_size()
disk = bytearray(size)
for turn in range(40):
    base = rng.randrange(size - 4096)
    cut = sorted(rng.sample(range(1, 3000), 8))
    left = []
    for at, (start, end) in enumerate(zip([0] + cut, cut)):
        data = rng.randbytes(end - start)
        disk[base + start:base + end] = data
        handle = handles[at % 3]
        buffer = nbd.Buffer.from_bytearray(bytearray(data))
        left.append((handle, handle.aio_pwrite(buffer, base + start), buffer))
    while left:
        left = [(handle, cookie, buffer) for handle, cookie, buffer in left if not handle.aio_command_completed(cookie)]
        for handle in {handle for handle, _, _ in left}:
            handle.poll(1)
for turn in range(100):
    start = rng.randrange(size - 70000)
    length = rng.randrange(1, 70000)
    handle = rng.choice(handles)
    if turn % 4 == 0:
        handle.zero(length, start, rng.choice([0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FUA]))
        disk[start:start + length] = bytes(length)
    elif turn % 4 == 1:
        handle.trim(length, start)
        # Only whole blocks, of 512 bytes or more, may have changed.
        now = h.pread(length, start)
        first = min(-start % 512, length)
        assert now[:first] == disk[start:start + first]
        disk[start:start + length] = now
    else:
        data = rng.randbytes(length)
        handle.pwrite(data, start, rng.choice([0, nbd.CMD_FLAG_FUA]))
        disk[start:start + length] = data
    start = rng.randrange(size - 70000)
    length = rng.randrange(1, 70000)
    assert rng.choice(handles).pread(length, start) == disk[start:start + length], turn
long = rng.randbytes(5 << 20)
h.pwrite(long[:3 << 20], 12345)
disk[12345:12345 + (3 << 20)] = long[:3 << 20]
h.cache(100, 7)
extents = []
h.block_status(size - 2000, 1001, lambda name, offset, entries, error: extents.extend(entries))
assert 0 < sum(extents[::2]) <= size - 2000
h.flush()
assert h.pread(size, 0) == disk
open('expected', 'wb').write(disk)
";

/// libnbd that does not ask for block sizes may ask for any range of bytes, as at nbdkit.
#[test]
fn a_client_without_block_sizes_reads_and_writes_any_range() {
    for options in [&[][..], &["--direct"], &["--cache", "256KiB"], &["--scheduler", "bfq"]] {
        let served = Served::start(options);
        let has_run = nbdsh(&served, ANY_RANGE);
        let bench = served.ended();
        if has_run {
            let read = |name| fs::read(bench.path(name)).expect("a file");
            assert!(read("disk.img") == read("expected"), "{options:?}");
        }
    }
}

#[test]
fn options_may_come_in_any_number() {
    let served = Served::start(&[]);
    nbdsh(
        &served,
        "
h.set_opt_mode(True)
h.connect_uri(uri)
assert h.aio_is_negotiating()
names = []
h.opt_list(lambda name, description: names.append(name))
assert names == ['disk.img'], names
h.set_export_name('other')
fails(errno.ENOENT, h.opt_info)
fails(errno.ENOENT, h.opt_go)
h.set_export_name('disk.img')
for _ in range(20):
    h.opt_info()
contexts = []
h.opt_list_meta_context(lambda name: contexts.append(name))
assert contexts == ['base:allocation'], contexts
h.opt_go()
assert h.get_size() == 8 << 20
h.pwrite(b'a' * 4096, 0)
h.shutdown()

left = nbd.NBD()
left.set_opt_mode(True)
left.connect_uri(uri)
left.opt_abort()
",
    );
    served.end();
}

#[test]
fn many_requests_in_flight_are_each_answered_once() {
    let served = Served::start(&["--scheduler", "bfq"]);
    let has_run = nbdsh(
        &served,
        "
h.connect_uri(uri)
others = [nbd.NBD() for _ in range(3)]
for other in others:
    other.connect_uri(uri)
handles = [h] + others
answered = [0]
def done(at):
    def completed(error):
        assert error.value == 0
        answered[0] += 1
        return 1
    return completed
buffers = {}
for at in range(512):
    data = bytes([at % 251]) * 4096
    buffers[at] = nbd.Buffer.from_bytearray(bytearray(data))
    handles[at % 4].aio_pwrite(buffers[at], at * 4096, done(at))
def drain(total):
    while answered[0] < total:
        for handle in handles:
            if handle.aio_in_flight():
                handle.poll(-1)
drain(512)
h.flush()
read = {}
for at in range(512):
    read[at] = nbd.Buffer(4096)
    handles[(at + 1) % 4].aio_pread(read[at], at * 4096, done(at))
drain(1024)
for at in range(512):
    assert read[at].to_bytearray() == bytes([at % 251]) * 4096, at
# A client that hangs up with requests in flight.
for at in range(64):
    others[0].aio_pread(nbd.Buffer(1 << 20), 0)
del others[0]
for handle in handles[:1]:
    assert handle.pread(4096, 4096) == bytes([1]) * 4096
",
    );
    let disk = fs::read(served.bench.path("disk.img")).expect("the disk");
    assert!(!has_run || disk[4096..8192].iter().all(|&byte| byte == 1));
    served.end();
}

#[test]
fn qemu_converts_images_to_and_from_a_disk() {
    for options in [["--scheduler", "aileron"], ["--cache", "1MiB"]] {
        convert_by_qemu(Served::start(&options));
    }
}

fn convert_by_qemu(served: Served) {
    served.bench.file("pattern", pattern());
    let img = |args: &[&str]| served.client("qemu-img", args);
    let Some(output) = img(&["convert", "-f", "raw", "-O", "qcow2", "pattern", "p.qcow2"]) else {
        return;
    };
    ok(&output);
    ok(&img(&[
        "convert",
        "-n",
        "-W",
        "-m",
        "8",
        "-f",
        "qcow2",
        "-O",
        "raw",
        "p.qcow2",
        &served.uri,
    ])
    .expect("installed"));
    let compared =
        ok(&img(&["compare", "-f", "raw", "-F", "qcow2", &served.uri, "p.qcow2"])
            .expect("installed"));
    assert!(compared.contains("Images are identical."), "{compared}");
    ok(&img(&["convert", "-f", "raw", "-O", "qcow2", &served.uri, "back.qcow2"])
        .expect("installed"));
    let compared =
        ok(&img(&["compare", "-f", "raw", "-F", "qcow2", "pattern", "back.qcow2"])
            .expect("installed"));
    assert!(compared.contains("Images are identical."), "{compared}");
    let map = ok(&img(&["map", "--output", "json", "-f", "raw", &served.uri]).expect("installed"));
    let map: serde_json::Value = serde_json::from_str(&map).expect("JSON");
    let bytes: u64 = map
        .as_array()
        .expect("extents")
        .iter()
        .filter_map(|extent| extent["length"].as_u64())
        .sum();
    assert_eq!(bytes, DISK as u64);
    let compared =
        img(&["compare", "-f", "raw", "-F", "raw", &served.uri, "pattern"]).expect("installed");
    ok(&compared);
    // Nothing is lost by the end of the server.
    let bench = served.ended();
    assert!(fs::read(bench.path("disk.img")).expect("the disk") == pattern());
}

#[test]
fn libnbd_copies_with_many_connections() {
    for options in [["--scheduler", "mq-deadline"], ["--cache", "1MiB"]] {
        copy_by_libnbd(Served::start(&options));
    }
}

fn copy_by_libnbd(served: Served) {
    let bytes = pattern();
    served.bench.file("pattern", &bytes);
    let many = ["--connections", "4", "--requests", "64", "--threads", "4"];
    let copy = |from: &str, to: &str| {
        served.client("nbdcopy", &[&many[..], &["--flush", from, to]].concat())
    };
    let Some(output) = copy("pattern", &served.uri) else { return };
    ok(&output);
    assert!(fs::read(served.bench.path("disk.img")).expect("the disk") == bytes);
    ok(&copy(&served.uri, "back").expect("installed"));
    assert!(fs::read(served.bench.path("back")).expect("the copy") == bytes);
    served.end();
}

#[test]
fn fio_verifies_with_several_connections_and_flushes() {
    for options in [
        &[][..],
        &["--cache", "1MiB"],
        &["--cache", "256KiB,write-through", "--set", "cache=sieve"],
    ] {
        let served = Served::start(options);
        verify_by_fio(&served);
        served.end();
    }
}

fn verify_by_fio(served: &Served) {
    let uri = format!("--uri={}", served.uri);
    let common =
        ["--ioengine=nbd", &uri, "--bs=4k", "--size=1m", "--offset_increment=1m", "--numjobs=4"];
    let job = [
        "--name=a",
        "--rw=randrw",
        "--rwmixread=30",
        "--iodepth=16",
        "--fsync=8",
        "--verify=crc32c",
    ];
    let Some(output) = served.client("fio", &[&job[..], &common, &["--do_verify=1"]].concat())
    else {
        return;
    };
    ok(&output);
    // What one run wrote, another reads.
    let write = ["--name=b", "--rw=randwrite", "--iodepth=32", "--verify=crc32c", "--do_verify=0"];
    ok(&served.client("fio", &[&write[..], &common].concat()).expect("installed"));
    let verify = ["--name=b", "--rw=randwrite", "--iodepth=32", "--verify=crc32c", "--verify_only"];
    ok(&served.client("fio", &[&verify[..], &common].concat()).expect("installed"));
    let trim = ["--name=c", "--rw=randtrim", "--iodepth=8"];
    ok(&served.client("fio", &[&trim[..], &common].concat()).expect("installed"));
}

#[test]
fn nbdkit_hands_a_disk_on() {
    let served = Served::start(&[]);
    let bytes = pattern();
    served.bench.file("pattern", &bytes);
    let uri = format!("uri={}", served.uri);
    // The copy goes through nbdkit, then once more through a filter that compares what is written
    // with what is there.
    let run = |filters: &[&str], commands: &str| {
        served
            .client("nbdkit", &[&["-U", "-"], filters, &["nbd", &uri, "--run", commands]].concat())
    };
    if !elevon_testkit::tools(&["nbdkit", "nbdcopy"]) {
        return;
    }
    let Some(output) = run(&[], "nbdcopy --flush pattern \"$uri\" && nbdcopy \"$uri\" back") else {
        return;
    };
    ok(&output);
    assert!(fs::read(served.bench.path("disk.img")).expect("the disk") == bytes);
    assert!(fs::read(served.bench.path("back")).expect("the copy") == bytes);
    ok(&run(&["--filter=checkwrite"], "nbdcopy pattern \"$uri\"").expect("installed"));
    served.end();
}

/// Clients that do not take their replies, that ask for what is refused, or that leave in the
/// middle of a payload, on the same device as one that behaves.
#[test]
fn a_client_that_takes_no_answer_keeps_nobody_waiting() {
    let served = Served::start(&[]);
    let open = || Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    let [mut greedy, mut refused, mut torn, mut good] = [(); 4].map(|()| open());
    // 64 MiB, of which the server may hold 16 and the socket much less.
    let asked: Vec<u64> =
        (0..64).map(|_| greedy.send(0, READ, 0, 1 << 20, &[]).expect("sent")).collect();
    for _ in 0..2_000 {
        refused.send(0, READ, 1, 512, &[]).expect("sent");
    }
    torn.send(0, WRITE, 1 << 20, 2 << 20, &[5; 1 << 20]).expect("sent");
    drop(torn);
    for at in 0..200 {
        assert_eq!(good.write(0, 4096 * at, &[at as u8; 4096]).expect("an answer"), 0);
        assert_eq!(good.read(4096 * at, 4096).expect("an answer"), Ok(vec![at as u8; 4096]));
    }
    // Nothing was lost of what is taken late.
    let mut answered = Vec::new();
    for _ in &asked {
        let (cookie, errno) = greedy.answer().expect("an answer");
        assert_eq!((errno, greedy.data(1 << 20).expect("its data").len()), (0, 1 << 20));
        answered.push(cookie);
    }
    answered.sort_unstable();
    assert_eq!(answered, asked);
    assert_eq!(
        good.read(2 << 20, 4096).expect("an answer"),
        Ok(vec![0; 4096]),
        "half a request is none"
    );
    drop(refused);
    served.end();
}

/// Clients that ask for more than the server keeps in memory, and take no answer, have what they
/// asked for once others take theirs.
#[test]
fn memory_for_requests_has_a_bound_over_all_clients() {
    const LONGEST: u32 = 32 << 20;
    let bench = crate::common::Bench::new();
    fs::File::create(bench.path("disk.img"))
        .and_then(|file| file.set_len(LONGEST.into()))
        .expect("a sparse file");
    let served =
        Served::run(bench, &["disk.img", "--listen", "unix:s", "--request-memory", "128MiB"]);
    let open = || Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    let mut clients: Vec<Client> = (0..20).map(|_| open()).collect();
    for client in &mut clients {
        client.send(0, READ, 0, LONGEST, &[]).expect("sent");
    }
    let mut other = open();
    assert_eq!(other.write(0, 0, &[7; 256 << 10]).expect("an answer"), 0);
    // All at once: the server may have taken the requests in any order, and the first waits for the
    // clients whose answers are in memory.
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                assert_eq!(client.answer().expect("an answer").1, 0);
                assert_eq!(client.data(LONGEST).expect("its data").len(), LONGEST as usize);
            });
        }
    });
    let status =
        fs::read_to_string(format!("/proc/{}/status", served.child.id())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    let kib: u64 =
        peak.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number");
    // What each may have, and the program itself.
    assert!(
        kib < (128 + 20 + 60) << 10,
        "{kib} KiB, where every request in memory at once takes 660 MiB"
    );
    served.end();
}

/// Linux's own client asks for no block sizes. There may be no device that it could attach the
/// disk to, but the server has given it by then.
#[test]
fn the_client_of_linux_opens_the_disk() {
    let bench = crate::common::Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let Some(mut client) = elevon_testkit::tool("nbd-client") else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command
        .args(["serve", "disk.img", "--listen", "unix:s", "--log-level", "debug"])
        .stderr(Stdio::piped());
    let mut served = Served::of_command(bench, command);
    let socket = served.bench.path("s");
    let args = [&["-N", "disk.img", "-unix"], &[socket.to_str().expect("UTF-8"), "/dev/nbd0"][..]]
        .concat();
    let output = client.args(args).output().expect("it ran");
    let mut log = BufReader::new(served.child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    log.read_line(&mut line).expect("UTF-8");
    assert!(
        line.contains(": opened export disk.img, by "),
        "{line}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Where there is one, it is given back.
    let _ = Command::new("nbd-client").args(["-d", "/dev/nbd0"]).output();
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    served.end();
}

/// 400 reads and more; 15 to some 100 while the server did not enter the ring between turns. Where
/// the machine does something else, the reader gets fewer turns than there are: one round of twelve
/// shows that there are.
#[test]
fn a_flood_of_requests_leaves_others_their_turn() {
    const CACHE: u16 = 5;
    const FLOOD: usize = 2_000;
    let served = Served::start(&["--cache", "16MiB"]);
    let open = || Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    let mut other = open();
    let ahead = (0, DISK as u32);
    let mut reads = || {
        let mut hostile = open();
        hostile.send_many(CACHE, &[ahead]).expect("it is taken");
        hostile.answer().expect("an answer");
        // Once this is answered, all of the disk is in memory.
        other.read(DISK as u64 - 4096, 4096).expect("an answer").expect("a block");
        let flood = std::thread::spawn(move || {
            hostile.send_many(CACHE, &[ahead; FLOOD]).expect("it is taken");
            for _ in 0..FLOOD {
                hostile.answer().expect("an answer");
            }
        });
        let mut reads = 0;
        while !flood.is_finished() {
            other.read(0, 4096).expect("an answer").expect("a block");
            reads += 1;
        }
        flood.join().expect("every request was answered");
        reads
    };
    let mut rounds = Vec::new();
    while rounds.last().is_none_or(|&reads: &u32| reads <= 150) {
        assert!(rounds.len() < 12, "{rounds:?} reads beside {FLOOD} requests");
        rounds.push(reads());
    }
    served.end();
}
