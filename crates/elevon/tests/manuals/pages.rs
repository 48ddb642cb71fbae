//! The README, the tutorials and the how-to guides do what they say. Each page has a folder of its
//! own, in which its blocks run in order:
//!
//! - A `sh` block whose first line begins with `#!` runs as it stands and has to succeed. One that
//!   starts a server goes on until the end of the page.
//! - A `console` block runs its lines that begin with `$`, of which one may go on after a `\`. The
//!   other lines have to be printed.
//!
//! A page with `elevon twin` is skipped if no kernel is built. The figures that it shows are those
//! of one machine: a line has to be printed with any figures, but 0 is 0.
//!
//! Another `sh` block says in its first line what it needs that a test has not: `# needs root`.

#![cfg(unix)]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use elevon_testkit::{signal, tools, twin_kernels};

/// Programs that blocks use and not every machine has.
const TOOLS: [&str; 8] =
    ["fio", "qemu-io", "nbdcopy", "nbdinfo", "curl", "jq", "sqlite3", "pgbench"];
/// The command of pages that need a kernel.
const TWIN: &str = "elevon twin ";
/// The port of the pages. A test takes a free one.
const PORT: &str = "9464";

/// A server that a page started, and its output. If the output were closed, the server would end at
/// the next address that it prints.
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

/// Returns the blocks of a page in a language.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("\n```").skip(1).step_by(2);
    parts.filter_map(|part| part.split_once('\n')).collect()
}

fn shell(block: &str, folder: &Path) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_elevon")).parent().expect("a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-ec", block]).env("PATH", path).current_dir(folder).stdin(Stdio::null());
    if block.contains(TWIN) {
        shell.env("ELEVON_TWIN", twin_kernels().expect("a page with it is skipped"));
    }
    shell
}

/// Runs a block or a command, and returns what it printed, with what it said beside. It goes to a
/// file, so that a process in the background holds no pipe open.
fn printed(block: &str, folder: &Path) -> String {
    let (stdout, stderr) = (folder.join(".stdout"), folder.join(".stderr"));
    let file = |path| File::create(path).expect("a file");
    let status = shell(block, folder).stdout(file(&stdout)).stderr(file(&stderr)).status();
    let read = |path| String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned();
    let said = [read(stdout), read(stderr)].concat();
    assert!(status.expect("a shell").success(), "{block}\n{said}");
    said
}

/// Runs a block that ends with a server.
fn serve(block: &str, folder: &Path) -> Server {
    // The last command takes the shell's place, so that the signal reaches the server.
    let block = block.replacen("elevon serve ", "exec elevon serve ", 1);
    let mut child = shell(&block, folder).stdout(Stdio::piped()).spawn().expect("a shell");
    let mut address = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut address).expect("the server's first line");
    assert!(address.starts_with("nbd+unix://"), "{block}\n{address}");
    Server { child, _stdout: stdout }
}

/// Returns true if the words are among those of the line, in this order: a page leaves out columns.
fn has_words(line: &str, words: &str) -> bool {
    let mut rest = line.split_whitespace();
    words.split_whitespace().all(|word| rest.any(|one| one == word))
}

/// Returns the line with a `#` for each figure but 0. What a program does in a real kernel depends
/// on the versions of the program, of its libraries and of the kernel.
fn without_figures(line: &str) -> String {
    let is_figure = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let words = line.split_whitespace().map(|word| match Some(word).filter(is_figure) {
        Some(figure) if figure != "0" => "#",
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Runs the commands of a block, and looks for the lines that it shows, as `shown` has them.
fn show(name: &str, block: &str, folder: &Path, shown: fn(&str) -> String) {
    let mut output = String::new();
    for line in block.replace("\\\n", " ").lines().filter(|line| !line.is_empty() && *line != "...")
    {
        match line.strip_prefix("$ ") {
            Some(command) => output = printed(command, folder),
            None => assert!(
                output.lines().any(|printed| has_words(&shown(printed), &shown(line))),
                "{name}: not printed any more: {line}\n{output}"
            ),
        }
    }
}

/// Does what a page says. Returns how many blocks were run.
fn follow(name: &str) -> usize {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr());
    let port = port.expect("a free port").port().to_string();
    let page = fs::read_to_string(root().join(name)).expect("the page").replace(PORT, &port);
    let is_run = |block: &(&str, &str)| {
        block.0 == "console" || (block.0 == "sh" && block.1.starts_with("#!"))
    };
    let run: Vec<(&str, &str)> = blocks(&page).into_iter().filter(is_run).collect();
    let words = |text: &'_ str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let needed: Vec<&str> = TOOLS
        .into_iter()
        .filter(|tool| run.iter().any(|(_, block)| words(block).iter().any(|word| word == tool)))
        .collect();
    let needs_kernel = run.iter().any(|(_, block)| block.contains(TWIN));
    if !tools(&needed) || (needs_kernel && twin_kernels().is_none()) {
        return run.len();
    }
    let folder = tempfile::tempdir().expect("a folder");
    for link in ["jobs", "tests", "experiments"] {
        symlink(root().join(link), folder.path().join(link)).expect("a link");
    }
    let shown: fn(&str) -> String = if needs_kernel { without_figures } else { ToOwned::to_owned };
    let mut servers = Vec::new();
    for (language, block) in &run {
        let serves = |line: &str| line.starts_with("elevon serve ") && !line.ends_with("--check");
        if *language == "console" {
            show(name, block, folder.path(), shown);
        } else if block.lines().any(serves) {
            servers.push(serve(block, folder.path()));
        } else {
            printed(block, folder.path());
        }
    }
    run.len()
}

/// Does what all pages of a folder say, at the same time.
fn follow_all(folder: &str, least: usize) {
    let pages = fs::read_dir(root().join(folder)).expect("the folder");
    let names = pages.map(|page| page.expect("a page").file_name().into_string().expect("UTF-8"));
    let names: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
    let blocks: usize = std::thread::scope(|scope| {
        let pages: Vec<_> = names.iter().map(|name| scope.spawn(|| follow(name))).collect();
        pages.into_iter().map(|page| page.join().expect("the page does what it says")).sum()
    });
    assert!(blocks >= least, "{folder}: only {blocks} blocks were run");
}

#[test]
fn the_readme_shows_what_its_commands_print() {
    assert!(follow("README.md") >= 3);
}

#[test]
fn every_command_of_the_tutorials_works() {
    follow_all("docs/tutorial", 20);
}

#[test]
fn every_command_of_the_guides_works() {
    follow_all("docs/how-to", 30);
}

/// A block that no test runs says why.
#[test]
fn a_block_that_is_not_run_says_what_it_needs() {
    for folder in ["docs/tutorial", "docs/how-to"] {
        for page in fs::read_dir(root().join(folder)).expect("the folder") {
            let path = page.expect("a page").path();
            let text = fs::read_to_string(&path).expect("the page");
            for (language, block) in blocks(&text) {
                assert!(
                    language != "sh" || block.starts_with("#!") || block.starts_with("# needs "),
                    "{}: run it (`#! shell`), or say what it needs (`# needs root`):\n{block}",
                    path.display()
                );
            }
        }
    }
}

/// What the commands of reference and explanation name: two jobs, and their trace.
const JOBS: &str = "[global]\ndirect=1\nioengine=libaio\nnumber_ios=300\nsize=64m\n\
                    [postgres]\nrw=randread\nbs=4k\n[backup]\nrw=write\nbs=256k\niodepth=4\n";

/// Yields the commands of Elevon in the console blocks of a page, without what they are piped to.
fn commands(page: &str) -> impl Iterator<Item = String> {
    let blocks = blocks(page).into_iter().filter(|block| block.0 == "console");
    let lines = blocks.flat_map(|(_, block)| {
        block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>()
    });
    lines.filter_map(|line| {
        let command = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "))?;
        let command = command.split("  #").next()?.split(" | ").next()?;
        command.starts_with("elevon ").then(|| command.trim().to_owned())
    })
}

/// The commands that need no more than a job or a trace are run. Of the others each option has to
/// be one that the command takes.
#[test]
fn commands_of_reference_and_explanation_are_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["job.fio", "reader.fio"] {
        fs::write(folder.path().join(name), JOBS).expect("a file");
    }
    printed("elevon run job.fio --trace trace.ftrace; mv trace.ftrace trace.txt", folder.path());
    printed("elevon calibrate trace.txt -o disk.toml", folder.path());
    let mut count = 0;
    for set in ["reference", "explanation", "evidence"] {
        for page in fs::read_dir(root().join("docs").join(set)).expect("the folder") {
            let path = page.expect("a page").path();
            if path.extension().is_none_or(|e| e != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("the page");
            for command in commands(&text) {
                let verb = command.split(' ').nth(1).expect("a subcommand");
                let needs_more = ["serve", "ctl", "top", "capture", "reproduce"].contains(&verb);
                if !needs_more && !command.contains('/') && !command.contains("plan.toml") {
                    printed(&command, folder.path());
                } else {
                    let help = printed(&format!("elevon {verb} --help"), folder.path());
                    let options = command.split(' ').filter(|word| word.starts_with("--"));
                    for option in options.filter(|option| option.len() > 2) {
                        let name = option.split('=').next().expect("a name");
                        assert!(help.contains(name), "{}: {command}: {name}", path.display());
                    }
                }
                count += 1;
            }
        }
    }
    assert!(count >= 15, "only {count} commands were found");
}
