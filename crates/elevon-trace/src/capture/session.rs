//! A trace instance that records, and the pages of its ring buffers.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::decode::Decoder;
use super::error::CaptureError;
use super::instance::{Folders, Instance, Kernel, Tracefs, read_whole};
use super::layout::{EVENTS, EventLayout, parse_page};
use super::page::PageLayout;
use super::recording::Lost;
use crate::event::DeviceNumber;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The disks; none: all of the machine. Events of others may come, too, if these are hundreds.
    pub devices: Vec<DeviceNumber>,
    /// Kernel memory for events that have not been read yet, of each CPU, in KiB.
    pub buffer_kb: u64,
}

/// Takes a page of the CPU with this index.
type TakePage<'a> = dyn FnMut(usize, &[u8]) -> Result<(), CaptureError> + 'a;

/// A CPU's events on their way from the kernel.
struct Pipe {
    cpu: u32,
    pages: File,
}

/// A trace instance that records. Dropping it ends the recording and removes the instance.
pub struct Session {
    // The pipes are closed before the instance is removed: the kernel removes none in use.
    pipes: Vec<Pipe>,
    instance: Instance,
    tracefs: Tracefs,
    pub(super) layout: PageLayout,
    pub(super) decoder: Decoder,
    clock: &'static str,
    leftovers: Vec<String>,
    page: Vec<u8>,
    /// The events that are recorded, and whether they name a device.
    events: Vec<(&'static str, bool)>,
}

/// Clocks, the best one first: they count nanoseconds and are the same on every CPU.
const CLOCKS: [&str; 2] = ["mono", "global"];
/// Bytes of a filter that the kernel takes: a page, of which some are left.
const MAX_FILTER: usize = 4000;
/// Pages of a CPU that are read before the next CPU has its turn.
const PAGES_AT_ONCE: usize = 4096;

impl Session {
    /// Makes the trace instance and sets it up; nothing is recorded before [`Self::begin`].
    ///
    /// # Errors
    /// Everything that prevents a recording.
    pub fn new(tracefs: Tracefs, options: &CaptureOptions) -> Result<Self, CaptureError> {
        let is_alive = |process: u32| PathBuf::from(format!("/proc/{process}")).exists();
        Self::with(tracefs, options, Box::new(Kernel), &is_alive)
    }

    pub(super) fn with(
        tracefs: Tracefs,
        options: &CaptureOptions,
        folders: Box<dyn Folders + Send>,
        is_alive: &dyn Fn(u32) -> bool,
    ) -> Result<Self, CaptureError> {
        tracefs.check()?;
        let read = |name: &str| {
            let path = tracefs.path(name);
            let text = read_whole(&path).map_err(|source| CaptureError::Io {
                path,
                action: "read it",
                source,
            })?;
            Ok::<_, CaptureError>(String::from_utf8_lossy(&text).into_owned())
        };
        let layout = parse_page(&read("events/header_page")?)?;
        let mut layouts = Vec::new();
        for (name, kind) in EVENTS {
            if tracefs.path(&format!("events/block/{name}")).is_dir() {
                layouts.push((
                    name,
                    EventLayout::parse(name, kind, &read(&format!("events/block/{name}/format"))?)?,
                ));
            }
        }
        if layouts.is_empty() {
            return Err(CaptureError::NoBlockEvents { path: tracefs.path("events/block") });
        }
        let leftovers = tracefs.remove_leftovers(&*folders, is_alive);
        let instance = Instance::make(&tracefs, folders, std::process::id())?;
        instance.set("tracing_on", "0")?;
        let clock = set_up(&instance, options)?;
        for (name, layout) in &layouts {
            if let (true, Some(filter)) = (layout.device.is_some(), filter(&options.devices)) {
                instance.set(&format!("events/block/{name}/filter"), &filter)?;
            }
            instance.set(&format!("events/block/{name}/enable"), "1")?;
        }
        let pipes = open_pipes(&instance)?;
        Ok(Self {
            events: layouts.iter().map(|(name, layout)| (*name, layout.device.is_some())).collect(),
            pipes,
            instance,
            tracefs,
            page: vec![0; layout.len],
            layout,
            decoder: Decoder::new(layouts.into_iter().map(|(_, layout)| layout)),
            clock,
            leftovers,
        })
    }

    /// The trace's clock, as tracefs names it.
    pub const fn clock(&self) -> &'static str {
        self.clock
    }

    /// CPUs whose events are recorded.
    pub const fn cpus(&self) -> usize {
        self.pipes.len()
    }

    /// Instances of earlier recordings that had been killed; they were removed.
    pub fn leftovers(&self) -> &[String] {
        &self.leftovers
    }

    /// Begins to record.
    ///
    /// # Errors
    /// Of tracefs.
    pub fn begin(&self) -> Result<(), CaptureError> {
        self.instance.set("tracing_on", "1")
    }

    /// Records each event, or none.
    ///
    /// # Errors
    /// Of tracefs.
    pub(super) fn set_events(&self, are_recorded: bool) -> Result<(), CaptureError> {
        let value = if are_recorded { "1" } else { "0" };
        let mut files = self.events.iter().map(|(name, _)| format!("events/block/{name}/enable"));
        files.try_for_each(|file| self.instance.set(&file, value))
    }

    /// Records the events of these disks from now on; none: of all of the machine.
    ///
    /// # Errors
    /// Of tracefs.
    pub(super) fn set_devices(&self, devices: &[DeviceNumber]) -> Result<(), CaptureError> {
        let filter = filter(devices).unwrap_or_else(|| "0".to_owned());
        let mut with_device = self.events.iter().filter(|(_, has_device)| *has_device);
        with_device.try_for_each(|(name, _)| {
            self.instance.set(&format!("events/block/{name}/filter"), &filter)
        })
    }

    /// The folder of the trace instance.
    pub fn folder(&self) -> &Path {
        self.instance.folder()
    }

    /// Returns the CPUs that are recorded, in the order of [`Self::take`].
    pub(super) fn cpu_numbers(&self) -> impl Iterator<Item = u32> {
        self.pipes.iter().map(|pipe| pipe.cpu)
    }

    /// Takes the pages that the kernel has filled so far, the last one in part: hands each with
    /// the index of its CPU to `each`, a CPU after the other. It must be called before a CPU's
    /// buffer is full, or the oldest events are lost.
    ///
    /// # Errors
    /// Of tracefs, and of `each`.
    pub(super) fn take(&mut self, each: &mut TakePage<'_>) -> Result<(), CaptureError> {
        for (at, pipe) in self.pipes.iter_mut().enumerate() {
            for _ in 0..PAGES_AT_ONCE {
                let read = match pipe.pages.read(&mut self.page) {
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(source) => {
                        let path =
                            self.instance.path(&format!("per_cpu/cpu{}/trace_pipe_raw", pipe.cpu));
                        return Err(CaptureError::Io { path, action: "read it", source });
                    }
                };
                if read == 0 {
                    break;
                }
                self.page[read..].fill(0);
                each(at, &self.page)?;
            }
        }
        Ok(())
    }

    /// Ends the recording. What is left of it can be taken.
    ///
    /// # Errors
    /// Of tracefs.
    pub(super) fn stop(&self) -> Result<(), CaptureError> {
        self.instance.set("tracing_on", "0")
    }

    /// Returns the CPUs that have lost events so far.
    pub fn lost(&self) -> Vec<Lost> {
        self.pipes.iter().filter_map(|pipe| lost(&self.instance, pipe.cpu)).collect()
    }

    /// Returns the kernel's table of that name, such as `saved_tgids`; empty if there is none.
    pub(super) fn table(&self, name: &str) -> Vec<u8> {
        read_whole(&self.tracefs.path(name)).unwrap_or_default()
    }

    /// Removes the trace instance.
    ///
    /// # Errors
    /// Of tracefs.
    pub(super) fn remove(self) -> Result<(), CaptureError> {
        drop(self.pipes);
        self.instance.remove()
    }
}

/// Returns the filter of the events of these disks; `None` if all are wanted, or so many that the
/// kernel takes no such filter.
fn filter(devices: &[DeviceNumber]) -> Option<String> {
    let is_one = |device: &DeviceNumber| format!("dev == {}", device.to_kernel());
    let filter = devices.iter().map(is_one).collect::<Vec<_>>().join(" || ");
    (1..=MAX_FILTER).contains(&filter.len()).then_some(filter)
}

/// Sets buffer and clock; returns the clock.
fn set_up(instance: &Instance, options: &CaptureOptions) -> Result<&'static str, CaptureError> {
    let kb = options.buffer_kb;
    instance.set("buffer_size_kb", &kb.to_string()).map_err(|error| match error {
        CaptureError::Io { source, .. } if source.kind() != io::ErrorKind::NotFound => {
            CaptureError::Buffer { kb, source }
        }
        error => error,
    })?;
    let offered = instance.get("trace_clock");
    let is_offered = |clock: &&str| {
        offered.split_whitespace().any(|word| word.trim_matches(['[', ']']) == *clock)
    };
    let clock = CLOCKS.into_iter().find(is_offered).unwrap_or(CLOCKS[1]);
    instance.set("trace_clock", clock)?;
    // Kernels before 4.14 do not note which process a thread is of.
    let _ = instance.set("options/record-tgid", "1");
    Ok(clock)
}

fn open_pipes(instance: &Instance) -> Result<Vec<Pipe>, CaptureError> {
    let folder = instance.path("per_cpu");
    let number = |name: &str| name.strip_prefix("cpu")?.parse::<u32>().ok();
    let listed = folder.read_dir().map_err(|source| CaptureError::Io {
        path: folder.clone(),
        action: "list it",
        source,
    })?;
    let mut cpus: Vec<u32> =
        listed.flatten().filter_map(|entry| number(&entry.file_name().to_string_lossy())).collect();
    cpus.sort_unstable();
    let open = |cpu| {
        let path = folder.join(format!("cpu{cpu}/trace_pipe_raw"));
        let pages = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let pages = pages.map_err(|source| CaptureError::Io { path, action: "open it", source })?;
        Ok(Pipe { cpu, pages })
    };
    cpus.into_iter().map(open).collect()
}

/// What a CPU's statistics say of lost events.
fn lost(instance: &Instance, cpu: u32) -> Option<Lost> {
    let text = instance.get(&format!("per_cpu/cpu{cpu}/stats"));
    let number = |key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key));
        value.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let lost = Lost {
        cpu,
        overwritten: number("overrun:"),
        dropped: number("commit overrun:").saturating_add(number("dropped events:")),
    };
    (lost.overwritten + lost.dropped > 0).then_some(lost)
}
