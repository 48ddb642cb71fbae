//! Where each tenant's time went: a bar for each, with the causes in words under it.

use std::fmt::Write as _;

use crate::number::{grouped, span};
use crate::plot::escape;
use crate::result::{RunResult, TenantResult};
use crate::tenants::{Explained, Kind, WHOLE, explain, parts, percent, shown, total};

/// Tenants on the page; JSON has all.
const MOST_TENANTS: usize = 40;
/// Causes in words.
const MOST_CAUSES: usize = 12;

pub(super) fn section(out: &mut String, letter: char, run: &RunResult) {
    let tenants: Vec<(&TenantResult, Vec<Explained>)> = shown(run, MOST_TENANTS)
        .into_iter()
        .map(|tenant| (tenant, explain(run, tenant)))
        .filter(|(_, explained)| !explained.is_empty())
        .collect();
    if tenants.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<section><h2>Run {letter}: where each tenant's time went</h2><div class=\"block tenants\">\
         <p class=\"soft\">All time that a tenant's I/O took, by what it waited for. A tenant includes those below it.</p>\
         <ul class=\"legend\">"
    );
    let met = |kind: &Kind| tenants.iter().any(|(_, all)| all.iter().any(|at| at.kind == *kind && at.share > 0));
    for kind in Kind::ALL.into_iter().filter(met) {
        let _ = write!(out, "<li><i class=\"swatch k{}\"></i><span>{}</span></li>", kind as u8, kind.name());
    }
    out.push_str("</ul>\n");
    for (tenant, explained) in &tenants {
        tenant_bar(out, tenant, explained);
    }
    let hidden = run.tenants.len() - tenants.len();
    if tenants.len() == MOST_TENANTS && hidden > 0 {
        let _ = write!(out, "<p class=\"soft\">{} more tenants are in the JSON report.</p>", grouped(hidden as u64));
    }
    out.push_str("</div></section>\n");
}

fn tenant_bar(out: &mut String, tenant: &TenantResult, explained: &[Explained]) {
    let _ = write!(
        out,
        "<div class=\"tenant\"><h3>{} <small>{} of I/O</small></h3><div class=\"bar\" aria-hidden=\"true\">",
        escape(&tenant.path),
        span(total(tenant).get() as f64)
    );
    let mut by_kind: Vec<&Explained> = explained.iter().filter(|at| at.share > 0).collect();
    // Kinds stand in the legend's order in every bar, so that bars compare.
    by_kind.sort_by_key(|at| at.kind as u8);
    for at in by_kind {
        let title = escape(&format!("{} {}", percent(at.share), at.words));
        let _ = write!(
            out,
            "<i class=\"k{}\" style=\"width:{}.{}%\" title=\"{title}\"></i>",
            at.kind as u8,
            at.share * 100 / WHOLE,
            at.share % 10
        );
    }
    let _ = writeln!(out, "</div><p class=\"soft\">{}</p></div>", escape(&parts(explained, MOST_CAUSES).join(", ")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_bar_for_each_tenant_that_waited() {
        let mut out = String::new();
        section(&mut out, 'A', &sample::tenants_run());
        insta::assert_snapshot!(out);
    }

    #[test]
    fn bars_fill_their_width_and_names_are_escaped() {
        let mut run = sample::tenants_run();
        run.tenants[1].path = "<b>&".into();
        let mut out = String::new();
        section(&mut out, 'A', &run);
        assert!(out.contains("&lt;b&gt;&amp;") && !out.contains("<b>"));
        for bar in out.split("class=\"bar\"").skip(1) {
            let bar = bar.split("</div>").next().unwrap();
            let widths = bar.split("width:").skip(1).map(|at| at.split('%').next().unwrap().replace('.', ""));
            assert_eq!(widths.map(|tenths| tenths.parse::<u64>().unwrap()).sum::<u64>(), WHOLE);
        }
    }

    #[test]
    fn nothing_without_tenants() {
        let mut out = String::new();
        section(&mut out, 'A', &sample::mixed_run());
        assert_eq!(out, "");
    }
}
