//! `cargo xtask twin build`: a user-mode Linux from a distribution's source package.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use clap::Args;

use super::guest;
use super::kernels::{DEFAULT_VERSION, SOURCES, kernels_folder};

/// The suite of Debian that has the source package of a version, for a machine whose own package
/// lists do not have it.
const SUITES: [(&str, &str); 4] =
    [("7.3", "trixie-backports"), ("7.2", "sid"), ("6.12", "trixie"), ("6.1", "bookworm")];

/// Parts of the source that a user-mode kernel does not compile. Their files named Kconfig and
/// Makefile are read all the same.
const LEFT_OUT: [&str; 11] = [
    "*/drivers/gpu/*.[chS]",
    "*/drivers/net/*/*.[chS]",
    "*/drivers/media/*.[chS]",
    "*/drivers/staging/*.[chS]",
    "*/drivers/infiniband/*.[chS]",
    "*/sound/*.[chS]",
    "*/arch/[!ux]*.[chS]",
    "*.dts",
    "*.dtsi",
    "*/tools/testing/*",
    "*/tools/perf/*",
];

/// Programs that a build needs, each with its package in Debian.
const PROGRAMS: [(&str, &str); 8] = [
    ("gcc", "gcc"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("xz", "xz-utils"),
    ("cpio", "cpio"),
    ("busybox", "busybox-static"),
];

/// Build a user-mode Linux in virtual time
///
/// The source is a package of the distribution: /usr/src/linux-source-VERSION.tar.xz if it is
/// installed, else what apt offers, else that of Debian's suite that has it. The kernel is under
/// the GPL-2.0. It stays in target/twin/VERSION, or below the folder that ELEVON_TWIN names. A
/// kernel that is there already is kept.
#[derive(Args, Clone, Debug)]
pub struct BuildArgs {
    /// Version as the source package has it in its name
    #[arg(long, default_value = DEFAULT_VERSION)]
    kernel: String,
    /// The source: linux-source-*.deb or linux-source-*.tar.xz
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// Compilers that run side by side [default: one for each CPU]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Build again what is there already
    #[arg(long)]
    again: bool,
}

/// Builds the kernel and the file system of the guest.
///
/// # Errors
/// A program or the source package is missing, or the kernel does not build.
pub fn build(args: &BuildArgs) -> Result<(), String> {
    let version = args.kernel.as_str();
    if !version.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    {
        return Err(format!("--kernel {version}: expected a version such as {DEFAULT_VERSION}"));
    }
    need_programs()?;
    let folder = kernels_folder().join(version);
    if args.again || !folder.join("linux").exists() {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let source = folder.join("source");
        unpack(version, args.source.as_deref(), &folder, &source)?;
        compile(&source, args.jobs)?;
        for file in ["linux", ".config"] {
            let name = file.trim_start_matches('.');
            copy(&source.join(file), &folder.join(name))?;
        }
        fs::remove_dir_all(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    }
    guest::make_initramfs(&kernels_folder())?;
    let release = guest::release(version)?;
    println!("{}: Linux {release} in virtual time", folder.join("linux").display());
    Ok(())
}

fn need_programs() -> Result<(), String> {
    let is_missing = |program: &str| {
        let mut help = Command::new(program);
        help.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        help.status().is_err()
    };
    let missing: Vec<&str> =
        PROGRAMS.iter().filter(|(name, _)| is_missing(name)).map(|&(_, package)| package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("a build of Linux needs more packages: apt-get install {}", missing.join(" ")))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

/// Unpacks the source of a version to a folder.
fn unpack(version: &str, given: Option<&Path>, folder: &Path, to: &Path) -> Result<(), String> {
    let installed = PathBuf::from(format!("/usr/src/linux-source-{version}.tar.xz"));
    let file = match given {
        Some(file) => file.to_owned(),
        None if installed.exists() => installed,
        None => download(version, folder)?,
    };
    println!("unpacking {}", file.display());
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let is_package = file.extension().is_some_and(|extension| extension == "deb");
    let reader = if is_package {
        String::from(
            "dpkg-deb --fsys-tarfile \"$1\" | tar -xOf - --wildcards '*/linux-source-*.tar.xz' |",
        )
    } else {
        String::from("cat \"$1\" |")
    };
    let left_out: String = LEFT_OUT.map(|pattern| format!(" --exclude='{pattern}'")).concat();
    let script = format!(
        "set -e -o pipefail; {reader} xz -dc -T0 | tar -xf - -C \"$2\" --strip-components=1 \
         --wildcards{left_out}"
    );
    run(Command::new("bash").arg("-c").arg(script).arg("unpack").arg(&file).arg(to), "unpacking")
}

/// Downloads the source package with apt: with the machine's own lists if they have it, else with
/// lists of the suite that does, kept apart from the machine's.
fn download(version: &str, folder: &Path) -> Result<PathBuf, String> {
    let package = format!("linux-source-{version}");
    let fetch = |config: Option<&Path>| -> Option<PathBuf> {
        let mut apt = Command::new("apt-get");
        apt.args(["-qq", "download", &package]).current_dir(folder).stderr(Stdio::null());
        if let Some(config) = config {
            apt.env("APT_CONFIG", config);
        }
        apt.stdin(Stdio::null()).status().ok().filter(|status| status.success())?;
        newest(folder, &package)
    };
    if let Some(file) = newest(folder, &package).or_else(|| fetch(None)) {
        return Ok(file);
    }
    let missing = || {
        format!(
            "no source of Linux {version}: install {package} of your distribution, or name one \
             with --source FILE (Debian has {})",
            SUITES.map(|(version, suite)| format!("{version} in {suite}")).join(", ")
        )
    };
    let &(_, suite) = SUITES.iter().find(|(of, _)| *of == version).ok_or_else(missing)?;
    let config = lists_of(suite, folder)?;
    println!("asking {suite} for {package}");
    let updated = Command::new("apt-get")
        .args(["-qq", "update"])
        .env("APT_CONFIG", &config)
        .stdin(Stdio::null())
        .status();
    updated.ok().filter(|status| status.success()).ok_or_else(missing)?;
    fetch(Some(&config)).ok_or_else(missing)
}

/// Returns the package's file in a folder.
fn newest(folder: &Path, package: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&format!("{package}_")) && name.ends_with(".deb")
    };
    entries
        .map(|entry| entry.path())
        .filter(is_it)
        .max()
        .and_then(|path| fs::canonicalize(path).ok())
}

/// Writes a configuration of apt with lists of one suite, from the mirror that the machine uses.
fn lists_of(suite: &str, folder: &Path) -> Result<PathBuf, String> {
    let targets = Command::new("apt-get")
        .args(["indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"])
        .output()
        .map_err(|error| format!("apt-get: {error}"))?;
    let text = String::from_utf8_lossy(&targets.stdout).into_owned();
    let mirror = text
        .lines()
        .filter_map(|line| line.strip_prefix("Debian "))
        .find(|mirror| !mirror.contains("security"))
        .ok_or("the lists of apt name no mirror of Debian: give the source with --source FILE")?;
    let place = folder.join("apt");
    let partial = ["lists/partial", "cache/archives/partial"].map(|name| place.join(name));
    for name in &partial {
        fs::create_dir_all(name).map_err(|error| format!("{}: {error}", name.display()))?;
    }
    let place =
        fs::canonicalize(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let sources = place.join("sources.list");
    let config = place.join("apt.conf");
    let at = place.display();
    let write = |path: &Path, text: String| {
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write(&sources, format!("deb [signed-by={key}] {mirror} {suite} main\n"))?;
    write(
        &config,
        format!(
            "Dir::State::lists \"{at}/lists\";\nDir::Cache \"{at}/cache\";\n\
             Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"-\";\n"
        ),
    )?;
    Ok(config)
}

/// Configures and compiles a source; what the compilers say is in `build.log` beside it.
fn compile(source: &Path, jobs: Option<usize>) -> Result<(), String> {
    let config = fs::canonicalize(Path::new(SOURCES).join("um.config"))
        .map_err(|error| format!("{SOURCES}/um.config: {error}"))?;
    let jobs = jobs.or_else(|| thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    println!("compiling with {jobs} compilers, which takes minutes");
    let path = source.with_file_name("build.log");
    let log = || File::create(&path).map_err(|error| format!("{}: {error}", path.display()));
    let make = |arguments: &[&str], log: File| {
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut make = Command::new("make");
        make.current_dir(source).arg("ARCH=um").args(arguments).stdin(Stdio::null());
        make.stdout(log).stderr(errors);
        run(&mut make, &format!("make (see {})", path.display()))
    };
    let all = format!("KCONFIG_ALLCONFIG={}", config.display());
    make(&[&all, "allnoconfig"], log()?)?;
    make(&[&format!("-j{jobs}"), "linux"], log()?)
}

fn run(command: &mut Command, what: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} failed: {status}")),
        Err(error) => Err(format!("{what}: {error}")),
    }
}
