//! Formats numbers in sentences.

/// Formats a time span in nanoseconds: `12.3 ms`.
pub(super) fn span(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

/// Formats bytes by powers of 1024: `512 KiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..0x10_0000 => (bytes as f64 / 1024.0, "KiB"),
        0x10_0000..0x4000_0000 => (bytes as f64 / 1_048_576.0, "MiB"),
        _ => (bytes as f64 / 1_073_741_824.0, "GiB"),
    };
    let decimals = usize::from(value < 100.0 && value.fract() != 0.0);
    format!("{value:.decimals$} {unit}")
}

/// Formats a part of a whole in percent: `12.3 %`.
pub fn percent(part: u64, whole: u64) -> String {
    let value = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    format!("{value:.1} %")
}

/// Returns a part of a whole in thousandths, at most 1000.
pub(super) fn permille(part: u64, whole: u64) -> u32 {
    if whole == 0 { 0 } else { (u128::from(part) * 1000 / u128::from(whole)).min(1000) as u32 }
}

/// Formats the ratio of two numbers: `3.4`.
pub(super) fn ratio(a: u64, b: u64) -> String {
    if b == 0 { "many".to_owned() } else { format!("{:.1}", a as f64 / b as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            [999, 1_500, 12_340_000, 123_400_000_000].map(span),
            ["999 ns", "1.50 us", "12.3 ms", "123 s"]
        );
        assert_eq!(
            [512, 4096, 1536, 524_288, 3 << 30].map(bytes),
            ["512 B", "4 KiB", "1.5 KiB", "512 KiB", "3 GiB"]
        );
        assert_eq!([percent(1, 3), percent(1, 80), percent(1, 0)], ["33.3 %", "1.2 %", "0.0 %"]);
        assert_eq!((permille(1, 3), permille(5, 3), ratio(7, 2)), (333, 1000, "3.5".to_owned()));
    }
}
