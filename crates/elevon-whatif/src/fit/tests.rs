use elevon_core::op::Op;
use elevon_core::units::Instant;
use elevon_sim::device::closed_loop::command;
use elevon_sim::device::{Device, Slots, SlotsParameters};

use super::*;

/// Clients of a device known exactly, as many at a time as a phase says; each thinks for up to a
/// tenth of a millisecond.
fn served(text: &str, phases: &[(usize, usize)]) -> Vec<Served> {
    served_with(text, phases, false)
}

/// The same; a quarter of them may be discards.
fn served_with(text: &str, phases: &[(usize, usize)], has_discards: bool) -> Vec<Served> {
    let mut device = Slots::new(&SlotsParameters::parse(text).expect("parameters"), 5);
    let mut random = elevon_testkit::Rng(7);
    let (mut all, mut issues): (Vec<Served>, Vec<Served>) = (Vec::new(), Vec::new());
    // When each client goes on, if it is not waiting for the device.
    let mut clients: Vec<Option<u64>> = Vec::new();
    let mut now = 0;
    for &(depth, count) in phases {
        clients.retain(|client| client.is_none());
        clients.resize(depth.max(clients.len()), Some(now));
        let until = all.len() + count;
        while all.len() < until {
            let next = clients.iter().enumerate().filter_map(|(n, at)| at.map(|at| (at, n))).min();
            match (next, device.next_event()) {
                (Some((at, n)), event) if event.is_none_or(|event| at < event.get()) => {
                    now = at.max(now);
                    clients[n] = None;
                    let (kind, op, bytes) = [
                        (Kind::Read, Op::Read, 4096),
                        (Kind::Read, Op::Read, 1 << 18),
                        (Kind::Write, Op::Write, 16384),
                        (Kind::Write, Op::Write, 1 << 17),
                    ][random.below(4) as usize];
                    let (kind, op, bytes) = if random.below(16) == 0 {
                        (Kind::Flush, Op::Flush, 0)
                    } else {
                        (kind, op, bytes)
                    };
                    let is_discard = has_discards && random.below(4) == 0;
                    let (kind, op, bytes) = if is_discard {
                        (Kind::Discard, Op::Discard, 0)
                    } else {
                        (kind, op, bytes)
                    };
                    let id = issues.len() as u32;
                    issues.push(Served { issued: now, completed: now, sector: 0, bytes, kind });
                    device.submit(Instant::new(now), &command(id, op, 0, bytes));
                }
                (_, Some(event)) => {
                    now = now.max(event.get());
                    if let Some(done) = device.poll(Instant::new(now)) {
                        all.push(Served { completed: now, ..issues[done.request.0 as usize] });
                        // Any waiting command is as good as any other.
                        if let Some(client) = clients.iter_mut().find(|client| client.is_none()) {
                            *client = Some(now + random.below(100_000));
                        }
                    }
                }
                (_, None) => unreachable!("somebody waits, or is waited for"),
            }
        }
    }
    all.sort_by_key(|one| (one.issued, one.completed));
    all
}

/// Shallow at first, then deep.
const PHASES: [(usize, usize); 3] = [(2, 2000), (4, 2000), (24, 6000)];

fn found(text: &str) -> Fit {
    fit(&served(text, &PHASES)).expect("there are reads")
}

#[test]
fn a_fifo_of_constant_times_is_found() {
    for servers in [1, 3, 6] {
        let text = format!(
            "slots={servers},latency={}us,bandwidth=500MB/s,write_latency={}us,write_bandwidth=1000MB/s,\
             flush_latency=500us",
            400 * servers,
            700 * servers
        );
        let fit = found(&text);
        assert_eq!(fit.model.servers, servers, "{fit:?}");
        for (kind, latency, per_byte) in [(Kind::Read, 400e3, 2.0), (Kind::Write, 700e3, 1.0)] {
            let held = fit.model.held(kind);
            assert!(
                (held.latency / (latency * servers as f64) - 1.0).abs() < 0.03,
                "{servers}: {fit:?}"
            );
            assert!((held.per_byte / per_byte - 1.0).abs() < 0.1, "{servers}: {fit:?}");
        }
        assert!(
            fit.model.flush_waits && fit.model.hand_over < 5e3 && fit.model.disorder < 0.05,
            "{servers}: {fit:?}"
        );
        assert!(fit.each_percent < 2.0 && fit.distribution_percent < 2.0, "{servers}: {fit:?}");
    }
}

const BASE: &str = "slots=6,latency=2000us,bandwidth=300MB/s,write_latency=2000us,flush_latency=50us,flush_waits=0";

/// A flush that waits for no server is no part of the FIFO, whose fit sets its time all the same.
#[test]
fn a_flush_that_waits_for_no_server_has_its_own_time() {
    let text = "slots=1,latency=30us,bandwidth=500MB/s,flush_latency=2ms,flush_waits=0";
    let served = served(text, &[(2, 500), (8, 500)]);
    let model = fit(&served).expect("there are reads").model;
    assert!(
        !model.flush_waits && (model.held(Kind::Flush).latency / 2e6 - 1.0).abs() < 0.01,
        "{model:?}"
    );
}

#[test]
fn hand_over_is_found() {
    let fit = found(&format!(
        "{BASE},base_latency=100us,hand_over=60us,spread_p10=99%,spread_p90=102%,spread_max=104%"
    ));
    let model = &fit.model;
    assert!(model.servers == 6 && !model.flush_waits && model.disorder == 0.0, "{fit:?}");
    assert!((30e3..100e3).contains(&model.hand_over), "{fit:?}");
    assert!(
        fit.distribution_percent < 6.0 && fit.distribution_percent < fit.fifo_percent / 2.0,
        "{fit:?}"
    );
    for (_, row) in fit.by_depth.iter().filter(|(_, row)| row.requests > 500) {
        assert!(
            row.p50.error_percent().abs() < 10.0 && row.p99.error_percent().abs() < 15.0,
            "{fit:?}"
        );
    }
}

/// A discard holds a server for its own time. Without them the servers would seem to be fewer, and
/// a trace without writes or discards says nothing of their times.
#[test]
fn discards_are_found() {
    let text = "slots=4,latency=1ms,bandwidth=500MB/s,discard_latency=3ms";
    let served = served_with(text, &PHASES, true);
    let fit = fit(&served).expect("there are reads");
    let parameters = fit.parameters();
    assert_eq!((fit.model.servers, fit.has(Kind::Discard)), (4, true), "{fit:?}");
    assert!((parameters.discard_latency.get() as f64 / 3e6 - 1.0).abs() < 0.02, "{parameters:?}");
    assert!(fit.distribution_percent < 2.0, "{fit:?}");
    let reads: Vec<Served> = served.into_iter().filter(|one| one.kind == Kind::Read).collect();
    let parameters = super::fit(&reads).expect("there are reads").parameters();
    assert!(
        parameters.write_latency.is_zero() && parameters.discard_latency.is_zero(),
        "{parameters:?}"
    );
}

#[test]
fn disorder_is_found() {
    let fit = found(&format!("{BASE},disorder=40%"));
    assert!(fit.model.servers == 6 && (0.25..0.55).contains(&fit.model.disorder), "{fit:?}");
    assert!(fit.distribution_percent < 5.0, "{fit:?}");
}

#[test]
fn a_spread_is_found() {
    let spread = "spread_min=80%,spread_p10=90%,spread_p50=100%,spread_p90=150%,spread_p99=400%,spread_max=600%";
    let fit = found(&format!("{BASE},{spread},write_spread_min=90%"));
    let [reads, writes, ..] = fit.model.spreads;
    let near = |value: u32, percent: u32| value.abs_diff(percent * 10_000) < percent * 700;
    assert!(near(reads.p10, 90) && near(reads.p50, 100) && near(reads.p90, 150), "{fit:?}");
    assert!((2_500_000..5_500_000).contains(&reads.p99), "{fit:?}");
    assert!(writes.p50 > 900_000 && writes.p90 > 1_300_000, "{fit:?}");
    assert!(
        fit.distribution_percent < 8.0 && fit.distribution_percent < fit.fifo_percent,
        "{fit:?}"
    );
}

/// Writes of a log beside writes elsewhere, which take five times as long: both times are found,
/// and the parameters are those of the device.
#[test]
fn sequential_writes_are_found() {
    let text = "slots=4,latency=100us,bandwidth=1000MB/s,write_latency=500us,seq_write_latency=100us,size=1TiB";
    let mut device = Slots::new(&SlotsParameters::parse(text).expect("parameters"), 5);
    let mut random = elevon_testkit::Rng(3);
    let mut all = Vec::new();
    let mut log = 0;
    for id in 0..4000 {
        let (issued, place) = (u64::from(id) * 400_000 + random.below(100_000), random.below(3));
        let (kind, op, sector) = match place {
            0 => (Kind::Read, Op::Read, random.below(1 << 20) * 8),
            1 => (Kind::Write, Op::Write, random.below(1 << 20) * 1000),
            _ => (Kind::Write, Op::Write, (1 << 30) + log),
        };
        let bytes = 4096 << random.below(3);
        log += if place == 2 { bytes / 512 } else { 0 };
        device.submit(Instant::new(issued), &command(id, op, sector, bytes));
        all.push(Served { issued, completed: 0, sector, bytes, kind });
        while let Some(at) =
            device.next_event().filter(|at| id == 3999 || at.get() < issued + 300_000)
        {
            let done = device.poll(at).expect("it is due").request.0;
            all[done as usize].completed = at.get();
        }
    }
    let parameters = fit(&all).expect("there are reads").parameters();
    let us = |time: elevon_core::units::Nanos| time.get() / 1000;
    let held = [parameters.latency, parameters.write_latency, parameters.seq_write_latency].map(us);
    assert!(
        held.iter().zip([100, 500, 100]).all(|(own, known)| own.abs_diff(known) < 12),
        "{parameters:?}"
    );
    assert!(parameters.seq_latency.is_zero(), "reads have one place: {parameters:?}");
}

#[test]
fn what_is_fitted_is_what_the_device_does() {
    let text = format!("{BASE},base_latency=100us,hand_over=60us");
    let fit = found(&text);
    let parameters = fit.parameters();
    let again = parameters.clone();
    assert_eq!(SlotsParameters { size: parameters.size, ..again }, parameters);
    let known = SlotsParameters::parse(&text).expect("parameters");
    assert_eq!(
        (parameters.slots, parameters.flush_waits, parameters.write_cache),
        (6, false, true)
    );
    let near = |own: u64, known: u64| own.abs_diff(known) * 25 < known;
    let sum = |of: &SlotsParameters| of.latency.get() + of.base_latency.get();
    assert!(near(sum(&parameters), sum(&known)), "{parameters:?}");
    assert!(near(parameters.bandwidth.get(), known.bandwidth.get()), "{parameters:?}");
}

#[test]
fn one_size_has_no_bandwidth_of_its_own() {
    let one = |n: u64| Served {
        issued: n * 10_000_000,
        completed: n * 10_000_000 + 1_000_000,
        sector: n << 20,
        bytes: 4096,
        kind: Kind::Write,
    };
    let fit = fit(&(0..50).map(one).collect::<Vec<_>>()).expect("there are writes");
    assert_eq!((fit.model.servers, fit.by_servers.len()), (1, 1));
    assert!((fit.model.held(Kind::Write).of(4096) - 1e6).abs() < 1.0, "{fit:?}");
    assert!(
        (fit.model.held(Kind::Read).of(4096) - 1e6).abs() < 1.0,
        "a direction without requests has the other's"
    );
    assert_eq!(fit.each_percent, 0.0);
}

#[test]
fn nothing_but_flushes_is_no_device() {
    let flush = Served { issued: 1, completed: 2, sector: 0, bytes: 0, kind: Kind::Flush };
    assert!(fit(&[flush; 30]).is_none() && fit(&[]).is_none());
}
