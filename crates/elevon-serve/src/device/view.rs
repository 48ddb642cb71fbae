//! What a device is doing, as plain values.

use std::collections::{BTreeMap, BTreeSet};

use elevon_cache::page_cache::{Reading, WriteMode};
use elevon_core::account::DiskStats;
use elevon_core::control::Cause;
use elevon_core::nearest::did_you_mean;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, TenantId};
use elevon_result::result::TenantResult;

use super::counts::Counts;

/// A device at one time.
#[derive(Clone, Debug)]
pub struct DeviceView {
    /// The name that the server knows it by.
    pub name: String,
    /// The time of its stack's clock, which began with the server.
    pub at: Instant,
    /// The device's statistics.
    pub disk: DiskStats,
    /// Parts of requests that the stack has taken and not completed.
    pub in_flight: usize,
    /// Why I/O no longer reaches the device, if that is so.
    pub failure: Option<String>,
    /// How often each fault of a simulated device has happened, by its name.
    pub faults: BTreeMap<&'static str, u64>,
    /// True if no flush succeeds any more until the server is started again.
    pub is_lost: bool,
    /// Every tenant, each with those below it, by number. The first is the root.
    pub tenants: Vec<TenantResult>,
    /// The requests that were answered, by the tenant that pays, without those below it.
    pub(crate) requests: Counts,
    /// The requests that are not answered, by the tenant that pays, without those below it.
    pub(crate) waiting: BTreeMap<TenantId, WaitingRequests>,
    /// The clients that have an export of it open.
    pub clients: Vec<ClientView>,
    /// Its page cache, if there is one.
    pub cache: Option<CacheView>,
}

impl DeviceView {
    /// Returns a tenant by its path.
    pub fn tenant(&self, path: &str) -> Option<&TenantResult> {
        self.tenants.iter().find(|tenant| tenant.path == path && !tenant.removed)
    }
}

/// Requests that are not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitingRequests {
    /// How many there are.
    pub(crate) requests: u64,
    /// How long the oldest has waited.
    pub(crate) oldest: Nanos,
    /// The limit that holds I/O of the tenant that has the oldest, if one does.
    pub(crate) held_by: Option<Cause>,
}

impl WaitingRequests {
    /// Adds those of another tenant.
    pub(crate) fn add(&mut self, other: &Self) {
        let is_older = other.oldest > self.oldest || self.requests == 0;
        self.requests += other.requests;
        if is_older {
            (self.oldest, self.held_by) = (other.oldest, other.held_by);
        }
    }
}

/// A client of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientView {
    /// The number of its connection.
    pub connection: u32,
    /// Requests that are not answered.
    pub requests: usize,
}

/// What a tenant's requests found in the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Reads through the cache: parts of READs, of up to 256 KiB.
    pub reads: u64,
    /// Those of them that found everything in memory.
    pub hits: u64,
    /// Writes through the cache: parts of WRITEs.
    pub writes: u64,
    /// Time that its writes were held because of its dirty pages.
    pub paused: Nanos,
    /// Time that its reads and writes were held because no memory was free.
    pub starved: Nanos,
}

impl CacheUse {
    /// Adds what other requests found.
    pub(crate) fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.hits += other.hits;
        self.writes += other.writes;
        self.paused += other.paused;
        self.starved += other.starved;
    }

    /// Takes away what an earlier value of the same had.
    pub(crate) fn subtract(&mut self, earlier: &Self) {
        self.reads -= earlier.reads;
        self.hits -= earlier.hits;
        self.writes -= earlier.writes;
        self.paused = Nanos::new(self.paused.get() - earlier.paused.get());
        self.starved = Nanos::new(self.starved.get() - earlier.starved.get());
    }
}

/// The page cache of a device at one time. Counters count from the server's start, pages have 4
/// KiB.
#[derive(Clone, Debug)]
pub struct CacheView {
    /// Bytes for cached data and what is kept free.
    pub memory: Bytes,
    /// When a write has finished.
    pub mode: WriteMode,
    /// Pages in the cache, dirty ones, those that are being written; pages that reads found, and
    /// that they did not.
    pub reading: Reading,
    /// The error of the first write-back or flush that failed.
    pub lost: Option<Status>,
    /// What the requests of each tenant found, without those of tenants below it.
    pub tenants: BTreeMap<TenantId, CacheUse>,
}

/// Tenants that the answer names if the tenant asked for is not there.
const NAMED: usize = 8;

/// Returns what is said about a tenant that no device has, with the one that was perhaps meant, or
/// with those that there are.
pub(crate) fn unknown_tenant(devices: &[DeviceView], name: &str) -> String {
    let all = devices.iter().flat_map(|view| &view.tenants).filter(|tenant| !tenant.removed);
    let all: BTreeSet<&str> = all.map(|tenant| &*tenant.path).collect();
    let meant = did_you_mean(name, all.iter().copied().filter(|path| *path != "/"));
    if !meant.is_empty() {
        return format!("{name}: no such tenant{meant}");
    }
    let named = all.iter().copied().take(NAMED).collect::<Vec<_>>().join(", ");
    match all.len() {
        0 | 1 => format!("{name}: no such tenant; there is {named} alone, the root"),
        2..=NAMED => format!("{name}: no such tenant; there are {named}"),
        more => format!("{name}: no such tenant; there are {named} and {} more", more - NAMED),
    }
}
