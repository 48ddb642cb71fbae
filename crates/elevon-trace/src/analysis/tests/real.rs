use super::*;

fn inspect_file(name: &str, device: &str) -> Inspection {
    let reader = crate::open(&data(name)).unwrap_or_else(|error| panic!("{error}"));
    inspect_reader(reader, device)
}

/// Every event of a real trace finds its bio and request; only those that started before the trace
/// do not.
#[test]
fn nothing_is_left_over_in_real_traces() {
    for (name, device, bios, requests) in [
        ("kernel-truth/traces/dd-1028k-direct.ftrace", "7:3", 0, 0),
        ("kernel-truth/traces/dd-64m-direct-ext4-none-512.ftrace", "7:3", 0, 0),
        ("kernel-truth/traces/dd-64m-direct-ext4-mq-deadline-512.ftrace", "7:3", 0, 0),
        // Its recording ended in the middle of a read.
        ("kernel-truth/traces/buffered-seqread-ext4.ftrace", "7:3", 1, 5),
        ("kernel-truth/blktrace-6.1/dd-none.blktrace.0", "253:0", 0, 0),
        ("kernel-truth/blktrace-6.1/dd-mq-deadline.blktrace.0", "253:0", 0, 0),
    ] {
        let found = inspect_file(name, device);
        let counts = &found.counts;
        assert_eq!((found.bios_under_way, found.requests_under_way), (bios, requests), "{name}");
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        assert_eq!(
            (sum(&counts.issued), counts.unmatched),
            (sum(&counts.completed) + requests, 0),
            "{name}"
        );
        assert_eq!(
            (sum(&counts.bios), counts.forgotten),
            (sum(&counts.bios_completed) + bios, 0),
            "{name}"
        );
        if requests == 0 {
            assert_eq!(
                counts.bio_bytes, counts.completed_bytes,
                "{name}: what was queued was served"
            );
        }
        assert!(counts.completed[Group::Read as usize] > 10, "{name}");
    }
}
