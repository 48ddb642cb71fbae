use elevon_sim::device::fault::content::PowerCut;

use super::*;

fn disk(device: &str, faults: &[&str]) -> Disk {
    let faults = faults.iter().map(|&fault| fault.to_owned()).collect();
    let spec = DiskSpec { device: device.into(), faults, seed: 1, size: 64 << 20 };
    Disk::new(&spec, Image::default()).expect("a disk")
}

fn io(token: u64, op: Op, sector: u64, bytes: u64, fill: u8) -> DiskIo {
    let data = if op == Op::Write { vec![fill; bytes as usize] } else { Vec::new() };
    DiskIo { token, op, sector: Sector::new(sector), bytes, ioprio: IoPrio::NONE, data }
}

/// Submits an I/O and waits for its end.
fn carry_out(disk: &mut Disk, io: DiskIo) -> DiskEnd {
    disk.submit(io);
    loop {
        if let Some(end) = disk.poll() {
            return end;
        }
        assert!(disk.wait(Instant::MAX) < Instant::MAX, "the device answers");
    }
}

#[test]
fn bytes_are_read_again_and_time_is_the_models() {
    let mut disk = disk("slots:slots=1,latency=2ms", &[]);
    assert!(carry_out(&mut disk, io(0, Op::Write, 8, 8192, 7)).status.is_ok());
    let end = carry_out(&mut disk, io(1, Op::Read, 16, 8192, 0));
    assert_eq!(end.data, [vec![7; 4096], vec![0; 4096]].concat());
    // 8 KiB at 500 MB/s beside the latency, twice.
    assert_eq!(disk.now(), Instant::new(2 * (2_000_000 + 16_384)));
    assert!(carry_out(&mut disk, io(0, Op::WriteZeroes, 8, 4096, 0)).status.is_ok());
    assert_eq!(carry_out(&mut disk, io(0, Op::Read, 8, 4096, 0)).data, vec![0; 4096]);
}

#[test]
fn more_ios_than_tags_wait_in_order() {
    let mut disk = disk("slots:slots=1,latency=1ms,queue_depth=2", &[]);
    for token in 0..20 {
        disk.submit(io(token, Op::Write, token * 8, 4096, token as u8));
    }
    let mut ended = Vec::new();
    while ended.len() < 20 {
        match disk.poll() {
            Some(end) => ended.push(end.token),
            None => assert!(disk.wait(Instant::MAX) < Instant::MAX, "the device answers"),
        }
    }
    assert_eq!(ended, (0..20).collect::<Vec<u64>>());
}

#[test]
fn a_failed_read_brings_nothing_and_its_fault_is_counted() {
    let mut disk = disk("null", &["error:sectors=0-7,status=medium"]);
    let end = carry_out(&mut disk, io(0, Op::Read, 0, 4096, 0));
    assert_eq!((end.status, end.data), (Status::Medium, Vec::new()));
    assert_eq!(disk.faults().get("error"), Some(&1));
}

#[test]
fn a_power_cut_keeps_what_was_flushed() {
    let mut disk = disk("nvme-consumer", &[]);
    assert!(disk.description().limits.write_cache, "a volatile cache");
    carry_out(&mut disk, io(0, Op::Write, 0, 4096, 1));
    carry_out(&mut disk, io(0, Op::Flush, 0, 0, 0));
    disk.note_output(10);
    carry_out(&mut disk, io(0, Op::Write, 0, 4096, 2));
    carry_out(&mut disk, io(0, Op::Write, 8, 4096, 3));
    let history = disk.history();
    let steps = history.events().len();
    let bytes = |image: &Image| {
        let mut into = [0; 4097];
        image.read(0, &mut into);
        [into[0], into[4096]]
    };
    let (image, output) = history.cut(steps, PowerCut::DropAll, 0);
    assert_eq!((bytes(&image), output), ([1, 0], 10));
    assert_eq!(bytes(&history.cut(steps, PowerCut::KeepAll, 0).0), [2, 3]);
    let lost = history.lost(steps, PowerCut::DropAll, 0);
    assert_eq!(lost.len(), 2);
    let first = lost.iter().copied().take(1).collect();
    assert_eq!(bytes(&history.cut_without(steps, &first).0), [1, 3]);
    assert_eq!(bytes(&history.cut(2, PowerCut::KeepAll, 0).0), [1, 0]);
    assert_eq!(history.points(0, steps), [0, 1, 2, 4, 5, 6, 7, 8]);
}
