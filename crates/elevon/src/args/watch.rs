//! The arguments of `elevon watch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::TextOrJson;

pub(super) const WATCH_ABOUT: &str = "\
Watch what disks do now: which process or container does it, how fast, how long it waits before the device and in it, and what would help.

Needs root, or the capabilities CAP_DAC_READ_SEARCH and CAP_DAC_OVERRIDE, for tracefs. The kernel's block events are followed by a trace instance of its own, which is removed at the end, also after a kill. Without a device it watches all disks. A partition is watched as its disk, and a device of dm or md as the disks below it.";

pub(super) const WATCH_EXAMPLES: &str = "\
Examples:
  elevon watch                                  all disks on a screen; ? shows the keys
  elevon watch /dev/sda                         one disk
  elevon watch --once --seconds 10              ten seconds of every disk as text, for a ticket
  elevon watch --by unit --once                 by service, container or pod
  elevon watch --output-format json             a line of JSON for each interval
  elevon watch --once --seconds 10 --html disks.html    the same as a page, with settings and a heat map
  elevon watch --listen                         a page and metrics at http://127.0.0.1:9465/
  elevon watch /dev/sda --try scheduler=bfq --for 60    sets it, compares 60 s before and after, and puts it back

Columns: waits is the time from a request's queueing to its issue, device from there to its completion, each as median and 99th percentile. depth is the mean number of its requests under way. docs/reference/watch.md has every figure.

Exit status: 0 done, also after q or Ctrl-C, 1 something went wrong on the way, 2 it cannot watch: no root, no tracefs, no block events in the kernel, no such disk.";

/// Where `--listen` alone serves.
pub(crate) const LISTEN_PLACE: &str = "127.0.0.1:9465";

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// A process, with its threads
    Process,
    /// A container, a pod, a service of systemd, or another cgroup
    Unit,
}

#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// Disks, partitions, or devices of dm or md [default: all disks]
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,
    /// Print one interval and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds of an interval, from 1 to 60
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=60))]
    pub(crate) seconds: u8,
    /// What a row is
    #[arg(long, value_enum, default_value_t = By::Process)]
    pub(crate) by: By,
    /// Set a file of the disk's queue or of its scheduler, compare the time before and after, and
    /// put it back. Takes one disk
    #[arg(long = "try", value_name = "FILE=VALUE", requires = "devices")]
    pub(crate) setting: Option<String>,
    /// Seconds that --try watches before and after, from 5 to 3600
    #[arg(long = "for", value_name = "N", default_value_t = 30, requires = "setting", value_parser = clap::value_parser!(u16).range(5..=3600))]
    pub(crate) time: u16,
    /// Leave what --try has set
    #[arg(long, requires = "setting")]
    pub(crate) keep: bool,
    /// With --once: write the interval as a self-contained page, with the settings of each disk
    /// against what its kind wants
    #[arg(long, value_name = "FILE", requires = "once", conflicts_with_all = ["setting", "listen"])]
    pub(crate) html: Option<PathBuf>,
    /// Serve a page, JSON and metrics for Prometheus over HTTP until a signal comes; --listen
    /// alone: at 127.0.0.1:9465
    #[arg(
        long,
        value_name = "ADDR:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = LISTEN_PLACE,
        conflicts_with_all = ["once", "setting"]
    )]
    pub(crate) listen: Option<String>,
    /// Text, or one line of JSON for each interval
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TextOrJson::Normal)]
    pub(crate) output_format: TextOrJson,
    /// Kernel memory of each CPU for events that have not been read yet. If events are lost, give
    /// more
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    pub(crate) buffer: String,
    /// Where tracefs is mounted [default: as /proc/self/mounts says]
    #[arg(long, value_name = "DIR")]
    pub(crate) tracefs: Option<PathBuf>,
}
