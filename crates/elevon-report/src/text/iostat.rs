//! iostat's extended columns for one device.

use std::fmt::Write as _;

use elevon_result::summary::{DiskDelta, ratio};

/// Returns the header of [`iostat_line`]; `width` is the width of the device column.
pub fn iostat_header(width: usize) -> String {
    let mut out = format!("{:<width$}", "Device");
    for (column, name) in
        COLUMNS.iter().zip(["r", "w", "d", "f", ""].iter().flat_map(|group| names(group)))
    {
        let _ = write!(out, " {name:>column$}");
    }
    out
}

/// Widths of the columns, equal to those of iostat.
const COLUMNS: [usize; 22] = [7, 9, 8, 6, 7, 8, 7, 9, 8, 6, 7, 8, 7, 9, 8, 6, 7, 8, 7, 7, 7, 6];

fn names(group: &'static str) -> Vec<String> {
    match group {
        "" => vec!["aqu-sz".into(), "%util".into()],
        "f" => vec!["f/s".into(), "f_await".into()],
        _ => vec![
            format!("{group}/s"),
            format!("{group}kB/s"),
            format!("{group}rqm/s"),
            format!("%{group}rqm"),
            format!("{group}_await"),
            format!("{group}areq-sz"),
        ],
    }
}

/// Returns one line of figures for the time that `delta` covers. A division by zero is printed as
/// 0.00.
pub fn iostat_line(device: &str, width: usize, delta: &DiskDelta) -> String {
    let mut values = Vec::with_capacity(COLUMNS.len());
    for first in [1, 5, 12] {
        let [ios, merges, sectors, ticks] = [0, 1, 2, 3].map(|at| delta.field(first + at));
        values.extend([
            ratio(ios, delta.seconds),
            ratio(sectors / 2.0, delta.seconds),
            ratio(merges, delta.seconds),
            100.0 * ratio(merges, ios + merges),
            ratio(ticks, ios),
            ratio(sectors / 2.0, ios),
        ]);
    }
    values.extend([ratio(delta.field(16), delta.seconds), ratio(delta.field(17), delta.field(16))]);
    values.extend([ratio(delta.field(11) / 1000.0, delta.seconds), delta.io_ticks_percent()]);
    let mut out = format!("{device:<width$}");
    for (column, value) in COLUMNS.iter().zip(values) {
        let _ = write!(out, " {value:column$.2}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the kernel's documentation of the stat file, over one second.
    fn example() -> DiskDelta {
        let numbers =
            |text: &str| -> Vec<u64> { text.split(' ').map(|n| n.parse().unwrap()).collect() };
        let a = numbers("1000 50 256000 4000 2000 100 64000 9000 3 5000 13035 10 0 8192 20 5 15");
        let b = numbers("1400 150 307200 8800 2100 120 72192 9900 5 5900 18785 12 0 12288 30 9 55");
        let mut fields: [u64; 17] = std::array::from_fn(|at| b[at].wrapping_sub(a[at]));
        fields[8] = 5;
        DiskDelta { seconds: 1.0, fields, mean_in_flight: 0.0, busy: Default::default() }
    }

    #[test]
    fn the_worked_example_to_the_printed_digit() {
        let line = iostat_line("sda", 8, &example());
        let got: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            got,
            [
                "sda", "400.00", "25600.00", "100.00", "20.00", "12.00", "64.00", "100.00",
                "4096.00", "20.00", "16.67", "9.00", "40.96", "2.00", "2048.00", "0.00", "0.00",
                "5.00", "1024.00", "4.00", "10.00", "5.75", "90.00"
            ]
        );
    }

    #[test]
    fn header_has_iostats_columns_and_lines_up() {
        let header = iostat_header(12);
        assert_eq!(
            header.split_whitespace().collect::<Vec<_>>().join(" "),
            "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz d/s dkB/s drqm/s \
             %drqm d_await dareq-sz f/s f_await aqu-sz %util"
        );
        assert_eq!(header.len(), iostat_line("sda", 12, &example()).len());
    }

    #[test]
    fn an_idle_interval_prints_zeros() {
        let idle = DiskDelta {
            seconds: 0.0,
            fields: [0; 17],
            mean_in_flight: 0.0,
            busy: Default::default(),
        };
        assert!(
            iostat_line("sda", 8, &idle).split_whitespace().skip(1).all(|value| value == "0.00")
        );
    }
}
