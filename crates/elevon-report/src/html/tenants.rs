//! Shows where each tenant's time went: a bar per tenant, with the causes in words under it.

use elevon_result::number::{grouped, permille, span};
use elevon_result::result::{RunResult, TenantResult};
use elevon_result::tenants::{CauseKind, Explained, WHOLE, explain, parts, shown, total};
use maud::{Markup, html};

use crate::markup::text;

/// Maximum number of tenants on the page; JSON has all.
const MAX_TENANTS: usize = 40;
/// Maximum number of causes in words.
const MAX_CAUSES: usize = 12;

/// Returns the section of one run; empty if no tenant waited.
pub(super) fn section(letter: char, run: &RunResult) -> Markup {
    let tenants: Vec<(&TenantResult, Vec<Explained>)> = shown(run, MAX_TENANTS)
        .into_iter()
        .map(|tenant| (tenant, explain(&run.tenants, tenant)))
        .filter(|(_, explained)| !explained.is_empty())
        .collect();
    if tenants.is_empty() {
        return Markup::default();
    }
    let met = |kind: &CauseKind| {
        tenants.iter().any(|(_, all)| all.iter().any(|at| at.kind == *kind && at.share > 0))
    };
    let hidden = run.tenants.len() - tenants.len();
    html! {
        section {
            h2 { "Run " (letter) ": where each tenant's time went" }
            div class="block tenants" {
                p class="soft" {
                    "All time that a tenant's I/O took, by what it waited for. A tenant includes those below it."
                }
                ul class="legend" {
                    @for kind in CauseKind::ALL.into_iter().filter(met) {
                        li { i class={ "swatch k" (kind as u8) } {} span { (kind.name()) } }
                    }
                }
                "\n"
                @for (tenant, explained) in &tenants { (tenant_bar(tenant, explained)) }
                @if tenants.len() == MAX_TENANTS && hidden > 0 {
                    p class="soft" { (grouped(hidden as u64)) " more tenants are in the JSON report." }
                }
            }
        }
        "\n"
    }
}

fn tenant_bar(tenant: &TenantResult, explained: &[Explained]) -> Markup {
    let mut by_kind: Vec<&Explained> = explained.iter().filter(|at| at.share > 0).collect();
    // Kinds are in the legend's order in every bar, so that bars can be compared.
    by_kind.sort_by_key(|at| at.kind as u8);
    html! {
        div class="tenant" {
            h3 { (text(&tenant.path)) " " small { (span(total(tenant).get() as f64)) " of I/O" } }
            div class="bar" aria-hidden="true" {
                @for at in by_kind {
                    i class={ "k" (at.kind as u8) }
                        style={ "width:" (at.share * 100 / WHOLE) "." (at.share % 10) "%" }
                        title=(text(&format!("{} {}", permille(at.share), at.words))) {}
                }
            }
            p class="soft" { (text(&parts(explained, MAX_CAUSES).join(", "))) }
        }
        "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_bar_for_each_tenant_that_waited() {
        let out = section('A', &sample::tenants_run()).into_string();
        insta::assert_snapshot!(out);
    }

    #[test]
    fn bars_fill_their_width_and_names_are_escaped() {
        let mut run = sample::tenants_run();
        run.tenants[1].path = "<b>&".into();
        let out = section('A', &run).into_string();
        assert!(out.contains("&lt;b&gt;&amp;") && !out.contains("<b>"));
        for bar in out.split("class=\"bar\"").skip(1) {
            let bar = bar.split("</div>").next().unwrap();
            let widths = bar
                .split("width:")
                .skip(1)
                .map(|at| at.split('%').next().unwrap().replace('.', ""));
            assert_eq!(widths.map(|tenths| tenths.parse::<u64>().unwrap()).sum::<u64>(), WHOLE);
        }
    }

    #[test]
    fn nothing_without_tenants() {
        let out = section('A', &sample::mixed_run()).into_string();
        assert_eq!(out, "");
    }
}
