//! The parts of requests on their way to the stack.

use elevon_core::op::{Flags, Op};
use elevon_core::stack::Io;
use elevon_core::units::{Bytes, DeviceOffset, LayoutId, TaskId};

use super::{DeviceLoop, queued};
use crate::device::pieces::Part;
use crate::disks::Disk;
use crate::net::export::Charged;

impl<D: Disk> DeviceLoop<D> {
    /// Submits what the client has buffers for. Returns false if there was nothing.
    pub(super) fn submit(&mut self, task: TaskId) -> bool {
        let client = self.clients[task.index()].as_mut().expect("a client that is there");
        if !client.has_next() {
            return false;
        }
        if client.delayed > self.engine.now() {
            self.delayed.insert((client.delayed, task));
            return false;
        }
        let mut slots = std::mem::take(&mut self.parts);
        let lends = self.cache.is_none();
        while let Some((slot, part, pieces)) = client.next() {
            if part.op == Op::Write
                && !pieces.has_part_slots()
                && let Some(buffer) = self.engine.backend_mut().buffer(task, slot.into())
            {
                // Zeroes that the device cannot make otherwise.
                buffer[..part.length as usize].fill(0);
            }
            let data = pieces.data_of(&part);
            if let (Some(data), Some(queues)) = (data, client.front.queues()) {
                queued::bring(self.engine.backend_mut(), task, slot, &*queues, &data, lends);
            }
            slots.push(slot);
        }
        if self.cache.is_some() {
            slots.drain(..).for_each(|slot| self.begin_cached(task, slot));
        } else {
            self.submit_all(task, &mut slots);
        }
        self.parts = slots;
        true
    }

    /// Submits parts of a client to the stack. Under a plug neighbours merge, and its end runs the
    /// queue: without one a scheduler's queue is left to a worker, which the stack imitates by a
    /// timer.
    pub(super) fn submit_all(&mut self, task: TaskId, slots: &mut Vec<u32>) {
        self.engine.begin_batch(task);
        for slot in slots.drain(..) {
            let client = self.clients[task.index()].as_mut().expect("a client that is there");
            let charged = client.charged;
            let (pieces, part) = client.part(slot);
            let asked = pieces.request.ioprio;
            let charged = Charged { ioprio: charged.allowed_ioprio(asked), ..charged };
            let io = io_of(task, charged, self.layout, slot, &part);
            self.engine.submit(io);
        }
        self.engine.end_batch(task);
    }
}

/// Returns the I/O of a part.
fn io_of(task: TaskId, charged: Charged, layout: LayoutId, slot: u32, part: &Part) -> Io {
    let Charged { tenant, ioprio, base, .. } = charged;
    // The client waits for its writes, so writeback throttling is not for them.
    let flags = Flags::IDLE | if part.fua { Flags::FUA | Flags::SYNC } else { Flags::NONE };
    Io {
        task,
        token: slot.into(),
        op: part.op,
        flags,
        sector: DeviceOffset::new(base + part.at).sector(),
        bytes: Bytes::new(part.length),
        ioprio,
        write_hint: 0,
        tenant,
        layout,
        // As io_uring, which hands an I/O without a tag to a worker.
        may_block: false,
    }
}
