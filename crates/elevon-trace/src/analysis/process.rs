//! I/O by process: one row of figures for each process of the trace.

use elevon_core::stats::LatencyStat;
use hashbrown::HashTable;

use super::Group;
use super::sum::add;
use crate::event::TraceEvent;
use crate::names::{NameId, Names};

/// Figures of one process.
#[derive(Clone, Debug, Default)]
pub struct ProcessStats {
    /// Id of the process or, if the trace does not have it, of the thread; `None` if the trace has
    /// neither.
    pub id: Option<u32>,
    /// Name, if the trace has it.
    pub(crate) comm: Option<NameId>,
    /// Name, if the trace has one; set at the end of the analysis.
    pub name: Option<String>,
    /// Bios that it queued, by [`Group`].
    pub bios: [u64; Group::COUNT],
    /// Bytes of its bios.
    pub bytes: [u64; Group::COUNT],
    /// Completed requests whose first bio is of this process, by [`Group`].
    pub requests: [u64; Group::COUNT],
    /// Splits of its bios.
    pub splits: u64,
    /// Its bios that were merged into a request, and its requests that were merged into another.
    pub merges: u64,
    /// Its bios that started where its previous bio ended.
    pub sequential: u64,
    /// Time from queue to completion of its bios, or of its requests if the trace has no bios; by
    /// [`Group`].
    pub latency: [LatencyStat; Group::COUNT],
    /// Nanoseconds that its requests spent in the device, summed over requests.
    pub device_time: u64,
    /// Nanoseconds from the allocation of its requests to their first issue, summed over requests.
    pub(super) waited: u64,
    /// True if its requests have the idle class.
    pub(super) is_idle_class: bool,
    /// Sector after its last bio plus one; 0 before the first.
    last_end: u64,
}

impl ProcessStats {
    /// Returns name and id for readers: `fio (4242)`.
    pub fn label(&self) -> String {
        match (&self.name, self.id) {
            (Some(name), Some(id)) => format!("{name} ({id})"),
            (Some(name), None) => name.clone(),
            (None, Some(id)) => format!("process {id}"),
            (None, None) => "unknown".to_owned(),
        }
    }

    /// Returns the number of all its bios.
    pub fn all_bios(&self) -> u64 {
        self.bios.iter().sum()
    }

    /// Returns the bytes of all its bios.
    pub fn all_bytes(&self) -> u64 {
        self.bytes.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// Returns the number of all its requests.
    pub fn all_requests(&self) -> u64 {
        self.requests.iter().sum()
    }

    /// Counts a bio.
    #[inline]
    pub(super) fn queued(&mut self, group: Group, sector: u64, sectors: u64, bytes: u64) {
        self.bios[group as usize] += 1;
        add(&mut self.bytes[group as usize], bytes);
        if sectors > 0 {
            self.sequential += u64::from(self.last_end == sector.wrapping_add(1));
            self.last_end = sector.wrapping_add(sectors).wrapping_add(1);
        }
    }
}

/// Maximum number of processes with figures of their own, because a hostile trace may name any
/// number: each takes about a kilobyte.
const MAX_PROCESSES: usize = 1 << 16;

/// All processes, in order of appearance. Those beyond the first [`MAX_PROCESSES`] are counted as
/// one, which has neither id nor name.
#[derive(Default)]
pub(super) struct Processes {
    pub(super) all: Vec<ProcessStats>,
    index: HashTable<u32>,
    last: usize,
    /// Number of rows whose names have been set.
    resolved: usize,
}

fn hash(id: Option<u32>, comm: Option<NameId>) -> u64 {
    let id = id.map_or(u64::MAX, u64::from);
    let comm = comm.map_or(0, |comm| comm.index() as u64 + 1);
    let value = (id ^ comm << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value ^ value >> 29
}

impl Processes {
    /// Returns the row of an event's process. Cost: two comparisons if it is that of the previous
    /// event, otherwise one hash.
    #[inline]
    pub(super) fn of(&mut self, event: &TraceEvent) -> u32 {
        let (id, comm) = (event.process.or(event.tid), event.comm);
        if let Some(row) = self.all.get(self.last)
            && row.id == id
            && row.comm == comm
        {
            return self.last as u32;
        }
        self.find(id, comm)
    }

    fn find(&mut self, mut id: Option<u32>, mut comm: Option<NameId>) -> u32 {
        if self.all.len() >= MAX_PROCESSES
            && self.index.find(hash(id, comm), |&at| self.is_row(at, id, comm)).is_none()
        {
            (id, comm) = (None, None);
        }
        let hash_of = hash(id, comm);
        if let Some(&at) = self.index.find(hash_of, |&at| self.is_row(at, id, comm)) {
            self.last = at as usize;
            return at;
        }
        let at = self.all.len() as u32;
        self.all.push(ProcessStats { id, comm, ..ProcessStats::default() });
        let all = &self.all;
        self.index
            .insert_unique(hash_of, at, |&at| hash(all[at as usize].id, all[at as usize].comm));
        self.last = at as usize;
        at
    }

    fn is_row(&self, at: u32, id: Option<u32>, comm: Option<NameId>) -> bool {
        let row = &self.all[at as usize];
        row.id == id && row.comm == comm
    }

    /// Adds a row for each process of other figures of the same trace, in their order.
    pub(super) fn take_rows(&mut self, of: &Self) {
        for row in &of.all[self.all.len()..] {
            self.all.push(ProcessStats { id: row.id, comm: row.comm, ..ProcessStats::default() });
        }
    }

    /// Returns the same processes, with nothing counted.
    pub(super) fn without_figures(&self) -> Self {
        let row = |row: &ProcessStats| ProcessStats {
            id: row.id,
            comm: row.comm,
            name: row.name.clone(),
            ..ProcessStats::default()
        };
        let all = self.all.iter().map(row).collect();
        Self { all, index: self.index.clone(), last: self.last, resolved: self.resolved }
    }

    /// Sets the names of the processes.
    pub(super) fn resolve(&mut self, names: &Names) {
        for row in &mut self.all[self.resolved..] {
            row.name = row.comm.map(|id| names.name(id).to_owned());
        }
        self.resolved = self.all.len();
    }
}
