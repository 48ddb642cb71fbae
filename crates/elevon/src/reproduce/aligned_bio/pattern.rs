//! The order of issue: the proposal's trace line by line, the same bios with other fills and kernel
//! versions, and the read of 1028 KiB.

use std::collections::BTreeSet;

use elevon_core::build::Fill;
use elevon_core::event::{Event, EventKind};
use elevon_core::kernel::Kernel;
use elevon_report::document::{Document, Table};

use super::{PARAMETERS, TRACE};
use crate::failure::Failure;
use crate::reproduce::conclusions::{Conclusion, conclude, listed, range};
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const TRACE_JOB: Job = job!("aligned-bio/trace.fio");
const READ_1028K: Job = job!("aligned-bio/read-1028k.fio");
const READ_512M: Job = job!("aligned-bio/read-512m.fio");
/// Sectors of a bio of 512 KiB.
const HALF_MEBI: u32 = 1024;

/// Events of one stack for the bios of the trace.
pub(super) struct Pattern {
    pub(super) name: String,
    /// `Q`, `X` and `D` lines in order.
    pub(super) lines: Vec<String>,
    events: Vec<Event>,
    tails: u64,
}

/// The order of issue in every stack.
pub(super) struct Patterns {
    /// Lines that the proposal published.
    pub(super) published: Vec<String>,
    /// Kernel versions of the proposal's time.
    pub(super) of_the_time: Vec<Pattern>,
    /// Other fills, and later kernel versions.
    pub(super) others: Vec<Pattern>,
    /// Reads of 1028 KiB: fill, memory, and the events.
    pub(super) read_1028k: Vec<(Fill, String, Pattern)>,
    /// The read of 512 MiB by fill and memory.
    pub(super) read_512m: Vec<Large>,
    commands: Vec<String>,
}

/// What a read of 512 MiB becomes.
#[derive(Clone, Debug)]
pub(super) struct Large {
    pub(super) fill: Fill,
    pub(super) memory: String,
    /// Sectors of each bio, in order.
    pub(super) bios: Vec<u32>,
    /// Number of requests.
    requests: usize,
}

impl Large {
    /// Returns true if the read becomes 1,024 bios of 512 KiB.
    pub(super) fn is_as_asked(&self) -> bool {
        self.bios.len() == 1024 && self.bios.iter().all(|sectors| *sectors == HALF_MEBI)
    }

    fn row(&self) -> [String; 6] {
        let of_half = self.bios.iter().filter(|sectors| **sectors == HALF_MEBI).count();
        let (least, most) = range(self.bios.iter().map(|sectors| f64::from(*sectors) / 2.0));
        let answer = if self.is_as_asked() { "yes" } else { "no" };
        let (fill, bios) = (self.fill.name().to_owned(), self.bios.len().to_string());
        [fill, self.memory.clone(), bios, format!("{least:.0} to {most:.0}"), of_half.to_string(), answer.to_owned()]
    }
}

/// The sectors that the counter-example of the mail thread issues with any fill.
pub(super) const PUBLISHED_1028K: [&str; 3] = ["D 0 + 1024", "D 1024 + 1024", "D 2048 + 8"];

impl Pattern {
    fn of(name: String, (result, events): (elevon_report::result::RunResult, Vec<Event>)) -> Self {
        Self { name, lines: events.iter().filter_map(line).collect(), events, tails: result.disk.counters.tails }
    }

    /// Returns the lines of requests issued to the driver.
    pub(super) fn issued(&self) -> Vec<&str> {
        self.lines.iter().filter(|line| line.starts_with('D')).map(String::as_str).collect()
    }

    fn count(&self, letter: char) -> usize {
        self.lines.iter().filter(|line| line.starts_with(letter)).count()
    }

    /// Formats the sizes in KiB in order of issue; `<` marks a request that lies before the
    /// previous one.
    fn sizes(&self) -> String {
        let mut reached = 0;
        let issues = self.events.iter().filter(|event| event.kind == EventKind::Issue);
        let sizes = issues.map(|event| {
            let back = if event.sector.get() < reached { "<" } else { "" };
            reached = event.sector.get() + u64::from(event.sectors);
            format!("{back}{}", event.sectors / 2)
        });
        sizes.collect::<Vec<_>>().join(" ")
    }
}

/// Formats an event as a line; `None` if the proposal's trace does not have its kind.
fn line(event: &Event) -> Option<String> {
    match event.kind {
        EventKind::BioQueue => Some(format!("Q {} + {}", event.sector.get(), event.sectors)),
        EventKind::Split { new_sector } => Some(format!("X {} / {}", event.sector.get(), new_sector.get())),
        EventKind::Issue => Some(format!("D {} + {}", event.sector.get(), event.sectors)),
        EventKind::GetRequest
        | EventKind::IoStart
        | EventKind::Plug
        | EventKind::Unplug { .. }
        | EventKind::BackMerge
        | EventKind::FrontMerge
        | EventKind::RequestMerge
        | EventKind::Insert
        | EventKind::Requeue
        | EventKind::Complete { .. }
        | EventKind::BioAgain
        | EventKind::IoDone { .. }
        | EventKind::TagWait { .. } => None,
    }
}

/// Converts a line of the proposal's trace to the same form.
fn published_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[0] {
        "block_bio_queue:" => format!("Q {} + {}", words[3], words[5]),
        "block_split:" => format!("X {} / {}", words[3], words[5]),
        "block_rq_issue:" => format!("D {} + {}", words[5], words[7]),
        other => panic!("{other} is none of the trace's events"),
    }
}

pub(super) fn measure(lab: &Lab) -> Result<Patterns, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let memory = parameters.text("memory.traced");
    let mut commands = Vec::new();
    let mut trace = |kernel: Kernel, fill: Fill| -> Result<Pattern, Failure> {
        let (kernel, fill) = (kernel.name(), fill.name());
        let options =
            format!("--device ufs-4.0 --kernel {kernel} --set direct_path=iomap --set fill={fill} --buffers {memory}");
        let traced = lab.trace(TRACE_JOB, &options)?;
        commands.push(traced.0.command.clone());
        Ok(Pattern::of(format!("{fill}, {kernel}"), traced))
    };
    let of_the_time = vec![trace(Kernel::V6_1, Fill::Full)?, trace(Kernel::V6_6, Fill::Full)?];
    let mut others = vec![trace(Kernel::V6_1, Fill::MaxSectors)?, trace(Kernel::V6_1, Fill::Trim)?];
    others.push(trace(Kernel::V6_18, Fill::Full)?);
    others.push(trace(Kernel::V6_18, Fill::MaxSectors)?);
    others.push(trace(Kernel::V7_0, Fill::Full)?);
    let mut read_1028k = Vec::new();
    for fill in Fill::ALL {
        for memory in ["contiguous", parameters.text("memory.usual")] {
            let (stack, fill_name) = (parameters.text("stack.options"), fill.name());
            let options = format!("--device ufs-4.0 {stack} --set fill={fill_name} --buffers {memory}");
            let traced = lab.trace(READ_1028K, &options)?;
            let kind = memory.split(':').next().unwrap_or(memory).to_owned();
            read_1028k.push((fill, kind, Pattern::of(fill_name.to_owned(), traced)));
        }
    }
    let mut read_512m = Vec::new();
    for fill in [Fill::Full, Fill::MaxSectors, Fill::Trim] {
        for memory in ["contiguous", parameters.text("memory.usual")] {
            let stack = parameters.text("stack.options");
            let options = format!("--device ufs-4.0 {stack} --set fill={} --buffers {memory}", fill.name());
            let (_, events) = lab.trace(READ_512M, &options)?;
            let of = |kind: EventKind| events.iter().filter(move |event| event.kind == kind);
            let kind = memory.split(':').next().unwrap_or(memory).to_owned();
            let bios = of(EventKind::BioQueue).map(|event| event.sectors).collect();
            read_512m.push(Large { fill, memory: kind, bios, requests: of(EventKind::Issue).count() });
        }
    }
    let published = TRACE.lines().map(published_line).collect();
    commands.truncate(1);
    Ok(Patterns { published, of_the_time, others, read_1028k, read_512m, commands })
}

pub(super) fn report(document: &mut Document, patterns: &Patterns) {
    let published = &patterns.published;
    document.heading("1. The trace: 1024 + 1024 + a tail that is issued late");
    document.paragraph(
        "The proposal's trace of one read, and what the same four bios do here under the rules of kernels of its time. Q: a bio \
         entered the queue; X: it was cut there; D: a request was given to the driver.",
    );
    let mut table = Table::new(["line", "proposal's trace", "ours, kernel 6.1", "ours, kernel 6.6", "same"])
        .with_words(&[1, 2, 3, 4]);
    let [six_1, six_6] = &patterns.of_the_time[..] else { unreachable!("two kernels were run") };
    let mut same = 0;
    for (at, line) in published.iter().enumerate() {
        let ours = [six_1, six_6].map(|pattern| pattern.lines.get(at).map_or("", String::as_str));
        let is_same = ours.iter().all(|o| o == line);
        same += usize::from(is_same);
        let answer = if is_same { "yes" } else { "NO" };
        table.row([&(at + 1).to_string(), line, ours[0], ours[1], answer]);
    }
    document.table(table);
    document.paragraph(format!(
        "{same} of {} lines are the same. The trace ends before the last tail is issued; ours goes on with {}.",
        published.len(),
        six_1.lines[published.len()..].join(", "),
    ));
    patterns.commands.iter().for_each(|command| document.command(command));

    document.heading("2. The same buffer under other fills and later kernels");
    document.paragraph(
        "Sizes of requests in KiB as they were issued; `<` marks one that lies before the request issued just before it. Since \
         6.13 a plug is emptied oldest first: no request goes backwards any more, but the tails are all there. 7.0 leaves none.",
    );
    let mut table = Table::new(["fill, kernel", "bios", "splits", "requests", "tails", "issued, KiB"]).with_words(&[5]);
    for pattern in patterns.of_the_time.iter().chain(&patterns.others) {
        let counts = ['Q', 'X', 'D'].map(|letter| pattern.count(letter).to_string());
        let [q, x, d] = counts.each_ref().map(String::as_str);
        table.row([&pattern.name, q, x, d, &pattern.tails.to_string(), &pattern.sizes()]);
    }
    document.table(table);

    document.heading("3. A read of 1028 KiB is cut alike under any fill");
    document.paragraph(
        "The thread's counter-example: here the tail is the application's, and no fill can remove it; it only moves from the \
         split to the builder. The thread shows 524288 bytes at sector 0, 524288 at 0x400, 4096 at 0x800.",
    );
    let mut table = Table::new(["fill", "memory", "bios", "splits", "issued (sector + sectors)", "as in the thread"])
        .with_words(&[1, 4, 5]);
    for (fill, memory, pattern) in &patterns.read_1028k {
        let issued = pattern.issued();
        let same = if issued == PUBLISHED_1028K { "yes" } else { "NO" };
        let (bios, splits) = (pattern.count('Q').to_string(), pattern.count('X').to_string());
        let issued = issued.iter().map(|line| &line[2..]).collect::<Vec<_>>().join(", ");
        table.row([fill.name(), memory, &bios, &splits, &issued, same]);
    }
    document.table(table);
    report_512m(document, &patterns.read_512m);
}

/// What the rows of the read of 512 MiB show.
pub(super) const READ_512M_SHOWN: [Conclusion<Vec<Large>>; 2] = [
    |rows| {
        let own = rows.iter().find(|row| row.fill == Fill::Full && row.memory != "contiguous")?;
        let sizes: BTreeSet<u32> = own.bios.iter().copied().collect();
        (!own.is_as_asked() && sizes.len() > 1).then(|| {
            format!(
                "On scattered memory fill=full makes {} bios of {} sizes: the answer of the thread.",
                own.bios.len(),
                sizes.len()
            )
        })
    },
    |rows| {
        let mut as_asked: Vec<&str> = rows.iter().filter(|row| row.is_as_asked()).map(|row| row.fill.name()).collect();
        as_asked.dedup();
        let names: Vec<String> = as_asked.iter().map(|name| format!("fill={name}")).collect();
        (!names.is_empty()).then(|| format!("1,024 bios of 512 KiB it becomes with {} only.", listed(&names)))
    },
];

fn report_512m(document: &mut Document, rows: &Vec<Large>) {
    document.paragraph(
        "\"If userspace submits very large IO, such as 512M, which will be split into 1K bios with 512K size\", one side of the \
         thread says. \"No\", says the other: the block layer meets full bios of various sizes. Does a read of 512 MiB become \
         1,024 bios of 512 KiB?",
    );
    let mut table = Table::new(["fill", "memory", "bios", "KiB of a bio", "of 512 KiB", "as asked", "requests"])
        .with_words(&[1, 5]);
    for large in rows {
        let [fill, memory, bios, sizes, of_half, answer] = large.row();
        table.row([&fill, &memory, &bios, &sizes, &of_half, &answer, &large.requests.to_string()]);
    }
    document.table(table);
    conclude(document, rows, &READ_512M_SHOWN);
}
