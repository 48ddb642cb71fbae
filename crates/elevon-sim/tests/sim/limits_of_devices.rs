//! Checks that every named device reports limits that every kernel version accepts, and that a full
//! bio can be split completely under them.

use elevon_core::bio::{Bio, DataRange};
use elevon_core::build::{Fill, IoPath, next_bio_bytes};
use elevon_core::ioprio::IoPrio;
use elevon_core::kernel::Kernel;
use elevon_core::op::{Flags, Op};
use elevon_core::split::{Split, split};
use elevon_core::units::{Bytes, Instant, LayoutId, Sector, TaskId, TenantId};
use elevon_sim::device::Device;
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::profiles;

#[test]
fn every_kernel_takes_the_limits_of_every_device() {
    let layout = Memory::new(&MemoryModel::default(), 1)
        .allocate(Bytes::new(4 << 20))
        .expect("memory without end");
    for name in profiles::names() {
        let device = profiles::open(name, 1).unwrap_or_else(|error| panic!("{name}: {error}"));
        for kernel in Kernel::ALL {
            let mut limits = device.description().limits.clone();
            limits
                .validate(&kernel.rules())
                .unwrap_or_else(|error| panic!("{name} on {}: {error}", kernel.name()));
            for fill in Fill::ALL {
                let bytes = next_bio_bytes(&layout, 0, layout.len(), IoPath::Direct, fill, &limits);
                let mut bio = Bio {
                    op: Op::Write,
                    flags: Flags::SYNC,
                    ioprio: IoPrio::DEFAULT,
                    write_hint: 0,
                    segments: 0,
                    sector: Sector::new(4096),
                    bytes: Bytes::new(bytes),
                    data: DataRange { layout: LayoutId(0), offset: 0 },
                    task: TaskId(0),
                    tenant: TenantId(0),
                    io: 0,
                    token: 0,
                    next: None,
                    queued: Instant::ZERO,
                    gated: false,
                    has_place: false,
                    in_scheduler: false,
                    since: Instant::ZERO,
                };
                let mut parts = 1;
                while let Split::Cut { sectors, segments } =
                    split(&bio, Some(&layout), &limits, &kernel.rules())
                {
                    assert!(
                        sectors <= limits.max_sectors && segments <= limits.max_segments,
                        "{name}"
                    );
                    bio.sector = bio.sector + sectors;
                    bio.bytes -= sectors.bytes();
                    bio.data.offset += sectors.bytes().get();
                    parts += 1;
                }
                let last = split(&bio, Some(&layout), &limits, &kernel.rules());
                assert!(matches!(last, Split::Whole { .. }), "{name}: {last:?}");
                // The proposal's fill needs no split, unless segments are exhausted before sectors.
                let by_segments = u64::from(limits.max_segments) * 8 < limits.max_sectors.get();
                assert!(
                    fill != Fill::MaxSectors || parts == 1 || by_segments,
                    "{name}: {parts} parts"
                );
            }
        }
    }
}
