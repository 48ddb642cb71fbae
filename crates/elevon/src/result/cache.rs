//! What a page cache counted, in the order to print.

use elevon_core::activity::{Activity, Origin};
use elevon_core::cache::replace::Stats;
use elevon_report::result::CacheResult;
use elevon_workload::cached::{Cached, Traffic};

use crate::memory::CachePlan;

pub(super) fn of(plan: &CachePlan, cached: &Cached) -> CacheResult {
    let cache = cached.cache();
    let (resident, stats) = (cache.resident(), cache.stats());
    let pages = resident.pages();
    let &Stats {
        inserted, refaulted, activated, restored, deactivated, promoted, kept, passed_on, generations, ..
    } = resident.stats();
    let &Traffic { bios, readahead_pages, read_pages, sync_pages, writeback_pages } = cached.traffic();
    let [none, rt, be, idle] = stats.woken_by;
    let mut groups = vec![
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
                ("evicted", resident.stats().evicted),
                ("kept", kept),
                ("passed_on", passed_on),
                ("generations", generations),
            ],
        ),
        group(
            "reclaim",
            &[
                ("kswapd_pages", stats.kswapd_reclaimed),
                ("direct_pages", stats.direct_reclaimed),
                ("direct_rounds", stats.direct_reclaims),
                ("out_of_memory", stats.out_of_memory),
            ],
        ),
        group("sleeps ended by", &[("none", none), ("rt", rt), ("be", be), ("idle", idle)]),
    ];
    if cache.promoter().activity() != Activity::Off {
        for origin in Origin::ALL {
            let counts = cache.promoter().counts(origin);
            groups.push(group(
                &format!("activity of {}", origin.name()),
                &[
                    ("bios", counts.bios),
                    ("promoted", counts.promoted),
                    ("raised", counts.raised),
                    ("demoted", counts.demoted),
                    ("promotion_denied", counts.promotion_denied),
                    ("bytes", counts.bytes),
                    ("active_bytes", counts.active_bytes),
                ],
            ));
        }
    }
    if plan.control(0).is_some() {
        groups.push(group("control", &[("promoted", cached.promoted())]));
    }
    let (memory, others) = plan.sizes();
    let (policy, activity) = plan.names();
    CacheResult { memory, others, policy: policy.to_owned(), activity: activity.to_owned(), groups }
}

fn group(name: &str, counts: &[(&str, u64)]) -> (String, Vec<(String, u64)>) {
    (name.to_owned(), counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect())
}
