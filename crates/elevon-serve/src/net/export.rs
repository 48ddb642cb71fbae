//! Exports: as they are configured, and as connections know them.

use elevon_core::ioprio::IoPrio;
use elevon_core::units::TenantId;

use super::refused::ConnectionRefusal;
use super::tls::Identity;

/// A file or block device of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPart {
    /// Its name.
    pub name: String,
    /// Byte of the pool at which it begins.
    pub base: u64,
}

/// A disk as clients see it, whatever protocol they speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedDisk {
    /// Bytes: a multiple of [`Self::block`].
    pub size: u64,
    /// Offsets and lengths of requests of a client that asks for block sizes are multiples of it:
    /// a power of two up to 64 KiB.
    pub block: u32,
    /// The size in bytes at which requests are served best: a power of two, at least 512 and
    /// [`Self::block`].
    pub preferred: u32,
    /// It cannot be written.
    pub read_only: bool,
    /// Access in order is faster than elsewhere.
    pub rotational: bool,
    /// Ranges can be given back.
    pub trim: bool,
    /// A text for people.
    pub description: String,
}

impl ExportedDisk {
    /// Returns true if its sizes are as their fields say.
    pub(crate) fn is_valid(&self) -> bool {
        self.block.is_power_of_two()
            && self.block <= 64 << 10
            && self.preferred.is_power_of_two()
            && self.preferred >= self.block.max(512)
            && self.size.is_multiple_of(u64::from(self.block))
    }
}

/// An export of a server.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Its name; a client that names none gets the first export.
    pub name: String,
    /// The number of its device ([`crate::Devices::add`]).
    pub device: usize,
    /// The tenant that its I/O is charged to.
    pub tenant: TenantId,
    /// The tenant's path, the same on every device; empty for the root.
    pub tenant_path: String,
    /// The most urgent priority that its requests may ask for; none is best effort, level 4.
    pub ioprio: IoPrio,
    /// Byte of the device, or of its part, at which it begins; a multiple of the block size.
    pub start: u64,
    /// The part of the device that it is on, if that is a pool.
    pub part: Option<PoolPart>,
    /// What clients see of it.
    pub disk: ExportedDisk,
    /// Those who may open it: names as their certificates have them, and `uid:N` and `gid:N` of
    /// processes that connect to a Unix socket; empty: everybody.
    pub clients: Vec<String>,
    /// The addresses at which alone it is reached, as they are shown; empty: those of the server
    /// ([`crate::Server::listen`]).
    pub listen: Vec<String>,
    /// Connections that may have it open, if it has a limit of its own; at least 1. Without one it
    /// has a part of all, and so have all exports of its tenant.
    pub max_connections: Option<u32>,
}

impl Exported {
    /// Returns the byte of the device, which may be a pool, at which it begins.
    pub fn base(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.base) + self.start
    }
}

/// How a client's requests become I/O of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charged {
    pub(crate) tenant: TenantId,
    /// The most urgent priority that its requests may have.
    pub(crate) ioprio: IoPrio,
    /// Byte of the device at which the export begins.
    pub(crate) base: u64,
    /// Its bytes.
    pub(crate) size: u64,
}

impl Charged {
    /// Returns the priority of a request that asks for one: no more urgent than the export's. A
    /// request that asks for none has none, unless the export's is less urgent than that.
    pub(crate) fn allowed_ioprio(&self, asked: IoPrio) -> IoPrio {
        let urgency = |ioprio: IoPrio| {
            let ioprio = ioprio.or(IoPrio::DEFAULT);
            (ioprio.class(), ioprio.level())
        };
        if urgency(asked) < urgency(self.ioprio) { self.ioprio } else { asked }
    }
}

/// An export as connections know it.
#[derive(Clone, Debug)]
pub(crate) struct ServedExport {
    pub(crate) name: String,
    pub(crate) device: usize,
    pub(crate) charged: Charged,
    pub(crate) tenant_path: String,
    /// The part of a pool that it is on.
    pub(crate) part: Option<PoolPart>,
    pub(crate) disk: ExportedDisk,
    /// Those who may open it; empty: everybody.
    pub(crate) clients: Vec<String>,
    /// The addresses at which alone it is reached; empty: those of the server.
    pub(crate) listen: Vec<String>,
    /// Connections that may have it open, if it has a limit of its own.
    pub(crate) max_connections: Option<u32>,
    /// No client may open it.
    pub(crate) is_drained: bool,
}

impl ServedExport {
    pub(crate) fn of(export: Exported) -> Self {
        let base = export.base();
        Self {
            name: export.name,
            device: export.device,
            charged: Charged {
                tenant: export.tenant,
                ioprio: export.ioprio,
                base,
                size: export.disk.size,
            },
            tenant_path: export.tenant_path,
            part: export.part,
            disk: export.disk,
            clients: export.clients,
            listen: export.listen,
            max_connections: export.max_connections,
            is_drained: false,
        }
    }

    /// Returns true if a client may open it, where it has connected.
    pub(crate) fn is_for(&self, client: &Identity) -> bool {
        client.is_at_one_of(&self.listen) && client.is_one_of(&self.clients)
    }

    /// Returns the export as it is configured.
    pub(crate) fn exported(&self) -> Exported {
        Exported {
            name: self.name.clone(),
            device: self.device,
            tenant: self.charged.tenant,
            tenant_path: self.tenant_path.clone(),
            ioprio: self.charged.ioprio,
            start: self.charged.base - self.part.as_ref().map_or(0, |part| part.base),
            part: self.part.clone(),
            disk: self.disk.clone(),
            clients: self.clients.clone(),
            listen: self.listen.clone(),
            max_connections: self.max_connections,
        }
    }
}

/// Why a client does not get an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// There is none of that name for it any more, or the connection has ended.
    Unknown,
    /// No client may open it.
    Drained,
    /// So many connections have something open, which is the limit of this key.
    Full { limit: u32, key: &'static str, why: ConnectionRefusal },
}

/// Returns the export of a name among those that a client may open. The empty name is that of the
/// first, unless one has it.
pub(crate) fn find<'a>(
    exports: &'a [ServedExport],
    name: &str,
    client: &Identity,
) -> Option<&'a ServedExport> {
    let open = || exports.iter().filter(|export| export.is_for(client));
    open().find(|export| export.name == name).or_else(|| open().next().filter(|_| name.is_empty()))
}
