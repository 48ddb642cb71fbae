//! Draws what each mechanism of `aileron` does: the figures of docs/explanation/aileron.md.
//!
//! `cargo bench -p elevon-fairness --bench mechanisms` runs small job files by the path of `elevon
//! run` at its defaults, in virtual time, and writes an SVG for each mechanism. Run by `cargo test`
//! it only proves that one can be drawn.

use elevon_fairness::parallel;
use elevon_report::plot::{Axis, Mark, Plot, Scale, Series, Unit};

mod command;

use command::{ios, ios_of_tenants};

const SERVERS: &str = "slots:slots=8,latency=2ms,bandwidth=500MB/s";
const ONE_SERVER: &str = "slots:slots=1,latency=2ms,bandwidth=500MB/s";
const DISK: &str = "hdd-7200";
const SECONDS: u64 = 5;

/// Returns the I/Os a second of each job of a file.
fn rates(jobs: &str, device: &str, scheduler: &str) -> Vec<f64> {
    let global = format!("[global]\ndirect=1\ntime_based\nruntime={SECONDS}\n");
    let done = ios(&format!("{global}{jobs}"), device, scheduler);
    done.into_iter().map(|ios| ios as f64 / SECONDS as f64).collect()
}

/// A figure: what is drawn, over which values, under which schedulers.
struct Drawing {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    x: (&'static str, Scale),
    y: &'static str,
    over: &'static [f64],
    schedulers: &'static [&'static str],
    of: fn(f64, &str) -> f64,
}

/// Two readers of the same depth, of which the first has a part of the weights, on a device.
/// Returns the part of the I/Os that it has, in percent.
fn part_by_weight(level: f64, depth: u32, device: &str, scheduler: &str) -> f64 {
    let job = |name: &str, level: f64| {
        format!(
            "[{name}]\nrw=randread\nbs=4k\nioengine=libaio\niodepth={depth}\nprioclass=2\n\
             prio={level}\n"
        )
    };
    let got = rates(&(job("a", level) + &job("b", 7.0 - level)), device, scheduler);
    100.0 * got[0] / (got[0] + got[1])
}

const DRAWINGS: [Drawing; 6] = [
    Drawing {
        name: "shares",
        title: "Shares",
        description: "The part of the I/Os that one of two readers of depth 32 has, by its BE \
                      level. The other has level 7 less that. By weight it is 89 to 11 %.",
        x: ("level", Scale::Linear),
        y: "part of the I/Os",
        over: &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        schedulers: &["aileron", "bfq", "none"],
        of: |level, scheduler| part_by_weight(level, 32, SERVERS, scheduler),
    },
    Drawing {
        name: "cost",
        title: "Cost",
        description: "A reader of 4 KiB beside one of other sizes, both of depth 32: the part of \
                      what it gets alone.",
        x: ("KiB of the other's reads", Scale::Log),
        y: "part of what it gets alone",
        over: &[4.0, 16.0, 64.0, 256.0, 1024.0],
        schedulers: &["aileron", "bfq", "none"],
        of: |size, scheduler| {
            let job = |name: &str, size: f64| {
                let engine = "ioengine=libaio\niodepth=32";
                format!("[{name}]\nrw=randread\nbs={size}k\n{engine}\n")
            };
            let alone = rates(&job("a", 4.0), SERVERS, "none")[0];
            100.0 * rates(&(job("a", 4.0) + &job("b", size)), SERVERS, scheduler)[0] / alone
        },
    },
    Drawing {
        name: "depth",
        title: "Depth",
        description: "A reader of one request at a time beside a writer of 256 KiB: the part of \
                      what it gets alone.",
        x: ("requests of the writer", Scale::Log),
        y: "part of what it gets alone",
        over: &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0],
        schedulers: &["aileron", "aileron:depth=1024", "bfq", "none"],
        of: |depth, scheduler| {
            let reader = "[r]\nrw=randread\nbs=4k\n";
            let writer = format!("[w]\nrw=write\nbs=256k\nioengine=libaio\niodepth={depth}\n");
            let alone = rates(reader, SERVERS, "none")[0];
            100.0 * rates(&format!("{reader}{writer}"), SERVERS, scheduler)[0] / alone
        },
    },
    Drawing {
        name: "kept",
        title: "Places that are kept",
        description: "The part of the I/Os that one of two readers of one request at a time has on \
                      a device that takes one, by its BE level. The other has level 7 less that.",
        x: ("level", Scale::Linear),
        y: "part of the I/Os",
        over: &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        schedulers: &["aileron", "bfq", "none"],
        of: |level, scheduler| part_by_weight(level, 1, ONE_SERVER, scheduler),
    },
    Drawing {
        name: "turns",
        title: "Turns on a disk",
        description: "Three streams of 256 KiB on a disk: MB/s of all together, by the length of a \
                      turn.",
        x: ("turn_ms", Scale::Linear),
        y: "MB/s",
        over: &[0.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0],
        schedulers: &["aileron", "bfq", "none"],
        of: |turn, scheduler| {
            let jobs: String = (0..3)
                .map(|at| {
                    let place = format!("offset={}%\nsize=30%", at * 30);
                    format!("[s{at}]\nrw=read\nbs=256k\nioengine=libaio\niodepth=4\n{place}\n")
                })
                .collect();
            let scheduler = match scheduler {
                "aileron" => format!("aileron:turn_ms={turn}"),
                other => other.to_owned(),
            };
            let got: f64 = rates(&jobs, DISK, &scheduler).iter().sum();
            got * f64::from(256 << 10) / 1e6
        },
    },
    Drawing {
        name: "floors",
        title: "Floors",
        description: "A tenant of weight 1 beside one of weight 1000, both with 32 reads: its I/Os \
                      a second, by its reserve.",
        x: ("reserve, I/Os a second", Scale::Linear),
        y: "I/Os a second",
        over: &[10.0, 500.0, 1000.0, 2000.0, 3000.0],
        schedulers: &["aileron", "none"],
        of: |reserve, scheduler| {
            let job = |name: &str| {
                let engine = "ioengine=libaio\niodepth=32";
                format!("[{name}]\ncgroup={name}\nrw=randread\nbs=4k\n{engine}\n")
            };
            let global = format!("[global]\ndirect=1\ntime_based\nruntime={SECONDS}\n");
            let tenants = format!(
                "[tenant.a]\nweight = 1\nreserve = {{ iops = {reserve} }}\n[tenant.b]\n\
                 weight = 1000\n"
            );
            let name = format!("elevon-floor-{}-{scheduler}-{reserve}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, tenants).expect("a file of tenants");
            let text = global + &job("a") + &job("b");
            let done = ios_of_tenants(&text, SERVERS, scheduler, Some(path.clone()));
            std::fs::remove_file(path).expect("the file is there");
            done[0] as f64 / SECONDS as f64
        },
    },
];

fn draw(drawing: &Drawing) -> String {
    let Drawing { title, description, x, y, over, schedulers, of, .. } = drawing;
    let series = schedulers.iter().enumerate().map(|(colour, scheduler)| {
        let points = parallel::map(over, |value| (*value, of(*value, scheduler)));
        // The name of the series stands beside its last point.
        let mut labels = vec![String::new(); points.len() - 1];
        labels.push((*scheduler).into());
        let name = (*scheduler).into();
        Series { name, colour, points, labels, is_joined: true, ..Series::default() }
    });
    let axis = |title: &str, scale| Axis { title: title.into(), scale, unit: Unit::Count };
    let plot = Plot {
        title: (*title).into(),
        description: (*description).into(),
        mark: Mark::Points,
        x: axis(x.0, x.1),
        y: axis(y, Scale::Linear),
        series: series.collect(),
    };
    for series in &plot.series {
        println!("{:<8} {:<20} {:.1?}", drawing.name, series.name, series.points);
    }
    plot.svg_file()
}

fn main() {
    let is_full = std::env::args().any(|word| word == "--bench");
    for drawing in DRAWINGS.iter().take(if is_full { DRAWINGS.len() } else { 1 }) {
        let svg = draw(drawing);
        if is_full {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation");
            let path = format!("{folder}/aileron-{}.svg", drawing.name);
            std::fs::write(path, svg).expect("docs can be written");
        }
    }
}
