//! Tests plugs and merges in them: order, limits, and requests that must not merge.

use super::*;

#[test]
fn proposal_001_trace_of_a_lifo_plug() {
    for kernel in [Kernel::V6_1, Kernel::V6_6] {
        let mut rig = Rig::new(iomap(kernel));
        let runs = [2144, 2144, 2112, 2096].into_iter().flat_map(full_bio).collect();
        rig.submit_runs(86925864, runs);
        assert_eq!(
            rig.issued(),
            [
                "86925864+1024",
                "86926888+1024",
                "86928008+1024",
                "86927912+96",
                "86929032+1024",
                "86930152+1024",
                "86930056+96",
                "86931176+1024",
                "86932264+1024",
                "86932200+64",
                "86933288+1024",
                "86934312+48",
            ]
        );
        assert_eq!(rig.stack.counters().tails, 4);
    }
}

#[test]
fn the_same_bios_under_a_fifo_plug() {
    for kernel in [Kernel::V6_12, Kernel::V6_18] {
        let mut rig = Rig::new(iomap(kernel));
        rig.submit_runs(
            86925864,
            [2144, 2144, 2112, 2096].into_iter().flat_map(full_bio).collect(),
        );
        assert_eq!(
            rig.issued(),
            [
                "86925864+1024",
                "86926888+1024",
                "86927912+96",
                "86928008+1024",
                "86929032+1024",
                "86930056+96",
                "86930152+1024",
                "86931176+1024",
                "86932200+64",
                "86932264+1024",
                "86933288+1024",
                "86934312+48",
            ]
        );
        let unplugs: Vec<String> =
            rig.events().into_iter().filter(|e| e.starts_with('U')).collect();
        assert_eq!(unplugs, ["U 1", "U 1", "U 10"]);
    }
}

#[test]
fn three_bios_of_1028_kib_in_both_eras() {
    let runs = || [2056, 2056, 2056].into_iter().flat_map(full_bio).collect();
    let mut rig = Rig::new(iomap(Kernel::V6_1));
    rig.submit_runs(0, runs());
    assert_eq!(
        rig.issued(),
        [
            "0+1024",
            "1024+1024",
            "2056+1024",
            "2048+8",
            "3080+1024",
            "4112+1024",
            "4104+8",
            "5136+1024",
            "6160+8"
        ]
    );
    let mut rig = Rig::new(iomap(Kernel::V6_18));
    rig.submit_runs(0, runs());
    assert_eq!(
        rig.issued(),
        [
            "0+1024",
            "1024+1024",
            "2048+8",
            "2056+1024",
            "3080+1024",
            "4104+8",
            "4112+1024",
            "5136+1024",
            "6160+8"
        ]
    );
}

#[test]
fn aligned_bios_issue_alike_under_either_rule() {
    for kernel in Kernel::ALL {
        let mut rig = Rig::new(iomap(kernel));
        rig.submit_runs(0, [2048, 2048].into_iter().flat_map(full_bio).collect());
        assert_eq!(
            rig.issued(),
            ["0+1024", "1024+1024", "2048+1024", "3072+1024"],
            "{}",
            kernel.name()
        );
        assert_eq!(rig.stack.counters().tails, 0);
    }
}

#[test]
fn proposal_001_fill_leaves_no_split() {
    let mut rig =
        Rig::new(StackConfig { fill: crate::build::Fill::MaxSectors, ..iomap(Kernel::V6_18) });
    rig.submit_runs(0, [2144, 2144].into_iter().flat_map(full_bio).collect());
    assert_eq!(rig.issued(), ["0+1024", "1024+1024", "2048+1024", "3072+1024", "4096+192"]);
    assert_eq!(rig.stack.counters().splits, 0);
}

#[test]
fn forty_scattered_reads_flush_as_32_and_8() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.batch(&(0..40).map(|i| (i * 1000, 8)).collect::<Vec<_>>());
    let unplugs: Vec<String> = rig.events().into_iter().filter(|e| e.starts_with('U')).collect();
    assert_eq!(unplugs, ["U 32", "U 8"]);
}

#[test]
fn neighbours_under_one_plug_merge_forwards_and_backwards() {
    for order in [[0, 8, 16, 24], [24, 16, 8, 0]] {
        let mut rig = Rig::new(config(Kernel::V6_18));
        rig.batch(&order.map(|s| (s, 8)));
        assert_eq!(rig.issued(), ["0+32"]);
        rig.complete_all();
        let read = rig.stack.disk_stats(rig.now).groups[0];
        assert_eq!((read.ios, read.merges, read.sectors), (1, 3, 32));
        assert_eq!(rig.done().len(), 4);
    }
}

#[test]
fn a_plug_tries_only_its_newest_request() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.batch(&[(0, 8), (2000, 8), (8, 8), (2008, 8)]);
    assert_eq!(rig.issued(), ["0+8", "2000+8", "8+8", "2008+8"]);
}

#[test]
fn nomerges_2_stops_plug_merging() {
    let mut rig = Rig::new(StackConfig { nomerges: 2, ..config(Kernel::V6_18) });
    rig.batch(&[(0, 8), (8, 8)]);
    assert_eq!(rig.issued(), ["0+8", "8+8"]);
}

#[test]
fn a_request_found_too_small_takes_no_more() {
    let mut config = with_scheduler(Kernel::V6_18);
    config.limits.max_hw_sectors = Sectors::new(16);
    (config.queue_depth, config.nr_requests) = (1, Some(8));
    let mut rig = Rig::new(config);
    rig.submit(Op::Read, Flags::NONE, 5000, 8);
    // The driver's only tag is in use: later requests stay in the scheduler.
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    rig.submit(Op::Read, Flags::NONE, 8, 16);
    rig.submit(Op::Read, Flags::NONE, 8, 8);
    rig.complete_all();
    assert_eq!(rig.stack.counters().back_merges, 0);
    assert_eq!(rig.stack.counters().issued, 4);
}

#[test]
fn a_chunk_boundary_is_not_merged_across() {
    let mut config = config(Kernel::V6_18);
    config.limits.chunk_sectors = Sectors::new(32);
    let mut rig = Rig::new(config);
    rig.batch(&[(24, 8), (32, 8)]);
    assert_eq!(rig.issued(), ["24+8", "32+8"]);
}

#[test]
fn priority_tenant_and_hint_keep_bios_apart() {
    for change in 0..4 {
        let mut rig = Rig::new(config(Kernel::V6_18));
        rig.stack.begin_batch(rig.now, TaskId(0));
        rig.submit(Op::Write, Flags::NONE, 0, 8);
        let mut io = rig.io(Op::Write, Flags::NONE, 8, 8);
        match change {
            0 => {}
            1 => io.ioprio = IoPrio::new(crate::ioprio::PrioClass::Rt, 0),
            2 => io.tenant = TenantId(7),
            _ => io.write_hint = 3,
        }
        rig.stack.submit(rig.now, io, &mut rig.driver);
        rig.stack.end_batch(rig.now, TaskId(0), &mut rig.driver);
        assert_eq!(rig.driver.issued.len(), if change == 0 { 1 } else { 2 }, "change {change}");
    }
}
