//! One or several runs as one page of HTML that needs nothing else: no script, no font, no picture from anywhere.
//!
//! Readable on a phone, in light and in dark. A variant keeps its letter and colour in every part of the page.

mod cache;
mod over_time;
mod plots;
mod tenants;

use std::fmt::Write as _;

use crate::compare::{Row, Variant, cache_rows, device_rows, heads, letters, sections, total_rows};
use crate::cpu;
use crate::fairness;
use crate::number::{bytes_decimal, date, grouped, span};
use crate::plot::{self, escape};
use crate::result::RunResult;
use crate::settings;

/// The page. Variants are of the same job; the first is what the others are compared with.
pub fn page(title: &str, variants: &[Variant<'_>]) -> String {
    let mut body = String::new();
    header(&mut body, title, variants);
    if !variants.is_empty() {
        cards(&mut body, variants);
        figures(&mut body, variants);
        tables(&mut body, variants);
        for (letter, variant) in letters().zip(variants) {
            cache::section(&mut body, letter, variant.result);
        }
        for (letter, variant) in letters().zip(variants) {
            tenants::section(&mut body, letter, variant.result);
            over_time::section(&mut body, letter, variant.result);
        }
        for (letter, variant) in letters().zip(variants) {
            configuration(&mut body, letter, variant);
        }
    }
    shell(title, &body)
}

/// A page around a body, with the style of every page.
pub(crate) fn shell(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"generator\" content=\"elevon {}\"><title>{}</title>\n<style>\n{}{}</style></head>\n<body><main>\n\
         {body}</main></body></html>\n",
        env!("CARGO_PKG_VERSION"),
        escape(title),
        include_str!("html/page.css"),
        plot::CSS
    )
}

/// The distribution of latencies, one curve a variant.
pub fn latency_plot(variants: &[Variant<'_>]) -> plot::Plot {
    plots::latency(variants)
}

/// The sizes of requests given to the driver, one colour a variant.
pub fn request_sizes_plot(variants: &[Variant<'_>]) -> plot::Plot {
    plots::request_sizes(variants)
}

fn header(out: &mut String, title: &str, variants: &[Variant<'_>]) {
    let _ = writeln!(out, "<header><h1>{}</h1>", escape(title));
    if variants.iter().any(|v| v.result.device.simulated) {
        out.push_str("<p><span class=\"badge\">simulated device</span></p>");
    }
    if let Some(ended) = variants.iter().map(|v| v.result.unix_ms).max().filter(|&at| at > 0) {
        let _ = write!(out, "<p class=\"soft\">{} UTC</p>", date(ended));
    }
    out.push_str("<ul class=\"variants\">");
    for (at, (letter, variant)) in letters().zip(variants).enumerate() {
        let run = variant.result;
        let is_same = at > 0 && settings::are_the_same(variants[0].result, run);
        let _ = write!(
            out,
            "<li><span class=\"letter k{}\"><b>{letter}</b></span><div>{}<br><span class=\"soft\">{}</span></div></li>",
            at % 8,
            escape(variant.label),
            escape(&describe(run)) + if is_same { "; " } else { "" } + if is_same { settings::UNCHANGED } else { "" }
        );
    }
    out.push_str("</ul></header>\n");
}

fn describe(run: &RunResult) -> String {
    format!(
        "{} ({}), scheduler {}, kernel {} rules, seed {}, {} of {}",
        run.device.name,
        bytes_decimal(run.device.size.get() as f64),
        run.scheduler.name,
        run.kernel.name(),
        run.seed,
        span(run.elapsed.get() as f64),
        if run.device.simulated { "virtual time" } else { "real time" }
    )
}

/// The figures that a reader asks for first.
fn cards(out: &mut String, variants: &[Variant<'_>]) {
    out.push_str("<section><h2>At a glance</h2><div class=\"cards\">");
    let rows = total_rows(variants).into_iter().chain(device_rows(variants)).chain(cache_rows(variants));
    let wanted = [
        "IOPS",
        "bandwidth",
        "mean latency",
        "99% latency",
        "utilisation, exact",
        "mean in flight",
        "pages read: found",
        "touches: found",
        "read iowait, mean",
        "fault iowait, mean",
    ];
    for row in rows.filter(|row| wanted.contains(&row.name)) {
        let _ = write!(out, "<div class=\"card\"><h3>{}</h3><ul>", row.name);
        for (at, (value, ratio)) in row.cells().enumerate() {
            let dot = if variants.len() > 1 { format!("<i class=\"k{}\"></i>", at % 8) } else { String::new() };
            let ratio = ratio.map_or(String::new(), |ratio| format!("<small>×{ratio:.2}</small>"));
            let _ = write!(out, "<li>{dot}<span>{}</span>{ratio}</li>", typeset(&value));
        }
        out.push_str("</ul></div>");
    }
    out.push_str("</div></section>\n");
}

fn figures(out: &mut String, variants: &[Variant<'_>]) {
    out.push_str("<section><h2>Plots</h2><div class=\"plots\">\n");
    for (at, plot) in plots::all(variants).iter().enumerate() {
        out.push_str(&plot.figure(&format!("plot{at}")));
        out.push('\n');
    }
    out.push_str("</div></section>\n");
}

/// The settings that differ between the variants.
fn differing_settings(out: &mut String, variants: &[Variant<'_>]) {
    let heads: String = heads(variants).iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let _ = write!(
        out,
        "<div class=\"block scroll\"><table><caption>settings in force</caption><thead><tr><th scope=\"col\">setting</th>{heads}</tr></thead><tbody>"
    );
    for (key, values) in settings::differing(variants) {
        let cells: String = values.iter().map(|value| format!("<td>{}</td>", escape(value))).collect();
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escape(&key));
    }
    out.push_str("</tbody></table></div>\n");
}

fn tables(out: &mut String, variants: &[Variant<'_>]) {
    out.push_str("<section><h2>Figures</h2>\n");
    if variants.len() > 1 {
        differing_settings(out, variants);
    }
    for section in sections(variants) {
        let _ = write!(
            out,
            "<div class=\"block scroll\"><table><caption>{}</caption><thead><tr><th scope=\"col\">quantity</th>",
            escape(&section.title)
        );
        for (at, letter) in letters().take(variants.len()).enumerate() {
            let _ = write!(out, "<th scope=\"col\">{letter}</th>");
            out.push_str(&if at > 0 { format!("<th scope=\"col\">{letter}/A</th>") } else { String::new() });
        }
        out.push_str("</tr></thead><tbody>");
        section.rows.iter().for_each(|row| table_row(out, row));
        out.push_str("</tbody></table></div>\n");
    }
    for table in fairness::table::tables(variants, &heads(variants)) {
        let heads: String = table.header.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
        let _ = write!(
            out,
            "<div class=\"block scroll\"><table><caption>{}</caption><thead><tr><th scope=\"col\">job</th>{heads}</tr></thead><tbody>",
            table.title
        );
        for row in &table.rows {
            let cells: String = row[1..].iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escape(&row[0]));
        }
        out.push_str("</tbody></table></div>\n");
    }
    out.push_str("</section>\n");
}

fn table_row(out: &mut String, row: &Row) {
    let _ = write!(out, "<tr><th scope=\"row\">{}</th>", row.name);
    for (at, (value, ratio)) in row.cells().enumerate() {
        let _ = write!(out, "<td>{}</td>", typeset(&value));
        if at > 0 {
            let _ = write!(out, "<td>{}</td>", ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.3}")));
        }
    }
    out.push_str("</tr>");
}

/// A number with its unit set apart: `83.1us` becomes `83.1 µs`.
fn typeset(value: &str) -> String {
    let at = value.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(value.len());
    match value.split_at(at) {
        (number, "us") => format!("{number}\u{202f}µs"),
        ("", _) | (_, "" | "%" | " %") => escape(value),
        (number, unit) => format!("{number}\u{202f}{}", escape(unit)),
    }
}

/// How to get this variant again, and what it warned of.
fn configuration(out: &mut String, letter: char, variant: &Variant<'_>) {
    let run = variant.result;
    let _ = write!(
        out,
        "<section><h2>Run {letter}: configuration</h2><div class=\"block\"><p><code>{}</code></p>",
        escape(&run.command)
    );
    for note in cpu::limits(run) {
        let _ = write!(out, "<p><span class=\"badge\">note</span> {}</p>", escape(&note));
    }
    for warning in &run.warnings {
        let _ = write!(out, "<p><span class=\"badge\">warning</span> {}</p>", escape(warning));
    }
    for fault in &run.faults {
        let _ = write!(out, "<p>fault <code>{}</code> fired {} times</p>", escape(&fault.rule), grouped(fault.fired));
    }
    out.push_str("<details><summary>Every setting</summary><table class=\"rows\"><tbody>");
    for (key, value) in settings::all(run) {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape(&key), escape(&value));
    }
    out.push_str("</tbody></table></details></div></section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_small_page() {
        let run = sample::empty_run();
        insta::assert_snapshot!(page("empty.fio", &[Variant { label: "baseline", result: &run }]));
    }

    #[test]
    fn text_of_others_is_escaped_and_nothing_is_fetched() {
        let mut run = sample::mixed_run();
        run.command = "<script>alert(1)</script>".into();
        run.warnings.push("\"quoted\" & <b>".into());
        run.jobs[0].name = "<img title=x>".into();
        let other = sample::quicker_run();
        let html =
            page("<i>", &[Variant { label: "<a title=x>", result: &run }, Variant { label: "b", result: &other }]);
        for bad in ["<script", "<img", "<a ", "<i>c", "href=", "src=", "http:", "https:", "url(", "@import", "NaN"] {
            assert!(!html.contains(bad), "{bad}");
        }
        assert_eq!(html.matches("<figure").count(), 6);
        assert_eq!(html.matches("<figure").count(), html.matches("</figure>").count());
    }

    #[test]
    fn a_page_cache_has_a_section_of_its_own() {
        let run = sample::cached_run();
        let one = page("cached.fio", &[Variant { label: "cached.fio", result: &run }]);
        let from = one.find("<h2>Run A: page cache").expect("a section");
        let to = from + one[from..].find("</section>").expect("its end");
        insta::assert_snapshot!(&one[from..to]);
        assert!(!one.contains("Page cache: found"), "one run has nothing to compare");
        let other = Variant { label: "again", result: &run };
        let two = page("compared", &[other, other, Variant { label: "none", result: &sample::mixed_run() }]);
        for needed in ["Page cache: found", "<h2>Run A: page cache", "<h2>Run B: page cache", "fault iowait, ms/s"] {
            assert!(two.contains(needed), "{needed}");
        }
        assert!(!two.contains("<h2>Run C: page cache") && !two.contains("NaN"));
        let ids: Vec<&str> = two.split("<title id=\"").skip(1).map(|at| at.split('"').next().unwrap()).collect();
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), distinct.len(), "an id is there twice: {ids:?}");
    }

    #[test]
    fn no_variant_is_an_empty_page() {
        assert!(page("nothing", &[]).ends_with("</html>\n"));
    }
}
