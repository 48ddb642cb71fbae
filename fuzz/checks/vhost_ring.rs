//! Any bytes as a guest's memory with a whole ring in it: the device takes requests, reads them and
//! ends them, and never leaves the memory or walks for ever.

use elevon_vhost::blk::{Request, Status};
use elevon_vhost::ring::{Chain, Ring, RingPlace};
use elevon_vhost::{Inflight, inflight_bytes};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const SIZE: u16 = 16;
const MEMORY: usize = 1 << 12;
const PLACE: RingPlace = RingPlace { descriptors: 0, available: 256, used: 512 };

pub(crate) fn vhost_ring(data: &[u8]) {
    let [first, data @ ..] = data else { return };
    let memory = memory_of(data, MEMORY);
    let records = memory_of(data, inflight_bytes(SIZE) as usize);
    let Ok(mut ring) = Ring::new(&memory, PLACE, SIZE, u16::from(*first), first % 2 == 0) else {
        return;
    };
    let Ok((mut record, heads)) = Inflight::open(&records, 0, SIZE, &ring) else { return };
    assert!(heads.len() <= usize::from(SIZE));
    ring.resume(heads.len() as u16);
    let mut chain = Chain::default();
    let mut heads = heads.into_iter();
    // What the device writes may make more available than a ring has.
    for _ in 0..4 * SIZE {
        let Some(head) =
            heads.next().map_or_else(|| ring.take(&memory), |head| Ok(Some(head))).ok()
        else {
            return;
        };
        let Some(head) = head else {
            if !ring.want_kicks(&memory).unwrap_or(false) {
                return;
            }
            continue;
        };
        assert!(head < SIZE, "a head of the ring");
        if record.take(&records, head).is_err()
            || ring.read_chain(&memory, head, &mut chain).is_err()
        {
            return;
        }
        if let Ok(request) = Request::read(&memory, &chain, Vec::new()) {
            let all: u64 = request.segments(0, request.bytes).map(|it| u64::from(it.bytes)).sum();
            assert_eq!(all, request.bytes);
            let mut bytes = vec![0; request.bytes.min(MEMORY as u64) as usize];
            request.copy_from(&memory, 0, &mut bytes).expect("it is in the memory");
            request.copy_to(&memory, 0, &bytes).expect("it is in the memory");
            request.write_status(&memory, Status::Ok).expect("it is in the memory");
        }
        record.begin_used(&records, head).expect("it is in the memory");
        ring.push_used(&memory, head, 1).expect("it is in the memory");
        record.end_used(&records, head, ring.next_used()).expect("it is in the memory");
        ring.wants_call(&memory).expect("it is in the memory");
    }
}

/// Returns memory that begins with these bytes, repeated.
fn memory_of(data: &[u8], bytes: usize) -> GuestMemoryMmap {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)]).expect("memory");
    let all: Vec<u8> =
        data.iter().copied().cycle().take(if data.is_empty() { 0 } else { bytes }).collect();
    memory.write_slice(&all, GuestAddress(0)).expect("it is in the memory");
    memory
}
