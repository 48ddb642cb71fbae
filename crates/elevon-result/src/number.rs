//! Formats numbers as fio, iostat and plots print them.

use elevon_core::units::Nanos;

/// Prefixes by powers of 1024 or 1000, from 1 up.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// Shortens a number to at most `width` characters and returns it with its prefix: 2752k, 28.9k,
/// 4608Mi, 10.5Gi. The prefix is the smallest that fits; the remaining characters are decimals, as
/// in fio's reports.
fn shorten(value: f64, width: usize, binary: bool) -> (String, &'static str) {
    let (base, prefixes) = if binary { (1024.0, BINARY) } else { (1000.0, DECIMAL) };
    let mut scaled = value;
    for (step, prefix) in prefixes.iter().enumerate() {
        let whole = format!("{scaled:.0}").len();
        if whole <= width || step == prefixes.len() - 1 {
            // A point and one decimal need two more characters. Numbers without a prefix have no
            // decimals.
            let integer_digits = format!("{:.0}", scaled.floor()).len();
            let decimals = if step == 0 { 0 } else { width.saturating_sub(integer_digits + 1) };
            return (format!("{scaled:.decimals$}"), prefix);
        }
        scaled /= base;
    }
    unreachable!("the last prefix always returns")
}

/// Formats a count in at most four characters and a prefix: 500k, 28.9k, 2752k.
pub fn count(value: f64) -> String {
    let (number, prefix) = shorten(value, 4, false);
    number + prefix
}

/// Formats a latency bound in at most six characters and a prefix: 144721, 4079.5k.
pub fn bound(value: u64) -> String {
    let (number, prefix) = shorten(value as f64, 6, false);
    number + prefix
}

/// Formats bytes with binary prefixes: 4096B, 64.0KiB, 9220MiB.
pub fn bytes_binary(bytes: f64) -> String {
    let (number, prefix) = shorten(bytes, 4, true);
    format!("{number}{prefix}B")
}

/// Formats bytes with decimal prefixes: 123kB, 11.3GB.
pub fn bytes_decimal(bytes: f64) -> String {
    let (number, prefix) = shorten(bytes, 4, false);
    format!("{number}{prefix}B")
}

/// Formats a rate with both kinds of prefix: `10.5GiB/s (11.3GB/s)`.
pub fn rate_both(bytes_per_second: f64) -> String {
    format!("{}/s ({}/s)", bytes_binary(bytes_per_second), bytes_decimal(bytes_per_second))
}

/// Formats a time span in nanoseconds with three significant digits and its unit: 850ns, 12.4us,
/// 1.53ms, 30.0s.
pub fn span(ns: f64) -> String {
    let (value, unit) = match ns {
        _ if ns < 999.5 => return format!("{ns:.0}ns"),
        _ if ns < 999.5e3 => (ns / 1e3, "us"),
        _ if ns < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{}{unit}", significant(value, 3))
}

/// Formats a time span as whole seconds or milliseconds if it is a multiple of one: 2s, 500ms;
/// otherwise as [`span`].
pub fn length(time: Nanos) -> String {
    match time.get() {
        ns if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns => span(ns as f64),
    }
}

/// Formats a share from 0 to 1 in percent, without the sign: 61.20.
pub fn percent(share: f64, decimals: usize) -> String {
    format!("{:.decimals$}", 100.0 * share)
}

/// Formats thousandths in percent: 61.2 %.
pub fn permille(share: u64) -> String {
    format!("{}.{} %", share / 10, share % 10)
}

/// Formats a number with `digits` significant digits, never in exponent form. Whole numbers with
/// more digits keep all of them.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value:.0}");
    }
    // Rounding may carry into one more digit (9.996 becomes 10.0), so the magnitude is taken after
    // rounding.
    let rounded: f64 = format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value);
    let magnitude = libm::log10(rounded.abs()).floor() as i64;
    let decimals = usize::try_from(digits as i64 - 1 - magnitude).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// Formats a whole number with a comma before every three digits: 5,505,762.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number of things, whose name takes an s where they are not one: 1 event, 1,041 events.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// A time of the calendar, in UTC.
struct Civil {
    year: u64,
    /// From 0 on.
    month: usize,
    /// From 1 on.
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

/// Returns the time of the calendar of seconds since 1970.
fn civil(seconds: u64) -> Civil {
    let (days, of_day) = (seconds / 86400, seconds % 86400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    Civil {
        year,
        month,
        day: left + 1,
        hour: of_day / 3600,
        minute: of_day / 60 % 60,
        second: of_day % 60,
    }
}

/// Formats milliseconds since 1970 (UTC) as `Sat Nov 21 10:38:33 2026`.
pub fn date(unix_ms: u64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = unix_ms / 1000;
    let Civil { year, month, day, hour, minute, second } = civil(seconds);
    let weekday = WEEKDAYS[(seconds / 86400 % 7) as usize];
    format!("{weekday} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}", MONTHS[month])
}

/// Formats microseconds since 1970 (UTC) as RFC 3339 has it: `2026-11-21T10:38:33.000001Z`.
pub fn timestamp(unix_us: u64) -> String {
    let Civil { year, month, day, hour, minute, second } = civil(unix_us / 1_000_000);
    let micros = unix_us % 1_000_000;
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z", month + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_takes_no_s() {
        let texts = [0, 1, 1041].map(|count| counted(count, "event"));
        assert_eq!(texts, ["0 events", "1 event", "1,041 events"]);
    }

    #[test]
    fn short_numbers_as_fio_prints_them() {
        // Pairs from the output of fio 3.33.
        for (value, text) in [
            (29.0, "29"),
            (28_897.5, "28.9k"),
            (2_751_505.0, "2752k"),
            (500_000.0, "500k"),
            (9999.0, "9999"),
        ] {
            assert_eq!(count(value), text);
        }
        for (value, text) in [
            (4096.0, "4096B"),
            (65536.0, "64.0KiB"),
            (131072.0, "128KiB"),
            (9984.0 * 1024.0, "9984KiB"),
            (10048.0 * 1024.0, "9.81MiB"),
            (10000.0 * 1048576.0, "9.77GiB"),
            (10240.0 * 1048576.0, "10.0GiB"),
            (22_536_519_680.0, "21.0GiB"),
            (0.0, "0B"),
        ] {
            assert_eq!(bytes_binary(value), text);
        }
        assert_eq!(bytes_decimal(122_839.0), "123kB");
        assert_eq!(bytes_decimal(4_832_000_000.0), "4832MB");
        assert_eq!(bound(4_079_500), "4079.5k");
        assert_eq!(bound(144_721), "144721");
        assert_eq!(bound(1_008_900), "1008.9k");
    }

    #[test]
    fn significant_digits_survive_a_carry() {
        for (value, digits, text) in [
            (9.996, 3, "10.0"),
            (0.012345, 3, "0.0123"),
            (1234.5, 3, "1234"),
            (1.0, 2, "1.0"),
            (99.96, 3, "100"),
        ] {
            assert_eq!(significant(value, digits), text, "{value}");
        }
        assert_eq!(span(999.6), "1.00us");
        assert_eq!(span(30e9), "30.0s");
    }

    #[test]
    fn dates_of_known_instants() {
        assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(date(951_782_400_000), "Tue Feb 29 00:00:00 2000");
        assert_eq!(date(1_795_257_515_844), "Sat Nov 21 10:38:35 2026");
        assert_eq!(timestamp(1_795_257_515_844_007), "2026-11-21T10:38:35.844007Z");
        assert_eq!(timestamp(951_782_399_000_000), "2000-02-28T23:59:59.000000Z");
    }

    #[test]
    fn groups_of_three() {
        assert_eq!((grouped(7).as_str(), grouped(5505762).as_str()), ("7", "5,505,762"));
    }
}
