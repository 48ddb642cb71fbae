use super::*;
use crate::testing::data;

/// Requests of a device known exactly, kept at a depth that goes up and down.
fn served(model: Model, count: usize) -> Vec<Served> {
    let mut random = elevon_testkit::Rng(7);
    let mut free = vec![0u64; model.servers as usize];
    let (mut all, mut now): (Vec<Served>, u64) = (Vec::new(), 0);
    for _ in 0..count {
        now += random.below(1_600_000);
        let (is_write, bytes) =
            [(false, 4096), (false, 1 << 18), (true, 16384), (true, 1 << 17)][random.below(4) as usize];
        let server = free.iter_mut().min().expect("a server");
        *server = now.max(*server) + model.costs[usize::from(is_write)].of(bytes) as u64;
        all.push(Served { issued: now, completed: *server, bytes, is_write });
    }
    all
}

#[test]
fn a_device_known_exactly_is_found() {
    for servers in [1, 3, 6] {
        let scale = servers as f64;
        let costs =
            [Cost { latency: 400_000.0 * scale, per_byte: 2.0 }, Cost { latency: 700_000.0 * scale, per_byte: 1.0 }];
        let known = Model { servers, costs };
        let served = served(known, 4000);
        let (found, _) = fit(&served, &depths(&served));
        assert_eq!(found.servers, servers);
        for (own, known) in found.costs.iter().zip(known.costs) {
            assert!((own.latency / known.latency - 1.0).abs() < 0.03, "{servers}: {found:?}");
            assert!((own.per_byte / known.per_byte - 1.0).abs() < 0.1, "{servers}: {found:?}");
        }
        assert!(found.error(&served) < 0.02, "{servers}: {}", found.error(&served));
    }
}

#[test]
fn the_device_of_a_real_trace_is_found() {
    let path = data("kernel-truth/whatif/mq-deadline.ftrace.zst");
    let found = calibrate(&mut || crate::open(&path), None, &mut |_| {}).expect("a device");
    // 6 slots of 2 ms and 300 MB/s, with what FUSE, loop and wake-ups add to an I/O.
    assert_eq!(found.model.servers, 6, "{found:?}");
    for cost in found.model.costs {
        assert!((1.9e6..2.4e6).contains(&cost.latency), "{found:?}");
    }
    let bandwidth = found.model.costs[0].bandwidth();
    assert!((240_000_000..360_000_000).contains(&bandwidth), "{bandwidth}");
    assert_eq!((found.requests, found.split_at), ((16_724, 16_724), Some(524_288)));
    assert!(found.flush.is_some_and(|ns| ns < 200_000));
    assert!(found.error_percent < 25.0, "{}", found.error_percent);
    for (is_write, bytes, row) in &found.by_size {
        assert!(row.mean.error_percent().abs() < 10.0, "{is_write} {bytes}: {row:?}");
    }
}

#[test]
fn one_size_has_no_bandwidth_of_its_own() {
    let one =
        |n: u64| Served { issued: n * 10_000_000, completed: n * 10_000_000 + 1_000_000, bytes: 4096, is_write: true };
    let served: Vec<_> = (0..50).map(one).collect();
    let (found, tried) = fit(&served, &depths(&served));
    assert_eq!((found.servers, tried.len()), (1, 1));
    assert!((found.costs[1].of(4096) - 1e6).abs() < 1.0);
    assert_eq!(found.costs[0], found.costs[1], "a direction without requests has the other's");
}

#[test]
fn too_few_requests_are_refused() {
    let text = "\
  a-11 [000] ..... 1.000005: block_rq_issue: 8,0 R 8192 () 5000 + 16 [a]
  a-11 [000] ..... 1.000500: block_rq_complete: 8,0 R () 5000 + 16 [0]
";
    let mut open = || crate::from_bytes(text.as_bytes().to_vec());
    let error = calibrate(&mut open, None, &mut |_| {}).expect_err("one request").to_string();
    assert!(error.contains("1 reads and writes") && error.contains("too few"), "{error}");
}
