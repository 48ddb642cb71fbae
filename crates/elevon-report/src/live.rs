//! Pages of what runs. That of a server asks for `/api/stats` once a second, and draws what
//! changed. That of a watch asks for `/api/now`.

use maud::{Markup, PreEscaped, html};

use crate::html;
use crate::plot::colours;

/// Returns the page. It needs nothing from elsewhere, and shows what the server of its own address
/// tells.
pub fn page() -> String {
    let figures = [
        ("iops", "I/Os a second"),
        ("bandwidth", "Throughput"),
        ("utilisation", "Utilisation, time with I/O in flight"),
        ("depth", "Queue depth, mean"),
        ("waiting", "Requests of clients, not answered"),
        ("connections", "Connections"),
    ];
    let body = html! {
        main {
            h1 { "Elevon" }
            p { label { "Device " select id="device" {} } " " span.badge id="failure" hidden {} }
            p.soft id="state" { "waiting for the first second" }
            (cards(&figures))
            h2 { "The last minutes" }
            (plots("I/Os of each second by latency, from their release by limits."))
            (page_cache())
            h2 { "Tenants, over the last second" }
            (table("tenants", &TENANT_HEADS))
            p.soft { "A tenant has the I/O of those below it, too. A click on one shows its latency above, and another click that of all." }
            h2 { "Exports" }
            (table("exports", &["export", "tenant", "bytes", "connections", "state"]))
        }
        (scripts(include_str!("live/page.js")))
    };
    html::whole_page("Elevon", include_str!("live/page.css"), &body)
}

/// Returns the page of `elevon watch --listen`.
pub fn watch_page() -> String {
    let figures = [
        ("iops", "Requests a second"),
        ("bandwidth", "Throughput"),
        ("utilisation", "Busy, time with a request in the device"),
        ("kernel-util", "The kernel's %util"),
        ("depth", "Requests in the device, mean"),
        ("waits", "Waiting, p50 / p99"),
        ("in-device", "In the device, p50 / p99"),
        ("scheduler", "Scheduler"),
    ];
    let heads = [
        "process",
        "reads/s",
        "writes/s",
        "read/s",
        "write/s",
        "waits p50 / p99",
        "device p50 / p99",
        "depth",
        "prio",
        "in",
    ];
    let body = html! {
        main {
            h1 { "Elevon watch" }
            p {
                label { "Disk " select id="device" {} } " "
                label { "Rows " select id="by" {
                    option value="process" { "by process" }
                    option value="unit" { "by service, container or pod" }
                } } " "
                span.badge id="failure" hidden {}
            }
            p.soft id="state" { "waiting for the first second" }
            (cards(&figures))
            h2 { "Problems" }
            div id="findings" {}
            h2 { "The last minutes" }
            (plots("Requests of each second by the time from queue to completion."))
            h2 { "Processes, over the last second" }
            (table("rows", &heads))
        }
        (scripts(include_str!("live/watch.js")))
    };
    html::whole_page("Elevon watch", include_str!("live/page.css"), &body)
}

/// Returns the scripts of a page: what they share, and its own.
fn scripts(own: &str) -> Markup {
    html! {
        script { (PreEscaped(colours::script())) }
        script { (PreEscaped(include_str!("live/draw.js"))) }
        script { (PreEscaped(own)) }
    }
}

/// Returns the plots of a device over time. `heat` says what the heat map counts.
fn plots(heat: &str) -> Markup {
    let heat = format!("{heat} The colour is their number, logarithmic.");
    let plots = [
        ("throughput", "Throughput", "Bytes a second: reads, and writes on top of them."),
        (
            "busy",
            "Queue depth and utilisation",
            "Requests in flight, mean of a second; below, the time with any in flight.",
        ),
        ("heat", "Latency", &*heat),
    ];
    html! {
        div.plots {
            @for (id, name, note) in plots { (plot(id, name, note)) }
        }
    }
}

const TENANT_HEADS: [&str; 9] =
    ["tenant", "IOPS", "read/s", "written/s", "in flight", "p50", "p99", HITS, HELD];
/// The head of the column that only a device with a page cache has.
const HITS: &str = "reads found in the cache";
/// The head of the column that has words.
const HELD: &str = "what held it";

/// Returns the part that only a device with a page cache has.
fn page_cache() -> Markup {
    let figures = [
        ("cached", "Cached"),
        ("dirty", "Dirty"),
        ("writing", "Being written"),
        ("written", "Written back"),
        ("hits", "Of what was read, found in it"),
    ];
    let note = "Bytes that are being written, and on top of them dirty ones; below, the part of what was read that was there.";
    html! {
        section id="page-cache" {
            h2 { "Page cache " small.soft id="cache-mode" {} " " span.badge id="cache-lost" hidden {} }
            (cards(&figures))
            div.plots { (plot("cache", "Dirty pages and hits", note)) }
        }
    }
}

/// Returns a card for each figure, which the script fills.
fn cards(figures: &[(&str, &str)]) -> Markup {
    html! {
        div.cards {
            @for (id, name) in figures {
                div.card { h3 { (name) } ul { li { span id=(id) { "-" } } } }
            }
        }
    }
}

/// Returns a figure that the script draws.
fn plot(id: &str, name: &str, note: &str) -> Markup {
    html! {
        figure.plot {
            figcaption { h3 { (name) " " small.soft id={ (id) "-of" } {} } p { (note) } }
            canvas id=(id) {}
        }
    }
}

/// Returns a table whose body the script fills.
fn table(id: &str, heads: &[&str]) -> Markup {
    html! {
        div.block.scroll {
            table {
                thead { tr { @for head in heads { th.words[*head == HELD].of-cache[*head == HITS] { (head) } } } }
                tbody id=(id) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_pages_need_nothing_from_elsewhere() {
        let pages = super::page() + &super::watch_page();
        for outside in ["http://", "https://", "src=", "href=", "@import", "url("] {
            assert!(!pages.contains(outside), "{outside}");
        }
    }
}
