//! Tenants.

use super::super::grammar;
use super::{BOOL, OptionKind, OptionRow, row};

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "cgroup",
        OptionKind::Text(grammar::cgroup),
        "",
        "",
        "the tenant that pays for the job's I/O",
    ),
    row(
        "cgroup_weight",
        OptionKind::Int(100, 1000, |d, n| d.spec.tenant.weight = Some(n as u32)),
        "",
        "",
        "its weight",
    ),
    row("cgroup_nodelete", BOOL, "", "0", "leave the cgroup behind")
        .no_effect("no cgroup of the host is made"),
];
