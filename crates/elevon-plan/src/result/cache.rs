//! Counters of a page cache, in the order of printing.

use elevon_cache::ReplacementStats;
use elevon_cache::activity::{Activity, Origin};
use elevon_cache::page_cache::Cause;
use elevon_core::units::{Instant, PAGE_SIZE};
use elevon_result::result::{CacheResult, CacheSeries, CacheSource};
use elevon_workload::buffered::{BufferedIo, CacheIoStats, IoStatsBySource};

use crate::memory::CachePlan;

pub(super) fn of(plan: &CachePlan, cached: &BufferedIo) -> CacheResult {
    let (memory, others) = plan.sizes();
    let (policy, activity) = plan.names();
    let is_judged = cached.cache().promoter().activity() != Activity::Off;
    let sources = Origin::ALL.into_iter().map(|origin| source(cached, origin, is_judged));
    CacheResult {
        memory,
        others,
        policy: policy.to_owned(),
        activity: activity.to_owned(),
        window: cached.wait_window(),
        sources: sources.filter(|source| source.bios > 0).collect(),
        vmstat: vmstat(cached),
        groups: groups(cached),
        series: series(cached),
    }
}

fn source(cached: &BufferedIo, origin: Origin, is_judged: bool) -> CacheSource {
    let IoStatsBySource { bios, bytes, rt, controlled } =
        cached.io_stats().sources[origin as usize];
    let counts = cached.cache().promoter().counts(origin);
    CacheSource {
        name: origin.name().to_owned(),
        bios,
        bytes,
        active_bytes: is_judged.then_some(counts.active_bytes),
        rt,
        promoted: counts.promoted + controlled,
        raised: counts.raised,
        demoted: counts.demoted,
        denied: counts.promotion_denied,
    }
}

/// Returns the kernel's counters that have an equivalent here. Units are pages, except for `pgpgin`
/// and `pgpgout` (KiB).
fn vmstat(cached: &BufferedIo) -> Vec<(String, u64)> {
    let cache = cached.cache();
    let (resident, stats, traffic) = (cache.resident(), cache.stats(), cached.io_stats());
    let (pages, policy) = (resident.pages(), resident.stats());
    let limits = cache.reading();
    let faults = stats.waits(Cause::Fault);
    let kib = |pages: u64| pages * PAGE_SIZE / 1024;
    let counts = [
        ("nr_free_pages", resident.free()),
        ("nr_file_pages", pages.used()),
        ("nr_mapped", pages.mapped()),
        ("nr_dirty", pages.dirty()),
        ("nr_writeback", pages.writeback()),
        ("nr_dirtied", stats.dirtied),
        ("nr_written", stats.written),
        ("nr_dirty_threshold", limits.dirty_limit),
        ("nr_dirty_background_threshold", limits.dirty_background),
        ("pgpgin", kib(traffic.readahead_pages + traffic.read_pages)),
        ("pgpgout", kib(traffic.sync_pages + traffic.writeback_pages)),
        ("pgfault", faults.count),
        ("pgmajfault", faults.major),
        ("pgactivate", policy.activated),
        ("pgdeactivate", policy.deactivated),
        ("pgrotated", policy.rotated),
        ("pgscan_kswapd", stats.kswapd_scanned),
        ("pgscan_direct", stats.direct_scanned),
        ("pgsteal_kswapd", stats.kswapd_reclaimed),
        ("pgsteal_direct", stats.direct_reclaimed),
        ("allocstall", stats.direct_reclaims),
        ("nr_vmscan_write", stats.kswapd_written),
        ("pswpout", policy.swapped),
        ("oom_kill", stats.oom_kills),
        ("workingset_refault_file", policy.refaulted),
        ("workingset_restore_file", policy.restored),
    ];
    counts.map(|(name, count)| (name.to_owned(), count)).to_vec()
}

fn groups(cached: &BufferedIo) -> Vec<(String, Vec<(String, u64)>)> {
    let cache = cached.cache();
    let (resident, stats) = (cache.resident(), cache.stats());
    let pages = resident.pages();
    let &ReplacementStats {
        inserted,
        evicted,
        refaulted,
        activated,
        restored,
        deactivated,
        promoted,
        kept,
        passed_on,
        generations,
        ..
    } = resident.stats();
    let &CacheIoStats { bios, readahead_pages, read_pages, sync_pages, writeback_pages, .. } =
        cached.io_stats();
    vec![
        group(
            "pages",
            &[
                ("hits", stats.hits),
                ("misses", stats.misses),
                ("touches", stats.touches),
                ("mapped_around", stats.mapped_around),
                ("dirtied", stats.dirtied),
                ("cached_at_end", pages.used()),
                ("dirty_at_end", pages.dirty()),
                ("state_bytes_at_end", resident.state_bytes()),
                ("out_of_memory", stats.out_of_memory),
            ],
        ),
        group(
            "device",
            &[
                ("bios", bios),
                ("readahead_pages", readahead_pages),
                ("read_pages", read_pages),
                ("sync_pages", sync_pages),
                ("writeback_pages", writeback_pages),
            ],
        ),
        group(
            "replacement",
            &[
                ("inserted", inserted),
                ("refaulted", refaulted),
                ("activated", activated),
                ("restored", restored),
                ("promoted", promoted),
                ("deactivated", deactivated),
                ("evicted", evicted),
                ("kept", kept),
                ("passed_on", passed_on),
                ("generations", generations),
            ],
        ),
    ]
}

fn series(cached: &BufferedIo) -> CacheSeries {
    let series = cached.series();
    let readings =
        series.readings().map(|(at, reading)| (Instant::new(at.get()), reading[0])).collect();
    CacheSeries { interval: series.interval(), readings }
}

fn group(name: &str, counts: &[(&str, u64)]) -> (String, Vec<(String, u64)>) {
    (name.to_owned(), counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect())
}
