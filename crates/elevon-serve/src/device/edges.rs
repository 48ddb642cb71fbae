//! Requests that change a part of a block: when they begin, and what is written.

use elevon_core::units::{PAGE_SIZE, TaskId};

use super::DeviceLoop;
use super::exclusion::{Change, RequestId};
use crate::device::byte_range::ByteRange;
use crate::device::client::Client;
use crate::device::pieces::{Part, Pieces};
use crate::disks::Disk;
use crate::request::{DiskRequest, Operation};

impl<D: Disk> DeviceLoop<D> {
    /// Lets the parts of a request be submitted that has all of its payload: at once, unless it
    /// has to wait for others that change the same blocks.
    pub(super) fn start(&mut self, task: TaskId, index: usize) {
        let client = self.clients[task.index()].as_ref().expect("a client with a request");
        let is_cached = self.cache.is_some();
        if let Some(change) = change_of(client, index, client.requests.get(index), is_cached)
            && (change.excludes() || !self.exclusion.is_idle())
        {
            if self.exclusion.is_idle() {
                for client in self.clients.iter().flatten() {
                    let changes = client.complete_requests();
                    let changes = changes
                        .filter_map(|(index, pieces)| change_of(client, index, pieces, is_cached));
                    changes.filter(|other| other.id != change.id).for_each(|other| {
                        let begins = self.exclusion.enter(other);
                        debug_assert!(begins, "it has begun");
                    });
                }
            }
            if !self.exclusion.enter(change) {
                return;
            }
        }
        self.clients[task.index()].as_mut().expect("a client with a request").requests.start(index);
    }

    /// Returns true if a request that came may be taken: it excludes no others, or its tenant has
    /// few that do. Otherwise it is looked at again once one of these has ended.
    pub(super) fn may_exclude(&mut self, task: TaskId, request: &DiskRequest) -> bool {
        let client = self.clients[task.index()].as_ref().expect("a client with a request");
        let is_past_cache = self.cache.is_some()
            && matches!(request.operation, Operation::Trim | Operation::WriteZeroes { .. });
        if (is_past_cache || Pieces::changes_parts(request, client.block))
            && !self.exclusion.has_room(client.charged.tenant)
        {
            self.to_exclude.insert(task);
            return false;
        }
        true
    }

    /// Starts the requests that waited for one that has changed something.
    pub(super) fn end_change(&mut self, id: RequestId) {
        std::mem::take(&mut self.to_exclude).into_iter().for_each(|task| self.enqueue(task));
        let mut begun = Vec::new();
        self.exclusion.leave(id, |id| begun.push(id));
        for (task, index) in begun {
            self.clients[task.index()]
                .as_mut()
                .expect("a client with a request")
                .requests
                .start(index);
            self.enqueue(task);
        }
    }
}

/// Returns what a request of a client changes, in bytes of the device; `None` if nothing.
fn change_of(client: &Client, index: usize, pieces: &Pieces, is_cached: bool) -> Option<Change> {
    let base = client.charged.base;
    let blocks = pieces.changed()?.moved(base);
    let is_past_cache = is_cached && pieces.request.operation != Operation::Write;
    let exclusive = if is_past_cache {
        [Some(blocks.outer(PAGE_SIZE)), None]
    } else {
        let mut edges = pieces.edges().map(|edge| edge.moved(base));
        [edges.next(), edges.next()]
    };
    Some(Change { id: (client.task, index), tenant: client.charged.tenant, blocks, exclusive })
}

/// Takes the bytes that a part has read into its buffer: those of a READ stay there, and of a block
/// that is changed in part those that it keeps are put to those that it gets.
pub(super) fn take_read(
    disk: &mut impl Disk,
    task: TaskId,
    slot: u32,
    pieces: &Pieces,
    part: &Part,
) {
    let Some(buffer) = disk.buffer(task, slot.into()) else { return };
    let block = ByteRange { start: part.at, end: part.at + part.length };
    let in_buffer =
        |of: ByteRange| (of.start - block.start) as usize..(of.end - block.start) as usize;
    match pieces.request.operation {
        Operation::Read => {}
        Operation::WriteZeroes { .. } => {
            buffer[in_buffer(ByteRange::of(&pieces.request).within(block))].fill(0);
        }
        _ => {
            for kept in ByteRange::of(&pieces.request).gaps(block) {
                let Some(buffer) = disk.buffer(task, slot.into()) else { return };
                let bytes = buffer[in_buffer(kept)].to_vec();
                let (slot, at) = pieces.place_of(kept.start);
                if let Some(data) = disk.buffer(task, slot.into()) {
                    data[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
    }
}
