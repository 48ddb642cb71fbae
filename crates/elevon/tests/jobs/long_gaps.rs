//! Tests runs that wait for hours of virtual time: a long time without I/O at the device does not
//! count as a dead device.

use crate::common::Bench;

#[test]
fn a_gap_of_virtual_time_of_any_length_is_no_dead_device() {
    let bench = Bench::new();
    bench.file("slow.toml", "[tenant.a]\n\"io.max\" = \"8:0 rbps=2\"\n");
    let job = |name: &'static str, options: &str| {
        bench.file(name, format!("[a]\nrw=read\nbs=4k\ndirect=1\n{options}"))
    };
    for (job, args, ios) in [
        (job("late.fio", "startdelay=90000\nnumber_ios=3\n"), &[][..], 3),
        (job("think.fio", "thinktime=20m\nnumber_ios=3\n"), &[], 3),
        (job("rate.fio", "rate=4\nnumber_ios=3\n"), &[], 3),
        // 4 KiB take 2048 s, and the last I/O is held while nothing else is in flight.
        (job("limit.fio", "cgroup=a\nnumber_ios=3\n"), &["--tenants", "slow.toml"], 3),
    ] {
        let json = bench.json(job, args);
        assert_eq!(json["jobs"][0]["read"]["total_ios"], ios, "{job}: {json:#}");
    }
}
