//! Fairness of one or several runs side by side, as rows for text and HTML.

use elevon_result::number::percent;
use elevon_result::summary::ratio;

use super::{Fairness, Part, Share, claim_words, fairness};
use crate::text::{align_right, plain_table, push_table};
use crate::variant::Variant;

/// Shares of one resource.
pub(crate) struct FairnessTable {
    /// The resource.
    pub(crate) title: &'static str,
    /// Column heads.
    pub(crate) header: Vec<String>,
    /// Cells: job, weight, share by weight, then for each run the share got and got divided by the
    /// share due, which is shown itself if there is one run. The last row is the index.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Returns the tables of bandwidth and, if every run knows it, of device time; none if the jobs
/// have no weights. `letters` are the heads of the runs' columns. The jobs are those of the first
/// run.
pub(crate) fn tables(variants: &[Variant<'_>], letters: &[String]) -> Vec<FairnessTable> {
    let all: Vec<Option<Fairness>> = variants.iter().map(|v| fairness(v.result)).collect();
    let Some(Some(first)) = all.first() else { return Vec::new() };
    let bandwidth = Resource {
        title: "share of bandwidth",
        part: |s| Some(s.bandwidth),
        jain: Fairness::jain_bandwidth,
    };
    let time = Resource {
        title: "share of device time",
        part: |s| s.device_time,
        jain: Fairness::jain_device_time,
    };
    let known = |resource: &Resource| {
        all.iter().flatten().all(|f| f.shares.iter().all(|s| (resource.part)(s).is_some()))
    };
    let shows_due = letters.len() == 1;
    [bandwidth, time]
        .into_iter()
        .filter(known)
        .map(|resource| {
            // Four runs side by side have to fit into 120 columns.
            let by_weight = if shows_due { "by weight" } else { "share" };
            let mut header = vec!["weight".to_owned(), by_weight.to_owned()];
            for letter in letters {
                header.extend(shows_due.then(|| "due".to_owned()));
                header.extend([letter.clone(), format!("{letter}/due")]);
            }
            let mut rows: Vec<Vec<String>> =
                first.shares.iter().map(|share| row(&resource, variants, &all, share)).collect();
            let mut last = vec!["Jain's index".to_owned(), String::new(), String::new()];
            for found in &all {
                let index = found.as_ref().and_then(resource.jain);
                last.extend(shows_due.then(String::new));
                last.extend([
                    String::new(),
                    index.map_or_else(|| "-".to_owned(), |index| format!("{index:.4}")),
                ]);
            }
            rows.push(last);
            FairnessTable { title: resource.title, header, rows }
        })
        .collect()
}

/// Writes the tables as text, each after an empty line.
pub(crate) fn text(out: &mut String, variants: &[Variant<'_>], letters: &[String]) {
    for FairnessTable { title, header, rows } in tables(variants, letters) {
        let mut table = plain_table();
        table.set_header(std::iter::once(title.to_owned()).chain(header));
        table.add_rows(rows);
        align_right(&mut table);
        out.push('\n');
        push_table(out, &table);
    }
}

struct Resource {
    title: &'static str,
    part: fn(&Share) -> Option<Part>,
    jain: fn(&Fairness) -> Option<f64>,
}

fn row(
    resource: &Resource,
    variants: &[Variant<'_>],
    all: &[Option<Fairness>],
    share: &Share,
) -> Vec<String> {
    let job = &variants[0].result.jobs[share.job];
    let claim = job.claim.as_ref().map(claim_words).unwrap_or_default();
    let mut cells = vec![job.name.clone(), claim, percent(share.by_weight, 2) + "%"];
    for (variant, found) in variants.iter().zip(all) {
        let same = variant.result.jobs.get(share.job).is_some_and(|other| other.name == job.name);
        let theirs = found
            .as_ref()
            .filter(|_| same)
            .and_then(|f| f.shares.iter().find(|s| s.job == share.job));
        let part = theirs.and_then(resource.part);
        let cell = |of: fn(Part) -> String| part.map_or_else(|| "-".to_owned(), of);
        cells.extend((variants.len() == 1).then(|| cell(|part| percent(part.due, 2) + "%")));
        cells.extend([
            cell(|part| percent(part.got, 2) + "%"),
            cell(|part| format!("{:.3}", ratio(part.got, part.due))),
        ]);
    }
    cells
}
