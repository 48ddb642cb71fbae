//! Writes a file of tenants as TOML.

use std::fmt::Write;

use elevon_formats::cgroup::Setting;
use elevon_formats::tenants::TenantsFile;
use elevon_formats::toml_text::{quoted, string};

/// Returns the TOML text that [`elevon_formats::tenants::parse`] reads as the same file, except for
/// the order of lines with different keys.
pub fn tenants(file: &TenantsFile) -> String {
    let mut out = String::new();
    let mut table = |head: String, settings: &[Setting]| {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{gap}{head}");
        let mut done: Vec<&str> = Vec::new();
        for setting in settings {
            let name = setting.name();
            if done.contains(&name) {
                continue;
            }
            done.push(name);
            let lines: Vec<String> =
                settings.iter().filter(|other| other.name() == name).map(value).collect();
            let _ = match lines.as_slice() {
                [line] => writeln!(out, "{} = {line}", quoted(name)),
                lines => writeln!(out, "{} = [{}]", quoted(name), lines.join(", ")),
            };
        }
    };
    if !file.device.is_empty() {
        table("[device]".to_owned(), &file.device);
    }
    for tenant in &file.tenants {
        table(format!("[tenant.{}]", quoted(&tenant.path)), &tenant.settings);
    }
    for change in &file.changes {
        let tenant = change
            .tenant
            .as_ref()
            .map_or_else(String::new, |path| format!("\ntenant = {}", string(path)));
        table(format!("[[change]]\nat = \"{}ns\"{tenant}", change.at.get()), &change.settings);
    }
    out
}

fn value(setting: &Setting) -> String {
    match setting {
        Setting::Weight(_) | Setting::Limit(_) | Setting::Reserve(_) => setting.text(None),
        Setting::IoMax(_)
        | Setting::Flat(..)
        | Setting::IoWeight(_)
        | Setting::BfqWeight(_)
        | Setting::Class(_)
        | Setting::Latency(_)
        | Setting::CostQos(_)
        | Setting::CostModel(_)
        | Setting::Bandwidth(_)
        | Setting::Iops(_) => string(&setting.text(None)),
    }
}
