//! A request of virtio-blk in a chain of descriptors.

use vm_memory::{Bytes, GuestAddress, GuestMemory};

use super::{HEAD_BYTES, Head, Kind, Status};
use crate::ring::{Chain, RingError, Segment};

/// A request: its head, where its data is, and where its status goes. The head and the data may be
/// cut into descriptors in any way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its head.
    pub head: Head,
    /// Where its data is: what follows the head, or of a read and of a name what precedes the
    /// status.
    pub data: Vec<Segment>,
    /// Length of the data in bytes.
    pub bytes: u64,
    /// Length of all that may be written, the status included, in bytes.
    pub room: u32,
    /// The guest's physical address of the status.
    status: u64,
}

impl Request {
    /// Reads a request. `data` is an empty list, which is used for that of the request.
    ///
    /// # Errors
    /// The chain is too short for a request, or the memory is gone.
    pub fn read<M: GuestMemory + ?Sized>(
        memory: &M,
        chain: &Chain,
        mut data: Vec<Segment>,
    ) -> Result<Self, RingError> {
        let mut bytes = [0; HEAD_BYTES];
        let mut filled = 0;
        let mut rest = Vec::new();
        for segment in &chain.readable {
            let take = (segment.bytes as usize).min(HEAD_BYTES - filled);
            memory
                .read_slice(&mut bytes[filled..filled + take], GuestAddress(segment.at))
                .map_err(|_| RingError::Address(segment.at))?;
            filled += take;
            if take < segment.bytes as usize {
                let (at, bytes) = (segment.at + take as u64, segment.bytes - take as u32);
                rest.push(Segment { at, bytes });
            }
        }
        let last = chain.writable.iter().rposition(|segment| segment.bytes > 0);
        let (true, Some(last)) = (filled == HEAD_BYTES, last) else {
            return Err(RingError::NoRequest);
        };
        let of_status = chain.writable[last];
        let room = chain.writable.iter().map(|segment| segment.bytes).sum();
        let head = Head::parse(&bytes);
        data.clear();
        if matches!(head.kind, Kind::Read | Kind::Name) {
            data.extend_from_slice(&chain.writable[..last]);
            data.push(Segment { bytes: of_status.bytes - 1, ..of_status });
        } else {
            data.extend_from_slice(&rest);
        }
        data.retain(|segment| segment.bytes > 0);
        let bytes = data.iter().map(|segment| u64::from(segment.bytes)).sum();
        let status = of_status.at + u64::from(of_status.bytes) - 1;
        Ok(Self { head, data, bytes, room, status })
    }

    /// Yields the parts of the guest's memory in which `bytes` of the data are, from byte `from`
    /// on.
    pub fn segments(&self, from: u64, bytes: u64) -> impl Iterator<Item = Segment> + '_ {
        let (mut skip, mut left) = (from, bytes);
        self.data.iter().filter_map(move |segment| {
            let skipped = skip.min(segment.bytes.into());
            skip -= skipped;
            let taken = left.min(u64::from(segment.bytes) - skipped);
            left -= taken;
            let segment = Segment { at: segment.at + skipped, bytes: taken as u32 };
            (taken > 0).then_some(segment)
        })
    }

    /// Copies data of the request out of the guest's memory, from byte `from` on.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn copy_from<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        from: u64,
        into: &mut [u8],
    ) -> Result<(), RingError> {
        let mut done = 0;
        for segment in self.segments(from, into.len() as u64) {
            let part = &mut into[done..done + segment.bytes as usize];
            memory
                .read_slice(part, GuestAddress(segment.at))
                .map_err(|_| RingError::Address(segment.at))?;
            done += segment.bytes as usize;
        }
        Ok(())
    }

    /// Copies data into the guest's memory, from byte `from` of the data of the request on.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn copy_to<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        from: u64,
        bytes: &[u8],
    ) -> Result<(), RingError> {
        let mut done = 0;
        for segment in self.segments(from, bytes.len() as u64) {
            memory
                .write_slice(&bytes[done..done + segment.bytes as usize], GuestAddress(segment.at))
                .map_err(|_| RingError::Address(segment.at))?;
            done += segment.bytes as usize;
        }
        Ok(())
    }

    /// Writes the status, which ends the request.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn write_status<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        status: Status,
    ) -> Result<(), RingError> {
        memory
            .write_slice(&[status as u8], GuestAddress(self.status))
            .map_err(|_| RingError::Address(self.status))
    }
}
