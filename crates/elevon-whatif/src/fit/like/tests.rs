use elevon_sim::profiles;

use super::*;

/// A profile with some settings, and its description.
fn config(name: &str, settings: &str) -> (FlashConfig, Description) {
    let profile = profiles::profile(name).expect("a profile");
    let config = profile.flash_config(settings).expect("settings").expect("flash");
    (config, profile.open("", 0).expect("a device").description().clone())
}

/// Clients of a drive that is known: two read 4 KiB each, one 128 KiB, four write 16 KiB, and one
/// writes 4 KiB and flushes after each fourth; each thinks for up to a fifth of a millisecond.
fn served(drive: &(FlashConfig, Description), count: usize) -> Vec<Served> {
    let (config, description) = drive.clone();
    let mut device = Flash::new(config, description, 9);
    let mut random = elevon_testkit::Rng(7);
    let mut clients = [0_u64; 8].map(Some);
    let (mut issued, mut of) = (Vec::<Served>::new(), Vec::new());
    while issued.len() < count || device.next_event().is_some() {
        let next = clients.iter().enumerate().filter_map(|(n, at)| at.map(|at| (at, n))).min();
        let event = device.next_event().map(|at| at.get());
        match next.filter(|&(at, _)| issued.len() < count && event.is_none_or(|event| at < event)) {
            Some((at, client)) => {
                clients[client] = None;
                let id = issued.len() as u32;
                let (kind, op, bytes) = match client {
                    0 | 1 => (Kind::Read, Op::Read, 4096),
                    2 => (Kind::Read, Op::Read, 128 << 10),
                    7 if random.below(5) == 0 => (Kind::Flush, Op::Flush, 0),
                    7 => (Kind::Write, Op::Write, 4096),
                    _ => (Kind::Write, Op::Write, 16 << 10),
                };
                let sector = if kind == Kind::Flush { 0 } else { random.below(1 << 20) * 256 };
                issued.push(Served { issued: at, completed: at, sector, bytes, kind });
                of.push(client);
                device.submit(Instant::new(at), &command(id, op, sector, bytes));
            }
            None => {
                let now = event.expect("somebody is waited for");
                while let Some(done) = device.poll(Instant::new(now)) {
                    let n = done.request.0 as usize;
                    issued[n].completed = now;
                    clients[of[n]] = Some(now + random.below(200_000));
                }
            }
        }
    }
    issued
}

/// Returns a profile with the parameters that a fit changed.
fn with_changes(name: &str, fit: &LikeFit) -> FlashConfig {
    let settings: Vec<String> =
        fit.changed.iter().map(|(key, _, new)| format!("{key}={new}")).collect();
    config(name, &settings.join(",")).0
}

/// Dies, links, buffer and programs are others than in the profile, and the latencies of the fit
/// are those of the drive: of all requests, of each size, and deep as well as alone.
#[test]
fn a_drive_is_found_from_a_profile_of_another() {
    let truth = config(
        "ufs-3.1",
        "read_time=110us,dies=5,write_rate=350MB/s,program_time=400us,flush_time=900us",
    );
    let served = served(&truth, 4000);
    let (profile, description) = config("ufs-4.0", "");
    let mut last = 0;
    let fit = fit_like(&profile, &description, &served, &mut |percent| last = percent)
        .expect("there are reads");
    assert!(last > 90, "{last} percent of the trials");
    // With the parameters of the drive itself it is 9 %: chance differs.
    assert!(
        fit.distribution_percent < 12.0 && fit.profile_percent > 6.0 * fit.distribution_percent,
        "{fit:?}"
    );
    assert!(fit.time_percent.abs() < 1.0, "{fit:?}");
    for (kind, bytes, row) in fit.by_size.iter().filter(|(.., row)| row.requests > 400) {
        assert!(row.mean.error_percent().abs() < 10.0, "{kind:?} {bytes}: {row:?}");
    }
    assert_eq!(fit.changed.len(), changed(&profile, &with_changes("ufs-4.0", &fit)).count());
}

/// A first look tells the kind: as they are, other profiles are nearer to this drive.
#[test]
fn a_first_look_finds_the_profile_to_begin_with() {
    let truth = config("nvme-consumer", "read_time=200us,write_latency=60us,program_time=3ms");
    let served = served(&truth, 2000);
    let names =
        ["sata-ssd-860evo", "ufs-3.1", "ufs-4.0", "nvme-consumer", "nvme-datacenter", "optane"];
    let profiles = names.map(|name| config(name, ""));
    let as_it_is = |at: &usize| {
        let (profile, description) = &profiles[*at];
        (Observed::from_served(&served, description).error(profile) * 1e9) as u64
    };
    let found =
        nearest(&profiles.each_ref().map(|(profile, description)| (profile, description)), &served);
    assert_eq!(found.map(|(at, _)| names[at]), Some("nvme-consumer"), "{found:?}");
    assert_ne!((0..names.len()).min_by_key(as_it_is).map(|at| names[at]), Some("nvme-consumer"));
    assert_eq!(nearest(&[], &served), None);
}

/// A drive that is as the profile says is hardly changed.
#[test]
fn a_profile_that_fits_stays_what_it_is() {
    let truth = config("sata-ssd-860evo", "");
    let fit =
        fit_like(&truth.0, &truth.1, &served(&truth, 3000), &mut |_| ()).expect("there are reads");
    assert!(
        fit.distribution_percent < 12.0 && fit.distribution_percent <= fit.profile_percent,
        "{fit:?}"
    );
    let found = with_changes("sata-ssd-860evo", &fit);
    for row in changed(&truth.0, &found) {
        let [own, of] = [&found, &truth.0].map(|config| (row.get)(config) as f64);
        assert!((0.5..2.0).contains(&(own / of)), "{}: {of} became {own}", row.key);
    }
}

#[test]
fn hostile_requests_are_followed_as_far_as_they_can_be() {
    let (profile, description) = config("nvme-consumer", "");
    let one =
        |issued, completed, sector, bytes, kind| Served { issued, completed, sector, bytes, kind };
    let hostile = [
        one(0, u64::MAX, u64::MAX, u64::MAX, Kind::Read),
        one(1, 1, u64::MAX - 1, u64::MAX, Kind::Write),
        one(u64::MAX / 2, u64::MAX, 0, 0, Kind::Flush),
        one(u64::MAX / 2, u64::MAX / 2, 5, 1, Kind::Write),
    ];
    let fit = fit_like(&profile, &description, &hostile, &mut |_| ()).expect("there are reads");
    assert_eq!(fit.requests, (4, 4));
    let flush = one(1, 2, 0, 0, Kind::Flush);
    assert!(fit_like(&profile, &description, &[flush; 30], &mut |_| ()).is_none());
    assert!(fit_like(&profile, &description, &[], &mut |_| ()).is_none());
}
