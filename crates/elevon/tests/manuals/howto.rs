//! The pages of `docs/how-to` do what they say: each block of commands whose first line begins with
//! `#!` is run as it stands, in one folder for each page. A block that starts a server goes on
//! until the end of its page.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use elevon_testkit::{signal, tools};

/// A server that a page started, and its output.
struct Server {
    child: Child,
    _stdout: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(&self.child, "TERM");
        let _ = self.child.wait();
    }
}

/// Returns the blocks to be run.
fn blocks(page: &str) -> Vec<&str> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```\n"));
    blocks.map(|(block, _)| block).filter(|block| block.starts_with("#!")).collect()
}

fn shell(block: &str, folder: &Path) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_elevon")).parent().expect("a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-ec", block]).env("PATH", path).current_dir(folder).stdin(Stdio::null());
    shell
}

/// Runs a block. Returns the server that it started.
fn run(block: &str, folder: &Path) -> Option<Server> {
    let serves = |line: &str| line.starts_with("elevon serve ") && !line.ends_with("--check");
    if !block.lines().any(serves) {
        let output = shell(block, folder).output().expect("a shell");
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{block}\n{}\n{}", said[0], said[1]);
        return None;
    }
    // The last command takes the shell's place, so that the signal reaches the server.
    let block = block.replacen("elevon serve ", "exec elevon serve ", 1);
    let mut server = shell(&block, folder).stdout(Stdio::piped()).spawn().expect("a shell");
    let mut address = String::new();
    let mut stdout = BufReader::new(server.stdout.take().expect("a pipe"));
    stdout.read_line(&mut address).expect("the server's first line");
    assert!(address.starts_with("nbd+unix://"), "{block}\n{address}");
    // Who closes it would end the server, which prints an address for each export.
    Some(Server { child: server, _stdout: stdout })
}

/// Runs all blocks of a page.
fn follow(name: &str, needs: &[&str]) {
    if !tools(needs) {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to").join(name);
    let page = fs::read_to_string(path).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    let blocks = blocks(&page);
    assert!(blocks.len() >= 3, "{name} has blocks to run");
    let servers: Vec<Server> =
        blocks.into_iter().filter_map(|block| run(block, folder.path())).collect();
    assert!(!servers.is_empty(), "{name} starts a server");
}

#[test]
fn the_page_of_qemu_works() {
    follow("qemu.md", &["qemu-io"]);
}

#[test]
fn the_page_of_backups_works() {
    follow("backup.md", &["qemu-io", "nbdcopy"]);
}

#[test]
fn the_page_of_slow_disks_works() {
    follow("slow-disk-in-ci.md", &["qemu-io", "fio"]);
}

#[test]
fn the_page_of_three_tenants_works() {
    follow("three-tenants.md", &["fio"]);
}
