//! Lines of drivers, and of the tracer blk.

use super::*;

/// Returns what a line with a UFS command says: event, operation, sector, bytes, tag, hardware
/// queue, device.
fn ufs_facts(line: &str) -> String {
    let Record { event, comm, named, .. } = record(line);
    assert_eq!((comm, event.tid), (Some(&b"kworker/1:1H"[..]), Some(175)), "{line}");
    assert_eq!(event.time, Some(22_218_735_851_000), "{line}");
    let Some(NamedDevice::Ufs(device)) = named else { panic!("{line}: {named:?}") };
    let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let [sector, bytes, tag] = [event.sector, event.bytes, event.tag.map(u64::from)].map(number);
    let (queue, op) = (number(event.queue.map(u64::from)), event.op.map_or("-", TraceOp::name));
    format!(
        "{} {op} {sector} {bytes} {tag} {queue} {}",
        event.kind.name(),
        String::from_utf8_lossy(device)
    )
}

/// Lines as kernels print them, from before the names of steps changed to those with a hardware
/// queue, and as perf prints them.
#[test]
fn commands_of_ufs() {
    for (step_and_device, members, facts) in [
        (
            "send_req: 1d84000.ufshc",
            "tag: 7, DB: 0x0, size: 4096, IS: 0, LBA: 6221511, opcode: 0x28 (READ_10), group_id: 0x0, hwq_id: 1",
            "issue read 49772088 4096 7 1 1d84000.ufshc",
        ),
        (
            "complete_rsp: 0:0:0:4",
            "tag: 11, DB: 0x7ffff7ff, size: 524288, IS: 0, LBA: 1081728, opcode: 0x8a (WRITE_16), group_id: 0x0",
            "complete write 8653824 524288 11 - 0:0:0:4",
        ),
        (
            "send: 1d84000.ufshc",
            "tag: 2, DB: 0x4, size: 8192, IS: 0, LBA: 16, opcode: 0x2a",
            "issue write 128 8192 2 - 1d84000.ufshc",
        ),
        (
            "send_req: ufs",
            "tag: 31, DB: 0x0, size: -1, IS: 0, LBA: 18446744073709551615, opcode: 0x35 (SYNC)",
            "issue flush - 0 31 - ufs",
        ),
        (
            "send_req: ufs",
            "tag: 3, DB: 0x0, size: -1, IS: 0, LBA: 0, opcode: 0x42 (UNMAP)",
            "issue discard - - 3 - ufs",
        ),
        (
            "complete: ufs",
            "tag: 3, DB: 0x0, size: 36, IS: 0, LBA: 0, opcode: 0x12",
            "complete passthrough - - 3 - ufs",
        ),
    ] {
        for prefix in [
            "  kworker/1:1H-175     [001] ..... 22218.735851: ",
            "kworker/1:1H 175 [001] 22218.735851: ufs:",
        ] {
            let line = format!("{prefix}ufshcd_command: {step_and_device}: {members}");
            assert_eq!(ufs_facts(&line), facts, "{line}");
        }
    }
}

/// A trace that does not name the device has one.
#[test]
fn commands_of_ufs_without_a_name() {
    let (events, reader) = read_file(&data("formats/ufs-nameless.txt"));
    assert_eq!(
        (reader.report().skipped_count(), counts(&events)),
        (0, vec![("issue", 4), ("complete", 4)])
    );
    assert!(
        events
            .iter()
            .all(|event| event.device == Some(DeviceNumber::new(0, 0)) && event.queue == Some(1))
    );
    assert_eq!(reader.names().device(DeviceNumber::new(0, 0)), Some("ufs"));
    let prefix = "  kworker/1:1H-175     [001] ..... 22218.735851: ufshcd_command:";
    let members =
        "doorbell=1 intr=0 lba=6221511 opcode=40 str=send_req tag=7 transfer_len=4096 group_id=0";
    for (device, name) in [("", ""), (" dev_name=1d84000.ufshc", "1d84000.ufshc")] {
        assert_eq!(
            ufs_facts(&format!("{prefix}{device} {members}")),
            format!("issue read 49772088 4096 7 - {name}")
        );
    }
    for step in ["send_req: ", "send_req: : ", "send_req "] {
        let text = "tag: 7, DB: 0x0, size: 4096, IS: 0, LBA: 6221511, opcode: 0x28 (READ_10)";
        assert_eq!(
            ufs_facts(&format!("{prefix} {step}{text}")),
            "issue read 49772088 4096 7 - ",
            "{step}"
        );
    }
    let newer = members.replace("str=send_req", "str_t=0").replace("opcode=40", "opcode=0x28");
    assert_eq!(ufs_facts(&format!("{prefix} {newer}")), "issue read 49772088 4096 7 - ");
    assert!(matches!(
        parse_line(format!("{prefix} tag=3 opcode=40").as_bytes()),
        Line::Malformed { .. }
    ));
}

/// Steps other than the ends of a command are no events, and damage says what was expected.
#[test]
fn other_lines_of_ufs() {
    let line = |tail: &str| format!("a-1 [001] ..... 1.500000: ufshcd_command: {tail}");
    let other = line("dev_complete: ufs: tag: 3, DB: 0x0, size: -1, IS: 0, LBA: 0, opcode: 0x0");
    assert_eq!(parse_line(other.as_bytes()), Line::Other);
    for (tail, expected) in [
        ("send_req", "the step of a UFS command and its tag"),
        ("send_req: ufs: tag: 3, size: 4096, LBA: 3", "the operation code of a UFS command"),
        ("send_req: ufs: tag: 3, opcode: READ", "the operation code of a UFS command"),
    ] {
        assert_eq!(parse_line(line(tail).as_bytes()), Line::Malformed { expected }, "{tail}");
    }
}

#[test]
fn commands_of_scsi() {
    let head = "host_no=0 channel=0 id=1 lun=3 data_sgl=20 prot_sgl=0 prot_op=SCSI_PROT_NORMAL";
    let good =
        "result=(driver=DRIVER_OK host=DID_OK message=COMMAND_COMPLETE status=SAM_STAT_GOOD)";
    for (tail, op, sector, bytes, tag, error) in [
        (
            format!("driver_tag=19 scheduler_tag=40 cmnd=(READ_10 lba=505083904 txlen=2560 protect=0 raw=28 00 1e) {good}"),
            TraceOp::Read, Some(505_083_904), Some(2560 * 512), 19, 0,
        ),
        // Numbers where perf and trace-cmd know no names, and one tag in older kernels.
        (
            "tag=14 cmnd=(WRITE_10 lba=4922384 txlen=16 protect=0 raw=2a 00) result=(driver=DRIVER_OK host=0x0 \
             message=COMMAND_COMPLETE status=0x0)".to_owned(),
            TraceOp::Write, Some(4_922_384), Some(8192), 14, 0,
        ),
        (
            "driver_tag=0 scheduler_tag=0 cmnd=(SYNCHRONIZE_CACHE - raw=35 00 00) result=(driver=DRIVER_OK host=DID_TIME_OUT \
             message=COMMAND_COMPLETE status=SAM_STAT_GOOD)".to_owned(),
            TraceOp::Flush, None, Some(0), 0, -5,
        ),
    ] {
        let line = format!("   <idle>-0       [004] d.h2.   119.323166: scsi_dispatch_cmd_done: {head} {tail}");
        let Record { event, named, .. } = record(&line);
        assert_eq!((event.kind, event.op, event.sector, event.bytes), (TraceKind::Complete, Some(op), sector, bytes));
        assert_eq!((event.tag, event.error, event.cpu), (Some(tag), Some(error), Some(4)), "{line}");
        assert_eq!(named, Some(NamedDevice::Scsi(ScsiAddress([0, 0, 1, 3]))), "{line}");
    }
    for (tail, expected) in [
        ("host_no=0", "the command of a SCSI command, cmnd=(...)"),
        (
            "host_no=0 cmnd=(READ_10 raw=28)",
            "the address of a SCSI command, host_no= channel= id= lun=",
        ),
        ("host_no=0 channel=0 id=0 lun=0 cmnd=(READ_10 raw=2)", "the bytes of a SCSI command"),
    ] {
        let text = format!("a-1 [001] ..... 1.500000: scsi_dispatch_cmd_start: {tail}");
        assert_eq!(parse_line(text.as_bytes()), Line::Malformed { expected }, "{tail}");
    }
}

/// The disk is inspected as the block layer sees it; without the block layer's events, as the
/// driver does.
#[test]
fn commands_of_a_driver_are_of_a_device_of_their_own() {
    let command = |kind: &str, at: u32| {
        format!(
            "a-1 [000] ..... 1.00000{at}: ufshcd_command: {kind}: 0:0:0:4: tag: 1, DB: 0x1, size: 4096, IS: 0, LBA: 5, \
             opcode: 0x28 (READ_10), group_id: 0x0, hwq_id: 2\n"
        )
    };
    let own = command("send_req", 2) + &command("complete_rsp", 5);
    let block = "a-1 [000] ..... 1.000001: block_rq_issue: 8,0 R 4096 () 40 + 8 [a]\n".to_owned()
        + &own
        + "a-1 [000] ..... 1.000008: block_rq_complete: 8,0 R () 40 + 8 [0]\n";
    for (text, device, ns) in
        [(own, DeviceNumber::new(0, 0), 3_000), (block, DeviceNumber::new(8, 0), 7_000)]
    {
        let mut open = || crate::from_bytes(text.clone().into());
        let found = crate::analysis::inspect(&mut open, None, None, &mut |_| {}).expect("a trace");
        assert_eq!((found.device, found.stages[0].issued_to_completed.max), (device, ns));
        let (events, reader) = read_bytes(text.clone());
        assert_eq!(reader.names().device(DeviceNumber::new(0, 0)), Some("0:0:0:4"));
        assert_eq!(reader.report().notes, [hardware::UFS_NOTE]);
        assert!(events.iter().any(|event| (event.tag, event.queue) == (Some(1), Some(2))));
    }
}

/// The kernel's tracer `blk` (`current_tracer=blk`) prints events as blkparse does, after ftrace's
/// prefix; its messages are no events.
#[test]
fn lines_of_the_tracer_blk() {
    let text = "# tracer: blk\n\
        dd-7 [001] ..... 1.000001:   8,0    A  WS 6144 + 8 <- (8,1) 4096\n\
        dd-7 [001] ..... 1.000002:   8,0    Q  WS 6144 + 8 [dd]\n\
        dd-7 [001] ..... 1.000003:   8,0    G  WS 6144 + 8 [dd]\n\
        dd-7 [001] ..... 1.000004:   8,0    P   N [dd]\n\
        dd-7 [001] ..... 1.000005:   8,0    I  WS 6144 + 8 [dd]\n\
        dd-7 [001] ..... 1.000006:   8,0    U   N [dd] 1\n\
        dd-7 [001] ..... 1.000007:   8,0    D  WS 6144 + 8 [dd]\n\
        dd-7 [001] ..... 1.000008:   8,0    m   N mq-deadline note\n\
        <idle>-0 [001] ..s1. 1.000050:   8,0    C  WS 6144 + 8 [0]\n";
    let (events, reader) = read_bytes(text);
    assert_eq!(reader.format(), crate::TraceFormat::Ftrace);
    assert_eq!((events.len(), reader.report().skipped_count(), reader.report().other), (8, 0, 2));
    let letters: String = events.iter().filter_map(|event| event.kind.letter()).collect();
    assert_eq!(letters, "AQGPIUDC");
    let issue = events[6];
    assert_eq!((issue.time, issue.tid, issue.cpu), (Some(1_000_007_000), Some(7), Some(1)));
    assert_eq!(
        (issue.sector, issue.bytes, issue.op),
        (Some(6144), Some(4096), Some(TraceOp::Write))
    );
    assert_eq!((events[7].error, events[0].device), (Some(0), Some(DeviceNumber::new(8, 0))));
}

/// The tracer `blk` prints the completion of a bio as that of a request.
#[test]
fn bios_of_the_tracer_blk() {
    let text = "# tracer: blk\n\
        dd-7 [001] ..... 1.000001: 253,0    Q  WS 8 + 8 [dd]\n\
        <idle>-0 [001] ..s1. 1.000050: 253,0    C  WS 8 + 8 [0]\n";
    let (events, _) = read_bytes(text);
    assert_eq!(counts(&events), [("queue", 1), ("bio_complete", 1)]);
}
