//! One or several runs as one self-contained HTML page, without scripts, external fonts or images.
//!
//! The page is readable on a phone, in light and dark mode. A variant has the same letter and
//! colour in every part of the page.
//!
//! Pages are `maud` templates, which escape every value. `text` escapes a few more characters.

mod cache;
mod over_time;
mod plots;
mod tenants;

use elevon_result::number::{bytes_decimal, counted, date, span};
use elevon_result::result::RunResult;
use maud::{Markup, PreEscaped, html};

use crate::compare::{CompareRow, RulesBetween, cache_rows, device_rows, sections, total_rows};
use crate::cpu;
use crate::fairness;
use crate::markup::text;
use crate::plot;
use crate::settings;
use crate::slices;
use crate::variant::{Variant, heads, letters};

/// Renders the page. All variants run the same job; the others are compared with the first. `rules`
/// are the rules of kernels that make the difference.
pub fn page(title: &str, variants: &[Variant<'_>], rules: &[RulesBetween]) -> String {
    let body = html! {
        (header(title, variants))
        @if !variants.is_empty() {
            (cards(variants))
            (figures(variants))
            (tables(variants))
            @for between in rules { (rules_section(between)) }
            @for (letter, variant) in letters().zip(variants) {
                (cache::section(letter, variant.result))
            }
            @for (letter, variant) in letters().zip(variants) {
                (tenants::section(letter, variant.result))
                (over_time::section(letter, variant.result))
            }
            @for (letter, variant) in letters().zip(variants) {
                (configuration(letter, variant))
            }
        }
    };
    shell(title, &body)
}

fn rules_section(between: &RulesBetween) -> Markup {
    let ([a, b], [from, to]) = (between.letters, between.kernels);
    let title = format!("Rules between {a} ({from}) and {b} ({to})");
    let none = |rules: &Vec<_>| rules.is_empty();
    html! {
        section {
            h2 { (text(&title)) }
            "\n"
            @match &between.rules {
                None => { p { (between.differ) " differ; the run has too many I/Os (" (between.ios) ") to try them one by one." } }
                Some(rules) if none(rules) => { p { "None of the " (between.differ) " that differ changes a figure alone." } }
                Some(rules) => {
                    p { "Each switched alone in " (a) "; the " (between.differ - rules.len()) " others that differ change no figure." }
                    div class="scroll" { table class="rows" {
                        thead { tr { th { "rule" } th { "area" } th { "in " (to) } th { "figures" } } }
                        "\n"
                        tbody {
                            @for rule in rules {
                                tr {
                                    td { (text(rule.name)) } td { (text(rule.area)) } td { (text(rule.says)) }
                                    td {
                                        @match &rule.figures {
                                            None => "cannot be had alone with this device and these settings",
                                            Some(figures) => @for figure in figures { (text(&figure.text)) br; }
                                        }
                                    }
                                }
                                "\n"
                            }
                        }
                    } }
                }
            }
        }
        "\n"
    }
}

/// Returns a complete report with the given content.
pub(crate) fn shell(title: &str, content: &Markup) -> String {
    whole_page(title, plot::CSS, &html! { main { "\n" (content) } })
}

/// Returns a complete page with the style sheet of every page, and another.
pub(crate) fn whole_page(title: &str, css: &str, body: &Markup) -> String {
    let page = html! {
        (PreEscaped("<!doctype html>\n"))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="generator" content={ "elevon " (env!("CARGO_PKG_VERSION")) };
                title { (text(title)) }
                "\n"
                style { "\n" (PreEscaped(include_str!("html/page.css"))) (PreEscaped(css)) }
            }
            "\n"
            body { (body) }
        }
        "\n"
    };
    page.into_string()
}

/// Returns the plot of the latency distribution, one curve per variant.
pub fn latency_plot(variants: &[Variant<'_>]) -> plot::Plot {
    plots::latency(variants)
}

/// Returns the plot of the sizes of requests issued to the driver, one colour per variant.
pub fn request_sizes_plot(variants: &[Variant<'_>]) -> plot::Plot {
    plots::request_sizes(variants)
}

fn header(title: &str, variants: &[Variant<'_>]) -> Markup {
    let ended = variants.iter().map(|v| v.result.unix_ms).max().filter(|&at| at > 0);
    html! {
        header {
            h1 { (text(title)) }
            "\n"
            @if variants.iter().any(|v| v.result.device.simulated) {
                p { span class="badge" { "simulated device" } }
            }
            @if let Some(ended) = ended {
                p class="soft" { (date(ended)) " UTC" }
            }
            ul class="variants" {
                @for (at, (letter, variant)) in letters().zip(variants).enumerate() {
                    li {
                        span class={ "letter k" (at % 8) } { b { (letter) } }
                        div {
                            (text(variant.label))
                            br;
                            span class="soft" {
                                (text(&describe(variant.result)))
                                @if at > 0 && settings::are_the_same(variants[0].result, variant.result) {
                                    "; " (PreEscaped(settings::UNCHANGED))
                                }
                            }
                        }
                    }
                }
            }
        }
        "\n"
    }
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

/// Returns the most important figures as cards.
fn cards(variants: &[Variant<'_>]) -> Markup {
    let rows =
        total_rows(variants).into_iter().chain(device_rows(variants)).chain(cache_rows(variants));
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
    html! {
        section {
            h2 { "At a glance" }
            div class="cards" {
                @for row in rows.filter(|row| wanted.contains(&row.name)) {
                    div class="card" {
                        h3 { (row.name) }
                        ul {
                            @for (at, (value, ratio)) in row.cells().enumerate() {
                                li {
                                    @if variants.len() > 1 { i class={ "k" (at % 8) } {} }
                                    span { (typeset(&value)) }
                                    @if let Some(ratio) = ratio { small { (format!("×{ratio:.2}")) } }
                                }
                            }
                        }
                    }
                }
            }
        }
        "\n"
    }
}

fn figures(variants: &[Variant<'_>]) -> Markup {
    html! {
        section {
            h2 { "Plots" }
            div class="plots" {
                "\n"
                @for (at, plot) in plots::all(variants).iter().enumerate() {
                    (plot.figure(&format!("plot{at}"))) "\n"
                }
            }
        }
        "\n"
    }
}

/// Returns a table in a scrollable block. The first head and the first cell of each row are
/// headings.
pub(crate) fn table(caption: Option<&str>, heads: &[String], body: &Markup) -> Markup {
    html! {
        div class="block scroll" {
            table {
                @if let Some(caption) = caption { caption { (text(caption)) } }
                thead { tr { @for head in heads { th scope="col" { (text(head)) } } } }
                tbody { (body) }
            }
        }
        "\n"
    }
}

/// Returns a table row: a name and the cells as text.
pub(crate) fn plain_row<'a>(name: &str, cells: impl IntoIterator<Item = &'a String>) -> Markup {
    html! {
        tr {
            th scope="row" { (text(name)) }
            @for cell in cells { td { (text(cell)) } }
        }
    }
}

fn named_first(name: &str, others: Vec<String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(others).collect()
}

/// Returns the settings that differ between the variants.
fn differing_settings(variants: &[Variant<'_>]) -> Markup {
    let rows = html! {
        @for (key, values) in settings::differing(variants) { (plain_row(&key, &values)) }
    };
    table(Some("settings in force"), &named_first("setting", heads(variants)), &rows)
}

fn tables(variants: &[Variant<'_>]) -> Markup {
    let with_ratios = |(at, letter): (usize, char)| {
        let ratio = (at > 0).then(|| format!("{letter}/A"));
        std::iter::once(letter.to_string()).chain(ratio)
    };
    let letters: Vec<String> =
        letters().take(variants.len()).enumerate().flat_map(with_ratios).collect();
    html! {
        section {
            h2 { "Figures" }
            "\n"
            @if variants.len() > 1 { (differing_settings(variants)) }
            @for section in sections(variants) {
                @let rows = html! { @for row in &section.rows { (table_row(row)) } };
                (table(Some(&section.title()), &named_first("quantity", letters.clone()), &rows))
            }
            @for shares in fairness::table::tables(variants, &heads(variants)) {
                @let rows = html! { @for row in &shares.rows { (plain_row(&row[0], &row[1..])) } };
                (table(Some(shares.title), &named_first("job", shares.header), &rows))
            }
            @for variant in variants.iter().filter(|of| !of.result.slices.is_empty()) {
                @let of_job = |slice| slices::row(variant.result, slice);
                @let rows = html! {
                    @for cells in variant.result.slices.iter().map(of_job) {
                        (plain_row(&cells[0], &cells[1..]))
                    }
                };
                @let heads = slices::HEADS.map(str::to_owned).to_vec();
                (table(Some("slice of the device"), &named_first("job", heads), &rows))
                @for line in slices::reasons(variant.result) { p { (text(&line)) } }
            }
        }
        "\n"
    }
}

fn table_row(row: &CompareRow) -> Markup {
    html! {
        tr {
            th scope="row" { (row.name) }
            @for (at, (value, ratio)) in row.cells().enumerate() {
                td { (typeset(&value)) }
                @if at > 0 {
                    td { (ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.3}"))) }
                }
            }
        }
    }
}

/// Separates a number from its unit: `83.1us` becomes `83.1 µs`.
fn set_apart(value: &str) -> String {
    let at =
        value.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(value.len());
    match value.split_at(at) {
        (number, "us") => format!("{number}\u{202f}µs"),
        ("", _) | (_, "" | "%" | " %") => value.to_owned(),
        (number, unit) => format!("{number}\u{202f}{unit}"),
    }
}

/// Returns the result of [`set_apart`] escaped for a page.
fn typeset(value: &str) -> Markup {
    text(&set_apart(value))
}

/// Returns the configuration of a variant: the command that reproduces it, and its warnings.
fn configuration(letter: char, variant: &Variant<'_>) -> Markup {
    let run = variant.result;
    html! {
        section {
            h2 { "Run " (letter) ": configuration" }
            div class="block" {
                p { code { (text(&run.command)) } }
                @for note in cpu::limits(run).iter().chain(&run.scheduler.note) {
                    p { span class="badge" { "note" } " " (text(note)) }
                }
                @for line in &run.not_kept {
                    p { span class="badge" { "not kept of the trace" } " " (text(&line.to_string())) }
                }
                @for warning in &run.warnings {
                    p { span class="badge" { "warning" } " " (text(warning)) }
                }
                @if !run.device.lacks.is_empty() {
                    p { "The model lacks " (text(&run.device.lacks)) "." }
                }
                @for estimate in &run.device.estimates {
                    p { "Follows estimates: " (estimate.named()) ": " code { (estimate.parameters.join(", ")) } }
                }
                @for fault in &run.faults {
                    p { "fault " code { (text(&fault.rule)) } " fired " (counted(fault.fired, "time")) }
                }
                details {
                    summary { "Every setting" }
                    table class="rows" {
                        tbody {
                            @for (key, value) in settings::all(run) { (plain_row(&key, [&value])) }
                        }
                    }
                }
            }
        }
        "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_small_page() {
        let run = sample::empty_run();
        insta::assert_snapshot!(page(
            "empty.fio",
            &[Variant { label: "baseline", result: &run }],
            &[]
        ));
    }

    #[test]
    fn text_of_others_is_escaped_and_nothing_is_fetched() {
        let mut run = sample::mixed_run();
        run.command = "<script>alert(1)</script>".into();
        run.warnings.push("\"quoted\" & <b>".into());
        run.jobs[0].name = "<img title=x>".into();
        let other = sample::quicker_run();
        let variants = [
            Variant { label: "<a title=x>", result: &run },
            Variant { label: "b", result: &other },
        ];
        let html = page("<i>", &variants, &[]);
        for bad in [
            "<script", "<img", "<a ", "<i>c", "href=", "src=", "http:", "https:", "url(",
            "@import", "NaN",
        ] {
            assert!(!html.contains(bad), "{bad}");
        }
        assert_eq!(html.matches("<figure").count(), 6);
        assert_eq!(html.matches("<figure").count(), html.matches("</figure>").count());
    }

    #[test]
    fn a_page_cache_has_a_section_of_its_own() {
        let run = sample::cached_run();
        let one = page("cached.fio", &[Variant { label: "cached.fio", result: &run }], &[]);
        let from = one.find("<h2>Run A: page cache").expect("a section");
        let to = from + one[from..].find("</section>").expect("its end");
        insta::assert_snapshot!(&one[from..to]);
        assert!(!one.contains("Page cache: found"), "one run has nothing to compare");
        let other = Variant { label: "again", result: &run };
        let two = page(
            "compared",
            &[other, other, Variant { label: "none", result: &sample::mixed_run() }],
            &[],
        );
        for needed in [
            "Page cache: found",
            "<h2>Run A: page cache",
            "<h2>Run B: page cache",
            "fault iowait, ms/s",
        ] {
            assert!(two.contains(needed), "{needed}");
        }
        assert!(!two.contains("<h2>Run C: page cache") && !two.contains("NaN"));
        let ids: Vec<&str> =
            two.split("<title id=\"").skip(1).map(|at| at.split('"').next().unwrap()).collect();
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), distinct.len(), "an id is there twice: {ids:?}");
    }

    #[test]
    fn no_variant_is_an_empty_page() {
        assert!(page("nothing", &[], &[]).ends_with("</html>\n"));
    }
}
