//! Opens a device in the thread that will own it: stack, disk, and the settings of its tenants.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use elevon_core::stack::Stack;
use elevon_core::units::{Bytes, Nanos, PAGE_SIZE, SECTOR_SIZE};
use elevon_formats::serve::BUSY_POLL;
use elevon_host::interrupt::Interrupt;
use elevon_host::{FileIdentity, Host, HostFile, OpenError, OpenOptions, SLOT};
use elevon_plan::device_description;
use elevon_plan::failure::{ConflictError, Failure, InputError, MachineError, ValueError};
use elevon_plan::plan::Plan;
use elevon_plan::target::Target;
use elevon_serve::simulated::{RealClock, SimulatedDisk};
use elevon_serve::{
    DeviceParts, Devices, Disk, ExportedDisk, FaultyDisk, PoolPart, Upstream, UpstreamAddress,
    UpstreamClaim, UpstreamError,
};
use elevon_sim::device::{AnyDevice, Description};
use elevon_workload::settings::Settings;

use super::watch::ServedFile;

/// The smallest block of a device.
const SECTOR: u32 = SECTOR_SIZE as u32;

/// Commands that the kernel is given at a time.
const DEPTH: u32 = 1024;

/// How long it is waited at the start for what holds a file or a block device. A server that was
/// killed holds them until the kernel has ended its I/O, for up to 0.44 s on a loop device.
const HELD: Duration = Duration::from_secs(2);

/// A device that is to be served.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: Plan,
    /// The files and block devices of a pool; none if it is not one.
    pub(super) parts: Vec<PathBuf>,
    /// The names of these.
    pub(super) names: Vec<String>,
    /// For each file or block device, true if its bytes are served even if they are an image.
    pub(super) raw: Vec<bool>,
    /// It is not opened for writing.
    pub(super) read_only: bool,
    /// O_DIRECT.
    pub(super) direct: bool,
    /// For how long the thread of a file or a block device polls before it sleeps.
    pub(super) busy_poll: Nanos,
    /// For how long requests are held if the server of the disk is gone.
    pub(super) hold: Nanos,
    /// Other servers of this machine may write the disk of another server as well.
    pub(super) shared: bool,
    /// Statistics of tenants are kept, even if none has a setting.
    pub(super) is_watched: bool,
}

impl Planned {
    /// Yields the paths of the files and block devices that it is of.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let own = match &self.plan.target {
            Target::Real(path) if self.parts.is_empty() => Some(&**path),
            Target::Real(_) | Target::Simulated(_) | Target::Nbd(_) => None,
        };
        own.into_iter().chain(self.parts.iter().map(|path| &**path))
    }
}

/// What the thread of a device says once it is open.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    /// Its size, a multiple of `block`.
    pub(super) size: Bytes,
    pub(super) block: u32,
    pub(super) preferred: u32,
    pub(super) rotational: bool,
    /// Hardware queues, as far as they are known.
    pub(super) queues: u16,
    /// The device itself cannot be written.
    pub(super) read_only: bool,
    /// It could be written and was opened for reading only: no export of it could be written.
    pub(super) for_reading: bool,
    pub(super) can_discard: bool,
    pub(super) notes: Vec<String>,
    /// The regular file that it is.
    pub(super) file: Option<Arc<ServedFile>>,
    /// The files and block devices that it is of.
    pub(super) identities: Vec<FileIdentity>,
    /// The parts of a pool, with their bytes.
    pub(super) parts: Vec<(PoolPart, u64)>,
}

impl Opened {
    /// Returns what clients of so many bytes of the device see. On blocks of a sector they may ask
    /// for any range of bytes, which nbdfuse passes on. Larger blocks are told as they are, so that
    /// a file system can be made to fit them.
    pub(super) fn disk(&self, size: u64, read_only: bool, description: String) -> ExportedDisk {
        ExportedDisk {
            size,
            block: if self.block > SECTOR { self.block } else { 1 },
            preferred: self.preferred,
            read_only: read_only || self.read_only || self.for_reading,
            rotational: self.rotational,
            trim: self.can_discard,
            description,
        }
    }
}

/// A device that is open.
type OpenDevice<D> = (DeviceParts<D>, Opened);

/// Adds a device to those of a server, under this name. Returns its number there.
pub(super) fn add(
    devices: &Devices,
    name: &str,
    planned: Planned,
) -> Result<(usize, Opened), Failure> {
    match planned.plan.target {
        Target::Real(_) => devices.add(name, move || let_go(&planned, locked)),
        Target::Simulated(_) => devices.add(name, move || simulated(&planned)),
        Target::Nbd(_) => devices.add(name, move || let_go(&planned, claimed)),
    }
}

/// Opens a device, and closes it.
pub(super) fn look(planned: &Planned) -> Result<Opened, Failure> {
    match planned.plan.target {
        Target::Real(_) => real(planned).map(|(_, opened)| opened),
        Target::Simulated(_) => simulated(planned).map(|(_, opened)| opened),
        Target::Nbd(_) => upstream(planned, None).map(|(_, opened)| opened),
    }
}

/// Opens a device, which another process may hold for a moment.
fn let_go<D: Disk>(
    planned: &Planned,
    open: fn(&Planned) -> Result<OpenDevice<D>, Failure>,
) -> Result<OpenDevice<D>, Failure> {
    let is_held = |error: &InputError| {
        matches!(
            error,
            InputError::Open(
                OpenError::Busy { .. } | OpenError::Served { .. } | OpenError::InUse { .. }
            ) | InputError::Upstream(UpstreamError::Claimed { .. })
        )
    };
    let began = Instant::now();
    loop {
        match open(planned) {
            Err(Failure::Input(errors)) if errors.iter().any(is_held) && began.elapsed() < HELD => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

/// Opens a file or a block device. A page cache that is written has a file for itself: other
/// servers do not see what is dirty in it.
fn locked(planned: &Planned) -> Result<OpenDevice<FaultyDisk<Host>>, Failure> {
    let mut device = real(planned)?;
    device.1.for_reading = planned.read_only;
    let alone = planned.plan.cache.is_some() && !planned.read_only;
    let file = device.0.disk.disk().file();
    file.lock(alone).map_err(Failure::input)?;
    file.parts()
        .try_for_each(|part| part.lock_as_qemu(!planned.read_only, alone))
        .map_err(Failure::input)?;
    Ok(device)
}

fn real(planned: &Planned) -> Result<OpenDevice<FaultyDisk<Host>>, Failure> {
    let Target::Real(path) = &planned.plan.target else {
        unreachable!("asked for a real device only")
    };
    let direct = planned.direct || planned.plan.cache.is_some();
    let options = OpenOptions { write: !planned.read_only, direct, grow_to: 0, fill: false };
    let open = |path: &Path| HostFile::open(path, options).map_err(Failure::input);
    let file = match &planned.parts[..] {
        [] => open(path)?,
        parts => HostFile::joined(parts.iter().map(|path| open(path)).collect::<Result<_, _>>()?),
    };
    let mut host = Host::new(file, DEPTH, None, Interrupt::new()).map_err(MachineError::StartIo)?;
    host.carry_out_at_once();
    host.busy_poll(Duration::from_nanos(planned.busy_poll.get()));
    let description = device_description::of_host(path, &host);
    let not_said = host.file().parts().zip(&planned.raw).filter(|(_, is_raw)| !**is_raw);
    let formats = not_said.filter_map(|(part, _)| part.format_warning());
    let notes = host.warnings().iter().cloned().chain(formats).collect();
    let file = if planned.parts.is_empty() { ServedFile::from_file(host.file()) } else { None };
    let identities = host.file().parts().filter_map(HostFile::identity).collect();
    let sizes: Vec<u64> = host.file().parts().map(HostFile::bytes).collect();
    let mut device =
        finish(planned, (faulty(planned, host, &description)?, SECTOR), &description, notes)?;
    (device.1.file, device.1.identities) = (file, identities);
    let block = u64::from(device.1.block);
    let of_part = |(at, (name, size)): (u64, (&String, u64))| {
        (PoolPart { name: name.clone(), base: at * SLOT }, size / block * block)
    };
    device.1.parts = (0..).zip(planned.names.iter().zip(sizes)).map(of_part).collect();
    Ok(device)
}

fn simulated(
    planned: &Planned,
) -> Result<OpenDevice<SimulatedDisk<AnyDevice, RealClock>>, Failure> {
    let device = planned.plan.device()?;
    let description = device_description::of_simulated(&planned.plan, &device);
    let disk = SimulatedDisk::new(device, RealClock::new().map_err(MachineError::StartIo)?);
    finish(planned, (disk, SECTOR), &description, in_vain(planned))
}

/// Opens a disk of another server. One server of this machine writes it, unless it is shared.
fn claimed(planned: &Planned) -> Result<OpenDevice<FaultyDisk<Upstream>>, Failure> {
    let is_alone = !planned.shared && !planned.read_only;
    let claim = is_alone.then(|| UpstreamClaim::take(address_of(planned)));
    upstream(planned, claim.transpose().map_err(Failure::input)?)
}

fn address_of(planned: &Planned) -> &UpstreamAddress {
    match &planned.plan.target {
        Target::Nbd(address) => address,
        _ => unreachable!("asked for a disk of a server only"),
    }
}

fn upstream(
    planned: &Planned,
    claim: Option<UpstreamClaim>,
) -> Result<OpenDevice<FaultyDisk<Upstream>>, Failure> {
    let address = address_of(planned);
    let mut disk = Upstream::open(address, Upstream::LARGEST_BLOCKS, Interrupt::new())
        .map_err(Failure::input)?;
    disk.hold(planned.hold);
    let description = device_description::of_upstream(address, &disk);
    let is_read_only = disk.remote().read_only;
    if let Some(claim) = claim.filter(|_| !is_read_only) {
        disk.keep(claim);
    }
    let notes = disk.notes().iter().cloned().chain(in_vain(planned)).collect();
    let block = disk.block();
    let mut device =
        finish(planned, (faulty(planned, disk, &description)?, block), &description, notes)?;
    device.1.read_only = is_read_only;
    Ok(device)
}

/// Returns a disk with the faults that were asked for.
fn faulty<D: Disk>(
    planned: &Planned,
    disk: D,
    description: &Description,
) -> Result<FaultyDisk<D>, Failure> {
    let mut disk = FaultyDisk::new(disk, description.size, planned.plan.seed);
    disk.set_faults(&planned.plan.faults)
        .map_err(|why| Failure::named("--fault", ValueError::Fault { why }))?;
    Ok(disk)
}

/// Returns what was asked for and only files and block devices have.
fn in_vain(planned: &Planned) -> Vec<String> {
    let direct = "direct has no effect: only files and block devices are opened with O_DIRECT";
    let busy_poll = "busy polling has no effect: only the threads of files and block devices poll";
    let format = "format has no effect: only files and block devices have one";
    let is_raw = planned.raw.contains(&true);
    let all =
        [(planned.direct, direct), (planned.busy_poll != BUSY_POLL, busy_poll), (is_raw, format)];
    all.into_iter().filter(|(is_given, _)| *is_given).map(|(_, words)| words.to_owned()).collect()
}

/// Makes the parts of a device, of a disk and the bytes of its blocks, which may be more than those
/// of the logical blocks of the queue.
fn finish<D: Disk>(
    planned: &Planned,
    (mut disk, block): (D, u32),
    description: &Description,
    mut notes: Vec<String>,
) -> Result<OpenDevice<D>, Failure> {
    let plan = &planned.plan;
    let config = plan.stack_config(description)?;
    notes.extend(plan.clamped(&config));
    let limits = &config.limits;
    let block = limits.logical_block_size.max(block);
    if limits.max_sectors.bytes().get() < block.into() {
        let expected = format!("at least {} KiB, a block of {}", block / 1024, description.name);
        return Err(Failure::named("--set max_sectors_kb", ValueError::expected(expected)));
    }
    let opened = Opened {
        size: Bytes::new(description.size.bytes().get() / u64::from(block) * u64::from(block)),
        block,
        preferred: limits.physical_block_size.max(4096).max(block),
        rotational: limits.rotational,
        queues: description.hw_queues,
        read_only: false,
        for_reading: false,
        can_discard: !limits.max_hw_discard_sectors.is_zero(),
        notes,
        file: None,
        identities: Vec::new(),
        parts: Vec::new(),
    };
    let cache = plan.cache.as_ref().map(|cache| cache.config(&config));
    if let Some(cache) = &cache {
        if u64::from(block) > PAGE_SIZE {
            let device = description.name.clone();
            return Err(Failure::named("--cache", ConflictError::CannotBeCached { device, block }));
        }
        let bytes = cache.memory.get();
        disk.reserve_frames(cache.memory).map_err(|error| MachineError::Frames { bytes, error })?;
    }
    let mut stack = Stack::new(config).map_err(Failure::input)?;
    if planned.is_watched {
        stack.control_mut().watch();
    }
    let now = disk.now();
    let settings = Settings::new(&mut stack, &plan.tenants, now)
        .map_err(|error| Failure::named("--tenants", error))?;
    Ok((DeviceParts { stack, block, disk, cache, settings, plan: plan.tenants.clone() }, opened))
}
