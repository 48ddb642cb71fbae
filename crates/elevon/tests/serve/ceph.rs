//! Tests Elevon before a real Ceph: a cluster of one machine, qemu-nbd before its images, and
//! clients of other projects.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::common::Bench;
use crate::common::nbdkit::{Killed, until};
use crate::common::served::{Served, ok};

const TOOLS: [&str; 10] = [
    "unshare", "ip", "ceph-mon", "ceph-mgr", "ceph-osd", "rbd", "qemu-nbd", "qemu-io", "nbdinfo",
    "fio",
];

const MIB: u64 = 1 << 20;

/// A cluster, as the shell that started it. It ends with the shell.
struct Cluster {
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Cluster {
    /// Starts a cluster in a folder; `None` if it cannot be here.
    fn start(folder: &Path) -> Option<Self> {
        if !elevon_testkit::tools(&TOOLS) {
            return None;
        }
        let modules = ["/usr/lib/x86_64-linux-gnu/qemu", "/usr/lib/aarch64-linux-gnu/qemu"];
        if !modules.iter().any(|folder| Path::new(folder).join("block-rbd.so").exists()) {
            elevon_testkit::skip("qemu-nbd has no RBD: qemu-block-extra is not installed");
            return None;
        }
        // With the first process of their namespace its daemons end.
        let namespaces = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
        let may = Command::new("unshare").args(namespaces).arg("true").output();
        if !may.is_ok_and(|output| output.status.success()) {
            elevon_testkit::denied("namespaces for networks and processes need root");
            return None;
        }
        std::fs::create_dir_all(folder).expect("a folder");
        let mut command = Command::new("unshare");
        command.args(namespaces).arg("bash").current_dir(folder);
        let mut shell =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let input = shell.stdin.take().expect("a pipe");
        let output = BufReader::new(shell.stdout.take().expect("a pipe"));
        let mut cluster = Self { shell, input, output };
        cluster.input.write_all(include_bytes!("ceph/cluster.sh")).expect("sent");
        cluster.run("start");
        Some(cluster)
    }

    /// Runs a line of shell in the cluster. Returns whether it succeeded, and what it printed.
    fn try_run(&mut self, line: &str) -> (bool, String) {
        // A daemon that a line starts must not keep the pipe.
        let all = format!("{{ {line}; }} >said 2>&1 </dev/null; echo \"ended $?\"\n");
        self.input.write_all(all.as_bytes()).expect("sent");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("an answer");
        let path = format!("/proc/{}/cwd/said", self.shell.id());
        (answer == "ended 0\n", std::fs::read_to_string(path).unwrap_or_default())
    }

    #[track_caller]
    fn run(&mut self, line: &str) -> String {
        let (has_succeeded, said) = self.try_run(line);
        assert!(has_succeeded, "{line}: {said}");
        said
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Two images: one of two tenants by weight, and one of a tenant with a limit.
const CONFIG: &str = "\
listen = 'unix:s'
control = 'ctl'
[device.one]
device = 'nbd+unix:///?socket=ceph/one.sock'
scheduler = 'aileron'
[device.two]
device = 'nbd+unix:///?socket=ceph/two.sock'
[export.gold]
device = 'one'
size = '32MiB'
[export.bronze]
device = 'one'
start = '32MiB'
[export.limited]
device = 'two'
[tenant.gold]
weight = 300
[tenant.bronze]
weight = 100
[tenant.limited]
limit = { iops = 20 }
";

/// Runs fio on an export, with further words.
fn fio(served: &Served, export: &str, words: &[&str]) -> Child {
    let mut command = elevon_testkit::tool("fio").expect("looked for");
    let uri = format!("--uri={}", served.of_export(export));
    command.args(["--name=a", "--ioengine=nbd", "--bs=4k", "--output-format=json", &uri]);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.current_dir(served.bench.path("")).spawn().expect("fio ran")
}

/// Waits for fio, which must succeed. Returns what it says of its job.
#[track_caller]
fn job_of(fio: Child) -> serde_json::Value {
    let said = ok(&fio.wait_with_output().expect("it ended"));
    let from = said.find('{').expect("JSON");
    let report: serde_json::Value = serde_json::from_str(&said[from..]).expect("JSON");
    report["jobs"][0].clone()
}

#[test]
fn a_cluster_of_ceph_is_served_as_any_disk() {
    let bench = Bench::new();
    let Some(mut cluster) = Cluster::start(&bench.path("ceph")) else { return };
    for name in ["one", "two"] {
        cluster.run(&format!("rbd create rbd/{name} --size 64M"));
        cluster.run(&format!("serve {name} {name}"));
    }
    bench.file("c.toml", CONFIG);
    let served = Served::run(bench, &["c.toml"]);
    an_osd_goes_and_comes(&served, &mut cluster);
    a_snapshot_is_served(&served, &mut cluster);
    an_image_grows(&served, &mut cluster);
    tenants_have_limits_and_weights(&served);
    servers_on_one_image_are_refused(&served, &mut cluster);
    served.end();
}

/// fio verifies while the only OSD is killed and started.
fn an_osd_goes_and_comes(served: &Served, cluster: &mut Cluster) {
    let words = ["--rw=randwrite", "--size=16m", "--iodepth=16", "--verify=crc32c", "--fsync=64"];
    // What was never written is read without an OSD.
    ok(&served.qemu_io(&served.of_export("limited"), &["write 0 4k"]).expect("looked for"));
    let mut verify = fio(served, "gold", &words);
    for _ in 0..2 {
        // So much is there when it goes, and so much is asked for while it is away.
        let before = served.answered("gold");
        until("fio writes", || served.answered("gold") >= before + 200);
        cluster.run("kill_osd");
        assert!(verify.try_wait().expect("asked").is_none(), "fio is not done");
        let mut client = elevon_testkit::tool("qemu-io").expect("looked for");
        client.args(["-f", "raw", "-c", "read 0 4k", &served.of_export("limited")]);
        let mut waiting = client.stdout(Stdio::null()).spawn().expect("qemu-io ran");
        cluster.run("sleep 2");
        assert!(waiting.try_wait().expect("asked").is_none(), "a read waits for the OSD");
        cluster.run("start_osd");
        assert!(waiting.wait().expect("it ended").success());
    }
    assert_eq!(job_of(verify)["error"], 0);
}

/// A snapshot is an image of its own, which a reload adds.
fn a_snapshot_is_served(served: &Served, cluster: &mut Cluster) {
    let io = |export: &str, options: &[&str], commands: &[&str]| {
        let uri = served.of_export(export);
        let words: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
        let args = [options, &["-f", "raw", &uri], &words].concat();
        ok(&served.client("qemu-io", &args).expect("looked for"));
    };
    io("gold", &[], &["write -P 7 0 1M", "flush"]);
    cluster.run("rbd snap create rbd/one@before");
    io("gold", &[], &["write -P 8 0 1M", "flush"]);
    cluster.run("serve before one@before --read-only");
    let with_snapshot = format!(
        "{CONFIG}[device.before]\ndevice = 'nbd+unix:///?socket=ceph/before.sock'\n\
         [export.before]\ndevice = 'before'\nread_only = true\n"
    );
    served.bench.file("c.toml", with_snapshot);
    served.bench.stdout(&["ctl", "ctl", "reload"]);
    io("before", &["-r"], &["read -P 7 0 1M"]);
    io("gold", &[], &["read -P 8 0 1M"]);
}

/// An image that has grown is served whole after its qemu-nbd was started again, which looks at the
/// size once, and a reload.
fn an_image_grows(served: &Served, cluster: &mut Cluster) {
    let size =
        || ok(&served.client("nbdinfo", &["--size", &served.of_export("bronze")]).expect("it ran"));
    assert_eq!(size().trim(), (32 * MIB).to_string());
    cluster.run("rbd resize rbd/one --size 96M");
    // From now on it is slower than this machine, so what weights divide is its time.
    cluster.run("rbd config image set rbd/one rbd_qos_iops_limit 200");
    cluster.run("leave one && serve one one");
    until("the disk has grown", || {
        served.bench.stdout(&["ctl", "ctl", "reload"]);
        size().trim() == (64 * MIB).to_string()
    });
    let (uri, commands) = (served.of_export("bronze"), ["write -P 9 60M 4M", "read -P 9 60M 4M"]);
    ok(&served.qemu_io(&uri, &commands).expect("looked for"));
}

/// Shares are counted by the server while both read, and the limited rate by fio.
fn tenants_have_limits_and_weights(served: &Served) {
    const COUNTED: u64 = 1000;
    let words = ["--rw=randread", "--size=16m", "--time_based", "--runtime=300", "--iodepth=96"];
    let shared = ["gold", "bronze"];
    let before = shared.map(|export| served.answered(export));
    let readers = shared.map(|export| Killed(fio(served, export, &words)));
    let counts = || shared.map(|export| served.answered(export));
    until("both read", || counts().iter().zip(before).all(|(now, before)| *now > before + 100));
    let before = counts();
    until("so many were read", || served.answered("gold") >= before[0] + COUNTED);
    let after = counts();
    drop(readers);
    let [gold, bronze] = [0, 1].map(|at| (after[at] - before[at]) as f64);
    let limited =
        job_of(fio(served, "limited", &[&words[..3], &["--runtime=10", "--iodepth=8"]].concat()));
    let limited = limited["read"]["iops"].as_f64().expect("a rate");
    println!("{gold} and {bronze} reads by weights 3:1, {limited:.1} of 20 a second");
    let share = gold / (gold + bronze);
    assert!((share - 0.75).abs() <= 0.05 * 0.75, "{share:.3}");
    assert!((limited - 20.0).abs() <= 1.0, "{limited:.1}");
}

fn servers_on_one_image_are_refused(served: &Served, cluster: &mut Cluster) {
    // Of this machine a second one is refused by the claim, unless it is allowed.
    let second = "listen = 'unix:t'\n[device.d]\ndevice = 'nbd+unix:///?socket=ceph/two.sock'\n\
                  connections = 1\n[export.e]\n";
    served.bench.file("second.toml", second);
    let output = served.bench.elevon(&["serve", "second.toml"]).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let words =
        format!("another server of this machine writes it: pid {} of uid", served.child.id());
    assert!(stderr.contains(&words) && stderr.lines().count() == 1, "{stderr}");
    // Of another machine it has a qemu-nbd of its own. Its unit asks the cluster first.
    let (is_free, said) = cluster.try_run("is_free two");
    assert!(!is_free, "qemu-nbd has it open: {said}");
    cluster.run("rbd create rbd/three --size 64M");
    cluster.run("is_free three");
    // Or it comes to the same qemu-nbd, which serves as many connections as one Elevon has.
    let elsewhere = format!("nbd+unix:///?socket={}", served.bench.path("ceph/two.sock").display());
    let mut other = Command::new("unshare");
    other.args(["--net", env!("CARGO_BIN_EXE_elevon"), "serve", &elsewhere]);
    other.args(["--listen", "unix:u"]).current_dir(served.bench.path(""));
    let output = other.output().expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && stderr.contains("two.sock"), "{stderr}");
}
