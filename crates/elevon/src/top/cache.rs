//! What the page cache of a device, and a tenant in it, did between two answers to `stats`.

use std::fmt::Write as _;

use elevon_result::number;
use serde_json::Value;

use super::rates::since;

/// The page cache of a device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CacheRates {
    /// When a write has finished: `write-back` or `write-through`.
    mode: String,
    /// Bytes for cached data and what is kept free; those that are cached, and those that have to
    /// be written, or are being written.
    memory: f64,
    cached: f64,
    dirty: f64,
    /// Bytes a second that reads asked for.
    read: f64,
    /// The share of them that was there, from 0 to 1.
    hits: Option<f64>,
    /// Bytes a second that were written back.
    written: f64,
    /// The error after which no flush succeeds.
    lost: Option<String>,
}

impl CacheRates {
    /// `None` of a device without a page cache. `before` and `now` are two answers about it.
    pub(super) fn between(before: &Value, now: &Value, seconds: f64) -> Option<Self> {
        let mode = now["mode"].as_str()?.to_owned();
        let of = |key: &str| now[key].as_f64().unwrap_or_default();
        let (hit, missed) = (since(before, now, "/hit_bytes"), since(before, now, "/missed_bytes"));
        Some(Self {
            mode,
            memory: of("bytes"),
            cached: of("cached_bytes"),
            dirty: of("dirty_bytes") + of("writeback_bytes"),
            read: (hit + missed) / seconds,
            hits: share(hit, missed),
            written: since(before, now, "/written_bytes") / seconds,
            lost: now["lost"].as_str().map(str::to_owned),
        })
    }

    /// Returns what it does as a line.
    pub(super) fn line(&self) -> String {
        let bytes = number::bytes_decimal;
        let mut line = format!(
            "page cache, {}: {} of {}, {} dirty, {}/s written back",
            self.mode,
            bytes(self.cached),
            bytes(self.memory),
            bytes(self.dirty),
            bytes(self.written)
        );
        if let Some(hits) = self.hits {
            let _ =
                write!(line, ", {:.1} % of {}/s read was there", hits * 100.0, bytes(self.read));
        }
        if let Some(words) = &self.lost {
            let _ = write!(line, "; a write-back or a flush failed ({words}): no flush succeeds");
        }
        line
    }
}

/// What a tenant, with those below it, found in the page cache.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CacheUse {
    /// The share of its reads that found everything there, from 0 to 1.
    hits: Option<f64>,
    /// The mean number of its I/Os that were held because of its dirty pages, and for lack of
    /// memory.
    pub(super) paused: f64,
    starved: f64,
}

impl CacheUse {
    /// `None` of a device without a page cache.
    pub(super) fn between(before: &Value, now: &Value, seconds: f64) -> Option<Self> {
        now.as_object()?;
        let (reads, hits) = (since(before, now, "/reads"), since(before, now, "/hits"));
        let held = |path: &str| since(before, now, path) / 1e9 / seconds;
        let (paused, starved) = (held("/paused_ns"), held("/starved_ns"));
        Some(Self { hits: share(hits, reads - hits), paused, starved })
    }

    /// Returns what holds its I/O before the device, with how many I/Os that is at a time.
    pub(super) fn held(&self) -> Vec<String> {
        let all =
            [(self.paused, "held by its dirty pages"), (self.starved, "held until memory is free")];
        let some = all.into_iter().filter(|(held, _)| *held > 0.0);
        some.map(|(held, words)| format!("{} {words}", number::significant(held, 3))).collect()
    }

    /// Returns what it found there, as a line of the screen.
    #[cfg(feature = "terminal")]
    pub(super) fn line(&self) -> Option<String> {
        let mut words = self.held();
        if let Some(hits) = self.hits {
            words.insert(0, format!("{:.1} % of its reads were there", hits * 100.0));
        }
        (!words.is_empty()).then(|| format!("page cache: {}", words.join(", ")))
    }
}

/// Returns the part that `of` has of both; `None` if both are nothing.
fn share(of: f64, other: f64) -> Option<f64> {
    let all = of + other;
    (all > 0.0).then(|| of / all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_what_is_there_and_what_happened() {
        let of = |hit: u64, missed: u64, written: u64| {
            json!({ "mode": "write-back", "bytes": 64 << 20, "hit_bytes": hit, "missed_bytes": missed,
                "cached_bytes": 8_000_000, "dirty_bytes": 4_000_000, "writeback_bytes": 4096, "written_bytes": written, "lost": null })
        };
        let (before, now) = (of(1 << 20, 1 << 20, 0), of(7 << 20, 3 << 20, 2_000_000));
        let line = CacheRates::between(&before, &now, 2.0).expect("a cache").line();
        let wanted = "page cache, write-back: 8000kB of 67.1MB, 4004kB dirty, 1000kB/s written back, 75.0 % of 4194kB/s read was there";
        assert_eq!(line, wanted);
        let mut lost = before.clone();
        lost["lost"] = json!("I/O");
        let line = CacheRates::between(&before, &lost, 2.0).expect("a cache").line();
        assert!(
            line.ends_with(
                "0B/s written back; a write-back or a flush failed (I/O): no flush succeeds"
            ),
            "{line}"
        );
        assert_eq!(CacheRates::between(&Value::Null, &Value::Null, 1.0), None);
    }

    #[test]
    fn a_tenant_that_is_slowed_by_its_dirty_pages_is_named_so() {
        let of = |reads: u64, hits: u64, paused: u64| json!({ "reads": reads, "hits": hits, "paused_ns": paused, "starved_ns": 0 });
        let used =
            CacheUse::between(&of(10, 0, 500), &of(20, 8, 3_000_000_500), 2.0).expect("a cache");
        assert_eq!(
            used.line().as_deref(),
            Some("page cache: 80.0 % of its reads were there, 1.50 held by its dirty pages")
        );
        let nothing = CacheUse::between(&of(20, 8, 0), &of(20, 8, 0), 2.0).expect("a cache");
        assert_eq!((nothing.held(), nothing.line()), (Vec::new(), None));
        assert_eq!(CacheUse::between(&Value::Null, &Value::Null, 2.0), None);
    }
}
