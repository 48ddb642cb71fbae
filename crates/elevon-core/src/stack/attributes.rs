//! The attributes of a queue as the files of `/sys/block/X/queue/` show them.
//!
//! A row says which file it is, since which rule a kernel has it, and its content. What decides
//! nothing here (`add_random`, `rq_affinity` and their like) is shown with the value that Linux
//! has for it if it is not changed.

extern crate alloc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::StackConfig;
use crate::kernel::Rules;

/// One attribute.
struct Attribute {
    /// File name in `queue/`.
    name: &'static str,
    /// Whether a kernel with these rules has the file.
    exists: fn(&Rules) -> bool,
    content: Content,
}

/// Where the content of an attribute comes from.
enum Content {
    /// The queue limit of the same name.
    Limit,
    /// The configuration of the queue.
    Queue(fn(&StackConfig, &Rules) -> String),
    /// Nothing here changes it.
    Fixed(&'static str),
}

/// The scheduler names that the file `scheduler` lists after `none`.
const LISTED: [&str; 3] = ["mq-deadline", "bfq", "kyber"];

const fn limit(name: &'static str) -> Attribute {
    Attribute { name, exists: |_| true, content: Content::Limit }
}

const fn queue(name: &'static str, content: fn(&StackConfig, &Rules) -> String) -> Attribute {
    Attribute { name, exists: |_| true, content: Content::Queue(content) }
}

const fn fixed(name: &'static str, content: &'static str) -> Attribute {
    Attribute { name, exists: |_| true, content: Content::Fixed(content) }
}

const fn if_kernel(exists: fn(&Rules) -> bool, attribute: Attribute) -> Attribute {
    Attribute { exists, ..attribute }
}

/// Every attribute, by name.
const ATTRIBUTES: &[Attribute] = &[
    fixed("add_random", "0"),
    if_kernel(|r| r.queue_async_depth, queue("async_depth", |c, _| c.async_depth().to_string())),
    if_kernel(|r| r.atomic_writes, limit("atomic_write_boundary_bytes")),
    if_kernel(|r| r.atomic_writes, limit("atomic_write_max_bytes")),
    if_kernel(|r| r.atomic_writes, limit("atomic_write_unit_max_bytes")),
    if_kernel(|r| r.atomic_writes, limit("atomic_write_unit_min_bytes")),
    limit("chunk_sectors"),
    fixed("dax", "0"),
    limit("discard_granularity"),
    limit("discard_max_bytes"),
    limit("discard_max_hw_bytes"),
    fixed("discard_zeroes_data", "0"),
    limit("dma_alignment"),
    limit("fua"),
    limit("hw_sector_size"),
    limit("io_poll"),
    fixed("io_poll_delay", "-1"),
    queue("io_timeout", |c, _| c.io_timeout.as_millis().to_string()),
    queue("iostats", |c, _| u8::from(c.iostats).to_string()),
    if_kernel(|r| r.iostats_passthrough_attribute, fixed("iostats_passthrough", "0")),
    limit("logical_block_size"),
    limit("max_discard_segments"),
    limit("max_hw_sectors_kb"),
    limit("max_integrity_segments"),
    limit("max_sectors_kb"),
    limit("max_segment_size"),
    limit("max_segments"),
    if_kernel(|r| r.write_stream_attributes, fixed("max_write_streams", "0")),
    limit("minimum_io_size"),
    queue("nomerges", |c, _| c.nomerges.to_string()),
    queue("nr_requests", |c, _| c.nr_requests().to_string()),
    fixed("nr_zones", "0"),
    limit("optimal_io_size"),
    limit("physical_block_size"),
    queue("read_ahead_kb", |c, r| (c.limits.read_ahead(r).get() / 1024).to_string()),
    limit("rotational"),
    fixed("rq_affinity", "1"),
    queue("scheduler", |c, r| schedulers(c.scheduler.name, r)),
    fixed("stable_writes", "0"),
    limit("virt_boundary_mask"),
    queue("wbt_lat_usec", |c, r| c.shown_wbt_target(r).as_micros().to_string()),
    queue("write_cache", |c, _| c.limits.write_cache_text().to_string()),
    fixed("write_same_max_bytes", "0"),
    if_kernel(|r| r.write_stream_attributes, fixed("write_stream_granularity", "0")),
    limit("write_zeroes_max_bytes"),
    if_kernel(|r| r.write_zeroes_unmap_attributes, fixed("write_zeroes_unmap_max_bytes", "0")),
    if_kernel(|r| r.write_zeroes_unmap_attributes, fixed("write_zeroes_unmap_max_hw_bytes", "0")),
    limit("zone_append_max_bytes"),
    limit("zone_write_granularity"),
    fixed("zoned", "none"),
];

/// Returns the content of the file `scheduler`: the scheduler in use is in brackets.
fn schedulers(current: &str, rules: &Rules) -> String {
    let in_brackets = |name: &str| alloc::format!("[{name}]");
    let mut names: Vec<String> = LISTED
        .iter()
        .map(|name| if *name == current { in_brackets(name) } else { (*name).to_string() })
        .collect();
    match (current, rules.none_listed_first) {
        ("none", _) => names.insert(0, in_brackets("none")),
        (_, true) => names.insert(0, "none".to_string()),
        (_, false) => names.push("none".to_string()),
    }
    names.join(" ")
}

impl StackConfig {
    /// Returns the attributes of the queue as the files of `/sys/block/X/queue/` show them under
    /// this kernel, in the order of their names. The limits must be valid.
    pub fn attributes(&self) -> Vec<(&'static str, String)> {
        let rules = self.rules();
        let content = |row: &Attribute| match row.content {
            Content::Limit => self.limits.read(row.name).expect("a row of the limits").to_string(),
            Content::Queue(content) => content(self, &rules),
            Content::Fixed(content) => content.to_string(),
        };
        ATTRIBUTES
            .iter()
            .filter(|row| (row.exists)(&rules))
            .map(|row| (row.name, content(row)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use crate::limits::QueueLimits;
    use crate::sched::SchedulerConfig;
    use crate::units::Sectors;

    #[test]
    fn names_are_in_order_and_every_limit_is_one() {
        assert!(ATTRIBUTES.is_sorted_by(|a, b| a.name < b.name));
        for kernel in Kernel::ALL {
            let mut config = StackConfig::new(QueueLimits::default(), Sectors::new(1 << 21), 1, 64);
            config.kernel = kernel;
            config.limits.validate(&kernel.rules()).expect("valid limits");
            let shown = config.attributes();
            assert!(shown.iter().all(|(_, text)| !text.is_empty()));
            let has = |name: &str| shown.iter().any(|(other, _)| *other == name);
            assert_eq!(has("async_depth"), kernel >= Kernel::V7_0);
            assert_eq!(has("atomic_write_max_bytes"), kernel >= Kernel::V6_12);
        }
    }

    #[test]
    fn the_scheduler_in_use_is_in_brackets() {
        let text = |kernel: Kernel, name| {
            schedulers(SchedulerConfig::parse(name).expect("one").name, &kernel.rules())
        };
        assert_eq!(text(Kernel::V6_1, "none"), "[none] mq-deadline bfq kyber");
        assert_eq!(text(Kernel::V6_1, "bfq"), "mq-deadline [bfq] kyber none");
        assert_eq!(text(Kernel::V7_3, "kyber"), "none mq-deadline bfq [kyber]");
    }
}
