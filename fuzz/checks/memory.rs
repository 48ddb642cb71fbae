//! Properties that must hold for any text of `--memory` or `--cache`, followed by lines of `--set`.
//! A module of elevon-plan has this check.

use elevon_cache::page_cache::PageCache;
use elevon_core::kernel::Kernel;
use elevon_core::limits::QueueLimits;
use elevon_core::stack::StackConfig;
use elevon_core::units::Sectors;
use elevon_workload::buffered::CacheCost;

use crate::memory::{CachePlan, Memory};

/// Checks that the text gives an error of one line that names the option, or a plan of a valid page
/// cache; the settings listed for the plan give the same plan.
pub(crate) fn memory(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let memory = match first.split_once(' ') {
        Some(("memory", text)) => Memory::Simulated(text),
        Some(("cache", text)) => Memory::Real(text),
        _ => Memory::None,
    };
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let settings: Vec<_> =
        rest.split('\n').filter_map(|line| line.split_once('=')).map(owned).collect();
    let plan = |memory, settings: &[_]| {
        CachePlan::new(memory, Kernel::V6_18, settings, CacheCost::default())
    };
    match plan(memory, &settings) {
        Err(failure) => {
            let said = failure.to_string();
            assert!(
                failure.code() == 2 && said.starts_with("elevon: --") && said.lines().count() == 1,
                "{said}"
            );
        }
        Ok(None) => assert_eq!(memory, Memory::None),
        Ok(Some(planned)) => {
            let (all, others) = planned.sizes();
            let least = if let Memory::Real(_) = memory { 64 << 10 } else { 4 << 20 };
            assert!(all.get() - others.get() >= least, "{first}");
            let rows = planned.rows();
            if let Memory::Simulated(_) = memory {
                let value = |key| rows.iter().find(|row| row.0 == key).expect("listed").1.as_str();
                let is_part = |row: &&(&str, String)| {
                    ["others", "idle", "zram"].contains(&row.0) && row.1 != "0KiB"
                };
                let parts: Vec<_> = rows
                    .iter()
                    .filter(is_part)
                    .map(|(key, value)| format!(",{key}={value}"))
                    .collect();
                let memory = format!("{}{}", value("memory"), parts.concat());
                let settings: Vec<_> =
                    rows[2..].iter().map(|(key, value)| owned((key, value))).collect();
                let Ok(Some(again)) = plan(Memory::Simulated(&memory), &settings) else {
                    panic!("{memory} {settings:?}")
                };
                assert_eq!(again.rows(), rows);
            }
            if all.get() <= 64 << 20 {
                let stack = StackConfig::new(QueueLimits::default(), Sectors::new(1 << 21), 1, 64);
                PageCache::new(planned.config(&stack)).self_check();
            }
        }
    }
}
