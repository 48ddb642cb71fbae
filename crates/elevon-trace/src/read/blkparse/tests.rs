use super::*;
use crate::testing::{counts, data, read_bytes, read_file};

/// Output of `blkparse` for one event of every kind, with its summary.
const TEXT: &str = "\
  8,0    0        1     0.000000000    77  Q FWS [fio]
  8,0    0        2     0.000001000    77  G FWS [fio]
  8,0    0        3     0.000002000    77  D  FN [fio]
  8,0    0        4     0.000003000    77  C  FN 0 [65531]
  8,0    0        5     0.000004000    77  Q FWFS 8 + 8 [fio]
  8,0    0        6     0.000005000    77  Q  DS 8 + 16 [fio]
  8,0    0        7     0.000006000    77  D   R 36 (12 00 00 01) [fio]
  8,0    0        8     0.000007000    77  C   R (12 00 00 01) [0]
  8,0    0        9     0.000008000    77  A   R 2056 + 8 <- (8,1) 8
  8,0    0       10     0.000009000    77  R   R 8 + 8 [0]
  8,0    0       11     0.000010000    77  P   N [fio]
  8,0    0       12     0.000011000    77 UT   N [fio] 3
  8,0    0       13     0.000012000    77  S   R 8 + 8 [fio]
  8,0    0       14     0.000013000    77  F   R 8 + 8 [fio]
  8,0    0       15     0.000014000    77  X   R 16 / 20 [fio]
253,0    1      102     0.019773160   123  D   R 4112 + 255 (15027837494435883261) [dd [1]]
  8,0    0        0     0.000098000     0  m   N bfq123A insert
  8,0    0       16     0.020000000    77  Q   R 8 + many [fio]
CPU0 (odd):
 Reads Queued:           0,        0KiB\t Writes Queued:           3,       12KiB
Throughput (R/W): 0KiB/s / 0KiB/s
Events (odd): 16 entries
Skips: 2 forward (17 -   0.1%)
";

#[test]
fn every_kind_of_line() {
    let (events, reader) = read_bytes(TEXT);
    let shown: Vec<String> = events
        .iter()
        .map(|event| {
            let rwbs = crate::op::TraceRwbs(event.op, event.flags).to_string();
            let show = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
            let letter = event.kind.letter().unwrap();
            format!(
                "{letter} {rwbs} {} {} {:?}",
                show(event.sector),
                show(event.bytes),
                event.error.unwrap_or(0)
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "Q FWS - 0 0",
            "G FWS - 0 0",
            "D FF - 0 0",
            "C FF - 0 -5",
            "Q FWFS 8 4096 0",
            "Q DS 8 8192 0",
            "D N - 36 0",
            "C N - - 0",
            "A R 2056 4096 0",
            "R R 8 4096 0",
            "P N - - 0",
            "U N - - 0",
            "S R 8 4096 0",
            "F R 8 4096 0",
            "X R 16 2048 0",
            "D R 4112 130560 0",
        ]
    );
    assert_eq!(events[8].kind, TraceKind::Remap { from: DeviceNumber::new(8, 1), from_sector: 8 });
    assert_eq!(events[11].kind, TraceKind::Unplug { requests: 3, timer: Some(true) });
    assert_eq!(reader.names().name(events[15].comm.unwrap()), "dd [1]");
    let report = reader.report();
    assert_eq!(report.format, crate::TraceFormat::Blkparse);
    assert_eq!((report.skipped_count(), report.problems[0].0.at), (1, Position::Line(18)));
    assert_eq!((report.gap_count, report.lost, report.notes.len()), (1, 17, 1));
}

/// A device of the device mapper has no requests, so its completions are of bios; those of its disk
/// are of requests.
#[test]
fn completions_of_a_device_without_requests_are_of_bios() {
    let (events, _) = read_bytes(
        "253,0    0        1     0.000000000   168  Q  WS 8 + 8 [fio]\n  \
         8,0    0        1     0.000001000   168  A  WS 2056 + 8 <- (253,0) 8\n  \
         8,0    0        2     0.000002000   168  Q  WS 2056 + 8 [fio]\n  \
         8,0    0        3     0.000003000   168  G  WS 2056 + 8 [fio]\n  \
         8,0    0        4     0.000004000   168  D  WS 2056 + 8 [fio]\n  \
         8,0    0        5     0.000050000     0  C  WS 2056 + 8 [0]\n\
         253,0    0        2     0.000051000     0  C  WS 8 + 8 [0]\n\
         253,1    0        1     0.000060000     0  C  WS 8 + 8 [0]\n",
    );
    let completions = events.iter().filter(|event| event.kind.letter() == Some('C'));
    let kinds: Vec<&str> = completions.map(|event| event.kind.name()).collect();
    assert_eq!(kinds, ["complete", "bio_complete", "complete"], "of 253:1 no bio was queued");
}

/// The kernel's tracer `blk` with the option `blk_classic`: no sequence number.
#[test]
fn lines_of_blk_classic() {
    let (events, reader) = read_bytes(
        "# tracer: blk\n#\n# DEV   CPU TIMESTAMP     PID ACT FLG\n#  |     |     |           |   |   |\n\
         254,16   0    57.421600615   235  Q   R 12352 + 8 [fio]\n\
         254,16   0    57.422103679   235  m   N bfq235S add to busy\n\
         254,16   0    57.422414100   235  G   R 12352 + 8 [fio]\n\
         254,16   0    57.500000000     0  C   R 12352 + 8 [0]\n",
    );
    assert_eq!(
        (reader.format(), reader.report().skipped_count()),
        (crate::TraceFormat::Blkparse, 0)
    );
    assert_eq!(counts(&events), [("queue", 1), ("getrq", 1), ("complete", 1)]);
    assert_eq!(
        (events[0].time, events[0].tid, events[0].cpu),
        (Some(57_421_600_615), Some(235), Some(0))
    );
}

/// What `-t` adds to a flush, which has no place, is no command.
#[test]
fn a_flush_may_have_the_times_of_an_option() {
    let (events, reader) = read_bytes(
        "  8,0    0     1333     0.897734820    42  D  FN (21077220) [kworker/0:1H]\n  \
         8,0    0     1334     0.897748480    42  R  FN 0 [0]\n  \
         8,0    1     3247     0.906853500    61  D  FN ( 1440130) [kworker/1:1H]\n  \
         8,0    1     3312     0.973840710    21  C  FN 0 (66987210) [0]\n",
    );
    assert_eq!(reader.report().skipped, []);
    let found: Vec<_> = events.iter().map(|event| (event.op, event.sector, event.bytes)).collect();
    assert_eq!(found, [(Some(TraceOp::Flush), None, Some(0)); 4]);
}

/// What blkparse 1.2 prints with `-f`, for example `-f '%D %2c %8s %5T.%9t %5p %2a %3d %S + %n
/// [%C]\n'`: completions have no error number.
#[test]
fn formats_of_an_option_are_not_taken_for_the_default() {
    let line = "  8,0    0       18     0.054652930   130  C  WS 86392 + 8 [fio]\n";
    let (events, reader) =
        read_bytes(["  8,0    0  1  0.0  130  Q  WS 86392 + 8 [fio]\n", line].concat());
    assert_eq!((events.len(), reader.report().skipped[0].reason), (1, ERROR));
    assert_eq!(reader.report().check(), Ok(()), "one line may be damaged");
    let (_, reader) =
        read_bytes(["  8,0    0  1  0.0  130  Q  WS 86392 + 8 [fio]\n", &line.repeat(8)].concat());
    assert_eq!(reader.report().check(), Err(UnusableError::NoCompletionReadable));
    for line in
        ["0.054647070   8,0   D WS 8 16 fio", "8,0 Q DS 409600", "0.05,130,fio,I,WS,86392,4096"]
    {
        assert!(may_be_custom(line.as_bytes()), "{line}");
    }
    for line in ["Q 0 8 WS", "a D", "", "Timestamp,Response,IOType"] {
        assert!(!may_be_custom(line.as_bytes()), "{line}");
    }
}

/// The text that blkparse prints for a binary trace has the same events, with and without `-t`.
#[test]
fn the_text_of_a_real_trace_is_its_events() {
    for name in ["dd-none", "dd-mq-deadline"] {
        let base = data("kernel-truth/blktrace-6.1").join(name);
        let (binary, binary_reader) = read_file(&base);
        for option in ["-q", "-t"] {
            let Some(mut blkparse) = elevon_testkit::tool("blkparse") else { return };
            let output = blkparse
                .current_dir(base.parent().unwrap())
                .args(["-i", name, option, "-s"])
                .output()
                .unwrap();
            let (text, reader) = read_bytes(output.stdout);
            assert_eq!(reader.report().skipped, [], "{name} {option}");
            assert_eq!(counts(&text), counts(&binary), "{name} {option}");
            let start = binary[0].time.unwrap();
            let mut expected: Vec<_> = binary
                .iter()
                .map(|event| {
                    let time = event.time.map(|time| time - start);
                    (
                        time,
                        event.cpu,
                        event.kind.letter(),
                        event.sector,
                        event.bytes,
                        event.tid,
                        event.op,
                    )
                })
                .collect();
            let mut found: Vec<_> = text
                .iter()
                .map(|e| (e.time, e.cpu, e.kind.letter(), e.sector, e.bytes, e.tid, e.op))
                .collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{name} {option}");
            let with_name = text.iter().zip(&binary).filter(|(text, _)| text.comm.is_some());
            for (text, binary) in with_name.filter(|(text, binary)| text.tid == binary.tid) {
                let theirs = binary_reader.names().name(binary.comm.unwrap());
                assert_eq!(reader.names().name(text.comm.unwrap()), theirs);
            }
        }
    }
}

/// An error is a number of 32 bits; the end of the range of 64 has no opposite.
#[test]
fn an_error_at_the_end_of_its_range_is_an_error_or_refused() {
    for (error, expected) in [
        ("-5", Some(-5)),
        ("65531", Some(-5)),
        ("2147483647", Some(-2147483647)),
        ("-2147483647", Some(-2147483647)),
        ("-2147483648", None),
        ("-9223372036854775808", None),
        ("9223372036854775807", None),
    ] {
        let text = format!(
            "  8,0 0 1 0.000000001 1 P N [a]\n  8,0 0 2 0.000000002 1 C R 8 + 8 [{error}]\n"
        );
        let (events, reader) = read_bytes(text);
        assert_eq!(events.get(1).and_then(|event| event.error), expected, "{error}");
        assert_eq!(reader.report().skipped_count(), u64::from(expected.is_none()), "{error}");
    }
}
