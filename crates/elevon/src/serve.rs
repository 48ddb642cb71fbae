//! `elevon serve`: a file or block device as an NBD disk, through the stack.

use std::path::Path;

use elevon_core::ioprio::IoPrio;
use elevon_core::nearest::did_you_mean;
use elevon_core::stack::Stack;
use elevon_core::units::{Bytes, TenantId};
use elevon_formats::fio::ParsedJobs;
use elevon_host::interrupt::Interrupt;
use elevon_host::{Host, HostFile, OpenOptions};
use elevon_nbd::Export;
use elevon_serve::{Address, Exported, Server};
use elevon_sim::device::Description;
use elevon_workload::backend::Backend;
use elevon_workload::settings::Settings;

use crate::args::{ServeArgs, StackArgs};
use crate::failure::{ConflictError, Ending, Failure, MachineError, emit_text, tell};
use crate::plan::{Plan, Target};
use crate::run::warn;

/// Commands that the kernel is given at a time.
const DEPTH: u32 = 1024;

/// What the thread of a device says once it is open.
struct Opened {
    size: Bytes,
    block: u32,
    preferred: u32,
    rotational: bool,
    can_discard: bool,
    notes: Vec<String>,
}

pub(crate) fn serve(args: &ServeArgs) -> Result<Ending, Failure> {
    let addresses = args.listen.iter().map(|text| address(text)).collect::<Result<Vec<_>, _>>()?;
    let stack_args = stack_args(args);
    let plan = Plan::of_jobs(ParsedJobs::of_specs(Vec::new()), "", &stack_args, None)?;
    let tenant = tenant(&plan, args.tenant.as_deref())?;
    // Without jobs, every tenant of the file seems to be without a use.
    warn(&plan.warnings.iter().filter(|line| !plan.tenants.warnings.contains(line)).cloned().collect::<Vec<_>>());
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    let mut server = Server::new();
    let (read_only, direct) = (args.read_only, args.direct);
    let opened = server.add_device(move || open(&plan, read_only, direct))?;
    warn(&opened.notes);
    let mut told = Export {
        block: opened.block,
        preferred: opened.preferred,
        description: args.file.display().to_string(),
        ..Export::new(opened.size.get())
    };
    (told.flags.read_only, told.flags.rotational, told.flags.trim) =
        (args.read_only, opened.rotational, opened.can_discard);
    let name = args.name.clone().unwrap_or_else(|| default_name(&args.file));
    server.add_export(Exported { name: name.clone(), device: 0, tenant, ioprio: IoPrio::NONE, start: 0, told });
    let bound = addresses.iter().map(|address| server.listen(address)).collect::<Result<Vec<_>, _>>()?;
    for address in &bound {
        emit_text(&format!("{}\n", uri(address, &name)))?;
    }
    server.serve(&|| interrupt.is_set(), tell)?;
    // A signal is the only end that a server has.
    Ok(Ending::Done)
}

/// Opens the device in the thread that will own it.
fn open(plan: &Plan, read_only: bool, direct: bool) -> Result<(Stack, Host, Settings, Opened), Failure> {
    let Target::Real(path) = &plan.target else { unreachable!("a path is served") };
    let options = OpenOptions { write: !read_only, direct, grow_to: 0 };
    let file = HostFile::open(path, options).map_err(Failure::input)?;
    let mut host = Host::new(file, DEPTH, None, Interrupt::new()).map_err(MachineError::StartIo)?;
    let description = Description {
        name: path.display().to_string(),
        size: host.file().size,
        limits: host.file().limits.clone(),
        hw_queues: 1,
        queue_depth: host.queue_depth(),
    };
    let config = plan.stack_config(&description)?;
    let mut notes = host.warnings().to_vec();
    notes.extend(crate::in_force::differing(&plan.settings, &config));
    let limits = &config.limits;
    let block = limits.logical_block_size.max(512);
    let opened = Opened {
        size: Bytes::new(description.size.bytes().get() / u64::from(block) * u64::from(block)),
        block,
        preferred: limits.physical_block_size.max(4096).max(block),
        rotational: limits.rotational,
        can_discard: !limits.max_hw_discard_sectors.is_zero(),
        notes,
    };
    let mut stack = Stack::new(config).map_err(Failure::input)?;
    let now = host.now();
    let settings = Settings::new(&mut stack, &plan.tenants, now).map_err(|error| Failure::named("--tenants", error))?;
    Ok((stack, host, settings, opened))
}

/// Returns the options of a run on the same device.
fn stack_args(args: &ServeArgs) -> StackArgs {
    let file = args.file.display().to_string();
    // A name without a slash could be that of a simulated device.
    let device = if file.contains('/') { file } else { format!("./{file}") };
    StackArgs {
        device,
        scheduler: args.scheduler.clone(),
        kernel: args.kernel.clone(),
        set: args.set.clone(),
        seed: 1,
        buffers: None,
        cpu_cost: None,
        memory: None,
        cache: None,
        fault: Vec::new(),
        tenants: args.tenants.clone(),
        log_dir: None,
        include_dir: None,
    }
}

fn address(text: &str) -> Result<Address, Failure> {
    text.parse::<Address>().map_err(|error| Failure::named(format!("--listen {text}"), error))
}

/// Returns the tenant of a path in the file of `--tenants`.
fn tenant(plan: &Plan, path: Option<&str>) -> Result<TenantId, Failure> {
    let Some(path) = path else { return Ok(TenantId(0)) };
    let tenants = &plan.tenants.tenants;
    let found = tenants.iter().position(|tenant| tenant.path == path);
    found.map(|index| TenantId(index as u32 + 1)).ok_or_else(|| {
        let meant = did_you_mean(path, tenants.iter().map(|tenant| tenant.path.as_str()));
        Failure::named(format!("--tenant {path}"), ConflictError::NoTenant { meant })
    })
}

/// Returns the name of an export: that of its file.
fn default_name(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the address as NBD's clients take it.
fn uri(address: &Address, name: &str) -> String {
    match address {
        Address::Tcp(place) => format!("nbd://{place}/{name}"),
        Address::Unix(path) => format!("nbd+unix:///{name}?socket={}", path.display()),
    }
}
