//! The data of clients with queues: between their memory and the device, directly or through the
//! buffers of the device.

use elevon_core::op::Op;
use elevon_core::units::TaskId;

use crate::device::pieces::PartData;
use crate::disks::Disk;
use crate::net::queues::Queues;
use crate::request::Operation;

/// Brings the data of a client to the buffer of a part: its memory takes the place of the buffer if
/// the device can use it, and otherwise the data of a WRITE is copied. `lends`: the buffer is that
/// of the device's I/O.
pub(super) fn bring(
    disk: &mut impl Disk,
    task: TaskId,
    slot: u32,
    queues: &dyn Queues,
    data: &PartData,
    lends: bool,
) {
    let can_lend = lends && data.is_whole;
    if let Some(host) = disk.host().filter(|_| can_lend)
        && let Some(lent) = queues.lend(&data.request, data.from, data.bytes)
    {
        return host.lend(task, slot.into(), lent);
    }
    if data.request.operation == Operation::Write
        && let Some(buffer) = disk.buffer(task, slot.into())
    {
        let bytes = &mut buffer[data.in_buffer as usize..][..data.bytes as usize];
        queues.copy_from(&data.request, data.from, bytes);
    }
}

/// Takes the data of a part that has ended to a client, if it was read into the buffer. The buffer
/// has its own memory again.
pub(super) fn take(
    disk: &mut impl Disk,
    task: TaskId,
    slot: u32,
    queues: &dyn Queues,
    data: Option<&PartData>,
    (op, is_ok): (Op, bool),
) {
    let was_lent = disk.host().is_some_and(|host| host.take_back(task, slot.into()));
    if was_lent || op != Op::Read || !is_ok {
        return;
    }
    if let (Some(data), Some(buffer)) = (data, disk.buffer(task, slot.into())) {
        let bytes = &buffer[data.in_buffer as usize..][..data.bytes as usize];
        queues.copy_to(&data.request, data.from, bytes);
    }
}
