//! Arguments of `elevon twin`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::usage::utf8;

pub(super) const TWIN_ABOUT: &str = "\
Run a program in a real Linux kernel, in virtual time, on a simulated disk.

The kernel is user-mode Linux with its own block layer, schedulers and file systems. The disk is a model of Elevon, and its completions come at the model's instants. The program runs unmodified in the file system of that disk; it sees the files of this machine, and can write none of them. CPU time costs nothing, sleeping costs nothing, and each run gives the same bytes.

`cargo xtask twin build` builds the kernels from the distribution's source package. A program has no network and one CPU. Threads that spin without a system call stop virtual time, which is found and said.";

pub(super) const TWIN_EXAMPLES: &str = "\
Examples:
  elevon twin -- ./my-app args                           on the default device with ext4
  elevon twin --device hdd-7200 --set scheduler=bfq -- fio --clocksource=clock_gettime job.fio
  elevon twin --power-cuts 200 --check ./check.sh -- ./my-app
                                                         cut the power at 200 points: does the check find its data?
  elevon twin --fault error:ppm=1000 -- ./my-app         with faults, as `elevon faults` lists them
  elevon twin --take result.txt=./result.txt -- ./my-app copy a file of the disk when the program has ended
  elevon twin shell --fs xfs                             look around

A --check is a command of a shell that runs in the file system as the power cut has left it. Its standard input is what the program had written to its standard output before the cut. An exit status other than 0 says that data is lost.

Exit status: that of the program; with --power-cuts 1 if a cut lost data; 2 bad input.";

const TWIN_COMPARE_EXAMPLES: &str = "\
Examples:
  elevon twin compare --vs '--device hdd-7200' --vs '--device sata-ssd-860evo' -- ./my-app
  elevon twin compare --set scheduler=none --vs '--set scheduler=bfq' -- ./my-app
  elevon twin compare --vs '--kernel 6.12' --vs '--fs xfs' -- ./my-app

What the program writes goes to the standard error, each line with the letter of its variant.

Exit status: 0; 1 if the program failed in a variant; 2 bad input.";

#[derive(Args, Debug)]
pub(crate) struct TwinArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TwinCommand>,
    #[command(flatten)]
    pub(crate) run: TwinRunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TwinCommand {
    /// Start a shell in the kernel; its end ends the kernel
    Shell(TwinMachineArgs),
    /// Run a program under several kernels, schedulers or devices, and compare them in one table
    #[command(after_help = TWIN_COMPARE_EXAMPLES)]
    Compare(TwinCompareArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TwinCompareArgs {
    /// The first variant, which the others are compared with
    #[command(flatten)]
    pub(crate) machine: TwinMachineArgs,
    /// Another variant: options that replace or add to those of the first (repeatable)
    #[arg(long, value_name = "OPTIONS", required = true, allow_hyphen_values = true, value_parser = utf8())]
    pub(crate) vs: Vec<String>,
    /// Also write one self-contained page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM", value_parser = utf8())]
    pub(crate) program: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct TwinRunArgs {
    #[command(flatten)]
    pub(crate) machine: TwinMachineArgs,
    /// Cut the power at so many points of the run, and check what is left with --check
    #[arg(long, value_name = "N", requires = "check", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) power_cuts: Option<u32>,
    /// The command of a shell that looks for the program's data after a power cut
    #[arg(long, value_name = "COMMAND", requires = "power_cuts", value_parser = utf8())]
    pub(crate) check: Option<String>,
    /// Run with the seeds 1 to N of the device and of the power cuts
    #[arg(long, value_name = "N", conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) seeds: Option<u64>,
    /// When the program has ended, copy this file of the disk to a new file of this machine
    /// (repeatable)
    #[arg(long, value_name = "FILE=NEW", conflicts_with = "seeds", value_parser = utf8())]
    pub(crate) take: Vec<String>,
    /// Write the kernel's block events of the program to this file, which `elevon inspect` and
    /// `elevon replay` read
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    pub(crate) trace: Option<PathBuf>,
    /// Also tell what was read and written of each file of the disk
    #[arg(long)]
    pub(crate) files: bool,
    /// Also write one self-contained page with tables and plots
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    pub(crate) html: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM", value_parser = utf8())]
    pub(crate) program: Vec<String>,
}

/// The kernel and its disk.
#[derive(Args, Clone, Debug)]
pub(crate) struct TwinMachineArgs {
    /// The kernel: a version that `cargo xtask twin build` has built, or the path of a user-mode
    /// kernel
    #[arg(long, value_name = "V|PATH", default_value = "7.3", value_parser = utf8())]
    pub(crate) kernel: String,
    /// The simulated device: a profile (`elevon devices` lists them) or a model with parameters
    #[arg(long, value_name = "D", default_value = "nvme-datacenter", value_parser = utf8())]
    pub(crate) device: String,
    /// A file of the disk's queue in sysfs or of its scheduler, and what is written to it:
    /// scheduler=bfq, nr_requests=64, read_expire=100 (repeatable, in order)
    #[arg(long, value_name = "FILE=VALUE", value_parser = utf8())]
    pub(crate) set: Vec<String>,
    /// A fault of the device (`elevon faults` lists them; repeatable)
    #[arg(long, value_name = "FAULT", value_parser = utf8())]
    pub(crate) fault: Vec<String>,
    /// The file system of the disk: ext4, xfs, f2fs, btrfs, or none
    #[arg(long, value_name = "FS", default_value = "ext4", value_parser = utf8())]
    pub(crate) fs: String,
    /// Options of its mount, as of mount -o
    #[arg(long, value_name = "OPTIONS", default_value = "", value_parser = utf8())]
    pub(crate) mount_options: String,
    /// Size of the disk that the kernel sees, if the device is larger
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = utf8())]
    pub(crate) size: String,
    /// Memory of the kernel, which is in /dev/shm
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = utf8())]
    pub(crate) memory: String,
    /// Seed of every random choice of the device, its faults and the power cuts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many seconds of real time the kernel may compute without a word
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) patience: u64,
    /// A folder below /tmp that the program sees [default: the present folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// The options of another variant, after those of the first.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true, args_override_self = true)]
struct VariantArgs {
    #[command(flatten)]
    machine: TwinMachineArgs,
}

impl TwinMachineArgs {
    /// Returns these options with those of words. A value replaces the one here; those of options
    /// that may be repeated are added.
    pub(crate) fn with(&self, words: Vec<String>) -> Result<Self, clap::Error> {
        let all = self.words().into_iter().chain(words);
        VariantArgs::try_parse_from(all).map(|variant| variant.machine)
    }

    /// Returns the words of a command line with these options.
    fn words(&self) -> Vec<String> {
        let Self { kernel, device, set, fault, fs, mount_options, size, memory, .. } = self;
        let mut words: Vec<String> = [
            ("kernel", kernel),
            ("device", device),
            ("fs", fs),
            ("mount-options", mount_options),
            ("size", size),
            ("memory", memory),
            ("seed", &self.seed.to_string()),
            ("patience", &self.patience.to_string()),
        ]
        .iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
        words.extend(set.iter().map(|set| format!("--set={set}")));
        words.extend(fault.iter().map(|fault| format!("--fault={fault}")));
        words.extend(self.folder.iter().map(|folder| format!("--folder={}", folder.display())));
        words
    }
}
