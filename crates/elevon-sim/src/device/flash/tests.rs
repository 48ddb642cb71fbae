//! Tests writes, flushes, interference and queues of the flash model.

use elevon_core::driver::{Accept, Command};
use elevon_core::op::{Flags, Op};
use elevon_core::units::{HwQueue, Instant, RequestId};

use super::*;
use crate::device::closed_loop::{command, read_command};

fn description(config: &FlashConfig) -> Description {
    Description {
        name: "test".into(),
        size: Bytes::new(config.size).sectors_floor(),
        limits: Default::default(),
        hw_queues: config.hw_queues as u16,
        queue_depth: config.queue_depth as u32,
    }
}

/// A device with round numbers: 4 dies, 100 us reads, 1 MB/ms links, 1 MiB buffer that drains at
/// 100 MB/s.
fn config() -> FlashConfig {
    FlashConfig {
        size: 1 << 30,
        queue_depth: 64,
        dies: 4,
        read_time: 100_000,
        distribution: 0,
        stall_share: 0,
        fixed_latency: 10_000,
        write_latency: 20_000,
        read_command_cost: 0,
        write_command_cost: 0,
        read_link: 1_000_000_000,
        write_link: 1_000_000_000,
        unit: 4096,
        buffer: 1 << 20,
        write_rate: 100_000_000,
        program_time: 500_000,
        program_unit: 65536,
        erase_time: 0,
        flush_time: 1_000_000,
        ..FlashConfig::default()
    }
}

fn device(config: FlashConfig) -> Flash {
    let description = description(&config);
    Flash::new(config, description, 1)
}

fn at(us: u64) -> Instant {
    Instant::new(us * 1000)
}

/// Runs until idle. Returns when each request completed, by request, in nanoseconds.
fn finish(device: &mut Flash) -> Vec<(u32, u64)> {
    let mut all = Vec::new();
    while let Some(now) = device.next_event() {
        while let Some(completion) = device.poll(now) {
            all.push((completion.request.0, now.get()));
        }
    }
    all
}

fn submit(device: &mut Flash, now: Instant, command: &Command) {
    assert_eq!(device.submit(now, command), Accept::Ok);
}

#[test]
fn a_read_takes_die_link_and_fixed_latency() {
    let mut flash = device(config());
    submit(&mut flash, at(0), &read_command(0, 0, 4096));
    assert_eq!(finish(&mut flash), [(0, 100_000 + 4096 + 10_000)]);
}

/// A slow die does not delay a read that overtakes it, and two reads of one die wait for each
/// other.
#[test]
fn the_link_is_taken_in_the_order_of_readiness() {
    let mut flash = device(config());
    submit(&mut flash, at(0), &read_command(0, 0, 4096));
    submit(&mut flash, at(0), &read_command(1, 32, 4096)); // the same die: ready at 200 us
    submit(&mut flash, at(1), &read_command(2, 8, 4096)); // another: ready at 101 us
    let order: Vec<_> = finish(&mut flash).into_iter().map(|(request, _)| request).collect();
    assert_eq!(order, [0, 2, 1]);
}

/// A read of more units than there are dies streams: the second round of accesses overlaps with the
/// first one's transfer.
#[test]
fn a_large_read_streams() {
    let slow_link = FlashConfig { read_link: 40_000_000, ..config() };
    let mut flash = device(slow_link);
    submit(&mut flash, at(0), &read_command(0, 0, 8 * 4096));
    assert_eq!(finish(&mut flash), [(0, 100_000 + 8 * 102_400 + 10_000)]);
    // A link that is faster than the dies waits for the second round, minus what it has already
    // transferred.
    let mut flash = device(config());
    submit(&mut flash, at(0), &read_command(0, 0, 8 * 4096));
    assert_eq!(finish(&mut flash), [(0, 200_000 - 4 * 4096 + 8 * 4096 + 10_000)]);
}

#[test]
fn the_page_register_saves_the_die_access() {
    for (page_register, second) in [(0, 200_000 + 1024 + 10_000), (1, 100_000 + 2048 + 10_000)] {
        let mut flash = device(FlashConfig { page_register, ..config() });
        submit(&mut flash, at(0), &read_command(0, 0, 1024));
        submit(&mut flash, at(0), &read_command(1, 2, 1024));
        assert_eq!(finish(&mut flash)[1], (1, second));
    }
}

#[test]
fn a_write_completes_in_the_buffer_until_that_is_full() {
    let mut flash = device(config());
    for i in 0..32 {
        submit(&mut flash, at(0), &command(i, Op::Write, u64::from(i) * 128, 65536));
    }
    let ends = finish(&mut flash);
    assert_eq!(ends[0], (0, 65536 + 20_000));
    // The drain takes 100 MB/s and the link gives 1000: about 18 writes fit before the buffer is
    // full, and the last waits for the drain.
    let last = ends[31].1 as f64;
    let drained = (32.0 * 65536.0 - (1 << 20) as f64) * 10.0;
    assert!((last / (65536.0 + drained + 20_000.0) - 1.0).abs() < 0.06, "{last} against {drained}");
    let order: Vec<_> = ends.iter().map(|&(request, _)| request).collect();
    assert_eq!(order, (0..32).collect::<Vec<_>>());
}

#[test]
fn a_flush_costs_its_base_and_the_drain() {
    let mut flash = device(config());
    submit(&mut flash, at(0), &command(0, Op::Flush, 0, 0));
    assert_eq!(finish(&mut flash), [(0, 1_000_000)], "a clean cache");
    let mut flash = device(config());
    submit(&mut flash, at(0), &command(0, Op::Write, 0, 524_288));
    while flash.poll(at(600)).is_none() {
        assert!(flash.next_event().is_some());
    }
    submit(&mut flash, at(600), &command(1, Op::Flush, 0, 0));
    // Accepted at 524 us; 524,288 bytes drain in 5.243 ms.
    let (_, end) = finish(&mut flash)[0];
    assert_eq!(end, 524_288 + 5_242_880 + 1_000_000);
    // Everything was drained long before.
    submit(&mut flash, at(50_000), &command(2, Op::Flush, 0, 0));
    assert_eq!(finish(&mut flash), [(2, 51_000_000)]);
}

#[test]
fn fua_waits_for_the_dies_unless_power_loss_is_survived() {
    for (power_loss_protection, end) in [(0, 4096 + 40_960 + 500_000 + 20_000), (1, 4096 + 20_000)]
    {
        let mut flash = device(FlashConfig { power_loss_protection, ..config() });
        submit(&mut flash, at(0), &Command { flags: Flags::FUA, ..command(0, Op::Write, 0, 4096) });
        assert_eq!(finish(&mut flash), [(0, end)]);
    }
    let mut flash = device(FlashConfig { power_loss_protection: 1, ..config() });
    submit(&mut flash, at(0), &command(0, Op::Write, 0, 1 << 19));
    assert_eq!(finish(&mut flash).len(), 1);
    submit(&mut flash, at(600), &command(1, Op::Flush, 0, 0));
    assert_eq!(finish(&mut flash), [(1, 620_000)]);
}

#[test]
fn a_read_waits_behind_a_program() {
    let mut flash = device(config());
    submit(&mut flash, at(0), &command(0, Op::Write, 0, 65536));
    finish(&mut flash);
    // The program begins when the drain has transferred its 64 KiB (65.5 + 655.4 us) and occupies
    // die 0 for 500 us.
    submit(&mut flash, at(800), &read_command(1, 0, 4096));
    assert_eq!(finish(&mut flash), [(1, 65_536 + 655_360 + 500_000 + 100_000 + 4096 + 10_000)]);
}

/// Writes have one rate while SLC lasts, another after it, and the first again after a pause.
#[test]
fn the_slc_cache_runs_out_and_refills() {
    let mut flash = device(FlashConfig {
        slc_size: 8 << 20,
        slc_rate: 400_000_000,
        buffer: 65536,
        program_time: 100_000,
        ..config()
    });
    let mut time = |start: u64, count: u32| {
        let mut now = start;
        for i in 0..count {
            submit(
                &mut flash,
                Instant::new(now),
                &command(i, Op::Write, u64::from(i) * 128, 65536),
            );
            now = finish(&mut flash)[0].1;
        }
        (now - start) as f64 / f64::from(count)
    };
    let fresh = time(0, 64);
    let worn = time(1_000_000_000_000, 512);
    let rested = time(3_000_000_000_000, 64);
    // 65,536 bytes take 164 us in SLC and 655 us otherwise; 66 us on the link and 20 us fixed may
    // be hidden or not.
    assert!((160e3..260e3).contains(&fresh), "{fresh}");
    assert!((500e3..760e3).contains(&worn), "{worn}");
    assert!((rested / fresh - 1.0).abs() < 0.05, "{rested} after a rest, {fresh} before");
}

/// Random overwriting in steady state has the cost of write amplification; sequential writing does
/// not.
#[test]
fn garbage_collection_taxes_scattered_writes() {
    let steady = FlashConfig {
        overprovision: 70_000,
        erase_time: 3_000_000,
        buffer: 262_144,
        program_unit: 16384,
        write_rate: 125_000_000,
        ..config()
    };
    assert!((steady.write_amplification() - 7.64).abs() < 0.01);
    let rate = |scattered: bool| {
        let mut flash = device(steady.clone());
        let mut now = Instant::ZERO;
        for i in 0..8000u64 {
            let block = if scattered { mix64(i) % 200_000 } else { i };
            submit(&mut flash, now, &command(i as u32, Op::Write, block * 8, 4096));
            now = Instant::new(finish(&mut flash)[0].1);
        }
        8000.0 * 4096.0 * 1e3 / now.get() as f64
    };
    // 4 dies of 16 KiB in 500 us give 131 MB/s; a write needs at least 24 us before them.
    let (sequential, scattered) = (rate(false), rate(true));
    assert!((105.0..=131.0).contains(&sequential), "{sequential}");
    assert!((13.0..=20.0).contains(&scattered), "{scattered}: about 1/7.6 of 131");
}

#[test]
fn discards_are_cheap_whatever_their_size() {
    let mut flash = device(config());
    submit(&mut flash, at(0), &command(0, Op::Discard, 0, 1 << 29));
    assert_eq!(finish(&mut flash), [(0, 20_000 + 20_000)]);
}

/// If the command stage is busy, a queue with many commands does not starve a queue with one.
#[test]
fn hardware_queues_are_taken_in_turn() {
    let mut flash =
        device(FlashConfig { hw_queues: 2, read_command_cost: 50_000, dies: 64, ..config() });
    for i in 0..10 {
        submit(&mut flash, at(0), &read_command(i, u64::from(i) * 8, 4096));
    }
    submit(&mut flash, at(1), &Command { queue: HwQueue(1), ..read_command(10, 400, 4096) });
    let order: Vec<_> = finish(&mut flash).into_iter().map(|(request, _)| request).collect();
    assert_eq!(order, [0, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_full_queue_refuses_and_an_abort_makes_room() {
    let mut flash = device(FlashConfig { queue_depth: 2, ..config() });
    let commands: Vec<_> = (0..3).map(|i| read_command(i, u64::from(i) * 8, 4096)).collect();
    submit(&mut flash, at(0), &commands[0]);
    submit(&mut flash, at(0), &commands[1]);
    assert_eq!(flash.submit(at(0), &commands[2]), Accept::DeviceBusy);
    assert!(flash.abort(at(1), &commands[0]));
    assert!(!flash.abort(at(1), &commands[0]));
    submit(&mut flash, at(2), &commands[2]);
    let requests: Vec<_> =
        finish(&mut flash).into_iter().map(|(request, _)| RequestId(request)).collect();
    assert_eq!(requests, [RequestId(1), RequestId(2)]);
    assert!(!flash.abort(at(900), &commands[1]), "completed long ago");
}

/// Without command queueing: the driver takes a second command, which begins when the first has
/// completed, though the dies are free before.
#[test]
fn a_device_of_one_command_at_a_time_does_the_next_when_one_completes() {
    let mut flash = device(FlashConfig { at_once: 1, ..config() });
    let read = |i: u32| read_command(i, u64::from(i) * 8, 4096);
    submit(&mut flash, at(0), &read(0));
    submit(&mut flash, at(0), &read(1));
    assert_eq!(flash.submit(at(0), &read(2)), Accept::DeviceBusy);
    let alone = 100_000 + 4096 + 10_000;
    let mut done = Vec::new();
    for i in 2..5 {
        let now = flash.next_event().expect("a read is in the device");
        let completion = flash.poll(now).expect("it is due");
        done.push((completion.request.0, now.get()));
        submit(&mut flash, now, &read(i));
        assert_eq!(flash.submit(now, &read(9)), Accept::DeviceBusy);
    }
    done.extend(finish(&mut flash));
    assert_eq!(done, [0, 1, 2, 3, 4].map(|i| (i, u64::from(i + 1) * alone)));
}

/// Rare events occur with the right frequency: stalls and missing mapping entries, by their effect
/// on the mean.
#[test]
fn stalls_and_map_misses_cost_their_share() {
    let mean = |config: FlashConfig| {
        let mut flash = device(config);
        let mut now = Instant::ZERO;
        for i in 0..20_000u32 {
            submit(&mut flash, now, &read_command(i, u64::from(i % 1000) * 8, 4096));
            now = Instant::new(finish(&mut flash)[0].1);
        }
        now.get() as f64 / 20_000.0
    };
    let base = mean(config());
    let miss = mean(FlashConfig { map_miss: 300_000, ..config() }) - base;
    assert!((miss / 30_000.0 - 1.0).abs() < 0.03, "{miss}");
    let stall = mean(FlashConfig { stall_share: 10_000, stall_time: 1_000_000, ..config() }) - base;
    assert!((stall / 10_000.0 - 1.0).abs() < 0.15, "{stall}");
}
