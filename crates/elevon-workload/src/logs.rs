//! fio's logs (`write_bw_log`, `write_iops_log`, `write_lat_log`, `write_hist_log`): collected as
//! values and written in fio's line format. Windows (`log_avg_msec`, `log_hist_msec`) are aligned
//! to the start of the job; a window without I/O has no line.

use std::io::{self, Write};

use elevon_core::histogram::{FIO_BINS, bin_of};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::stats::Direction;
use elevon_core::units::{Bytes, DeviceOffset, Instant};
use elevon_formats::fio::spec::{Logs, WindowValue};

const MS: u64 = 1_000_000;

/// The kind of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Bandwidth: KiB/s of a window, kB/s of an I/O.
    Bandwidth,
    /// I/Os a second; without windows, 1 for each I/O.
    Iops,
    /// Submission latency, ns.
    SubmissionLatency,
    /// Completion latency, ns.
    CompletionLatency,
    /// Whole latency, ns.
    Latency,
}

impl LogKind {
    /// Returns the part of the file name that identifies the log: `PREFIX_bw.1.log`.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Bandwidth => "bw",
            Self::Iops => "iops",
            Self::SubmissionLatency => "slat",
            Self::CompletionLatency => "clat",
            Self::Latency => "lat",
        }
    }
}

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Milliseconds since the job's start.
    pub time_ms: u64,
    /// KiB/s, IOPS or ns.
    pub value: u64,
    /// The largest latency of the window in ns, if the log has it in addition to the mean
    /// (`log_window_value=both`).
    pub maximum: Option<u64>,
    /// Read, write or trim.
    pub direction: Direction,
    /// Bytes; 0 in a window.
    pub block_size: u64,
    /// Bytes from the device's start; 0 in a window or without `log_offset`.
    pub offset: DeviceOffset,
    /// Priority of the I/O.
    pub ioprio: IoPrio,
}

/// A line of a histogram log: the counts of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramEntry {
    /// Milliseconds since the job's start, at the window's end.
    pub time_ms: u64,
    /// Read, write or trim.
    pub direction: Direction,
    /// The largest block of the window, in bytes.
    pub block_size: u64,
    /// Counts of completion latencies in fio's bins.
    pub bins: Box<[u32; FIO_BINS]>,
}

/// One log of one process.
#[derive(Clone, Debug)]
pub struct Log {
    /// The kind.
    pub kind: LogKind,
    /// File name prefix from the job.
    pub prefix: String,
    /// Its lines, in order of time.
    pub entries: Vec<LogEntry>,
    windows: [LogWindow; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct LogWindow {
    sum: u128,
    count: u64,
    max: u64,
}

/// An I/O as the logs record it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) end: Instant,
    pub(crate) direction: Direction,
    pub(crate) len: Bytes,
    pub(crate) offset: DeviceOffset,
    pub(crate) ioprio: IoPrio,
    pub(crate) slat: Option<u64>,
    pub(crate) clat: u64,
    pub(crate) lat: u64,
}

/// The logs of one process.
#[derive(Clone, Debug)]
pub struct Logger {
    /// The bw, iops, slat, clat and lat logs that the job asked for.
    pub logs: Vec<Log>,
    /// Lines of the histogram log.
    pub histograms: Vec<HistogramEntry>,
    /// Prefix of the histogram log, if the job asked for one.
    pub histogram_prefix: Option<String>,
    start: Instant,
    average: u64,
    window_end: u64,
    /// When the last I/O ended, since the start.
    latest: u64,
    histogram_window: u64,
    histogram_end: u64,
    bins: [Option<(u64, Box<[u32; FIO_BINS]>)>; 3],
    with_offset: bool,
    with_prio: bool,
    window_value: WindowValue,
}

impl Logger {
    /// Returns `None` if the job keeps no log.
    pub(crate) fn new(logs: &Logs) -> Option<Self> {
        let log = |kind, prefix: &String| Log {
            kind,
            prefix: prefix.clone(),
            entries: Vec::new(),
            windows: [LogWindow::default(); 3],
        };
        let mut kept: Vec<Log> =
            logs.bandwidth.iter().map(|p| log(LogKind::Bandwidth, p)).collect();
        kept.extend(logs.iops.iter().map(|p| log(LogKind::Iops, p)));
        if let Some(prefix) = &logs.latency {
            // As in fio, blocking engines have this log too, but it stays empty.
            kept.push(log(LogKind::SubmissionLatency, prefix));
            kept.push(log(LogKind::CompletionLatency, prefix));
            kept.push(log(LogKind::Latency, prefix));
        }
        if kept.is_empty() && logs.histogram.is_none() {
            return None;
        }
        Some(Self {
            logs: kept,
            histograms: Vec::new(),
            histogram_prefix: logs.histogram.clone(),
            start: Instant::ZERO,
            average: logs.average_ms * MS,
            window_end: logs.average_ms * MS,
            latest: 0,
            // As in fio, the histogram log stays empty without `log_hist_msec`.
            histogram_window: if logs.histogram.is_some() { logs.histogram_ms * MS } else { 0 },
            histogram_end: logs.histogram_ms * MS,
            bins: [None, None, None],
            with_offset: logs.offset,
            with_prio: logs.prio,
            window_value: logs.window_value,
        })
    }

    pub(crate) fn start(&mut self, now: Instant) {
        *self = Self {
            start: now,
            window_end: self.average,
            latest: 0,
            histogram_end: self.histogram_window,
            bins: [None, None, None],
            histograms: Vec::new(),
            logs: std::mem::take(&mut self.logs)
                .into_iter()
                .map(|log| Log { entries: Vec::new(), windows: [LogWindow::default(); 3], ..log })
                .collect(),
            ..self.clone()
        };
    }

    pub(crate) fn add(&mut self, sample: &Sample) {
        let time = sample.end.since(self.start).get();
        self.latest = time;
        if self.average > 0 && time >= self.window_end {
            self.close_windows(self.window_end);
            self.window_end = time - time % self.average + self.average;
        }
        if self.histogram_window > 0 {
            if time >= self.histogram_end {
                self.close_histograms();
                self.histogram_end = time - time % self.histogram_window + self.histogram_window;
            }
            let new = || (0, Box::new([0; FIO_BINS]));
            let (size, bins) = self.bins[sample.direction as usize].get_or_insert_with(new);
            *size = sample.len.get().max(*size);
            bins[bin_of(sample.clat)] += 1;
        }
        let (average, with_offset) = (self.average, self.with_offset);
        for log in &mut self.logs {
            let value = match log.kind {
                LogKind::Bandwidth if average > 0 => sample.len.get(),
                // The rate of this one I/O: its bytes over its completion latency, in units of 1000
                // bytes, as in fio 3.33.
                LogKind::Bandwidth => {
                    (u128::from(sample.len.get()) * 1_000_000 / u128::from(sample.clat.max(1)))
                        as u64
                }
                LogKind::Iops => 1,
                LogKind::SubmissionLatency => match sample.slat {
                    Some(slat) => slat,
                    None => continue,
                },
                LogKind::CompletionLatency => sample.clat,
                LogKind::Latency => sample.lat,
            };
            if average == 0 {
                log.entries.push(LogEntry {
                    time_ms: time / MS,
                    value,
                    maximum: None,
                    direction: sample.direction,
                    block_size: sample.len.get(),
                    offset: if with_offset { sample.offset } else { DeviceOffset::ZERO },
                    ioprio: sample.ioprio,
                });
            } else {
                let window = &mut log.windows[sample.direction as usize];
                window.sum += u128::from(value);
                window.count += 1;
                window.max = window.max.max(value);
            }
        }
    }

    /// Closes the windows at `end`. One that ends with its job, before its time, has no rate, as in
    /// fio's logs.
    fn close_windows(&mut self, end: u64) {
        let (time_ms, is_whole) = (end / MS, end == self.window_end);
        let span_ms = u128::from((self.average / MS).max(1));
        let window_value = self.window_value;
        for log in &mut self.logs {
            for direction in Direction::ALL {
                let window = std::mem::take(&mut log.windows[direction as usize]);
                if window.count == 0 {
                    continue;
                }
                let is_latency = !matches!(log.kind, LogKind::Bandwidth | LogKind::Iops);
                if !is_latency && !is_whole {
                    continue;
                }
                let value = match log.kind {
                    LogKind::Bandwidth => window.sum * 1000 / 1024 / span_ms,
                    LogKind::Iops => window.sum * 1000 / span_ms,
                    _ if window_value == WindowValue::Maximum => u128::from(window.max),
                    _ => window.sum / u128::from(window.count),
                };
                let value = value as u64;
                let ioprio = IoPrio::NONE;
                let maximum =
                    (is_latency && window_value == WindowValue::Both).then_some(window.max);
                let (block_size, offset) = (0, DeviceOffset::ZERO);
                log.entries.push(LogEntry {
                    time_ms,
                    value,
                    maximum,
                    direction,
                    block_size,
                    offset,
                    ioprio,
                });
            }
        }
    }

    fn close_histograms(&mut self) {
        for direction in Direction::ALL {
            if let Some((block_size, bins)) = self.bins[direction as usize].take() {
                let time_ms = self.histogram_end / MS;
                self.histograms.push(HistogramEntry { time_ms, direction, block_size, bins });
            }
        }
    }

    /// Closes open windows at the end of the job.
    pub(crate) fn finish(&mut self) {
        if self.average > 0 {
            self.close_windows(self.latest);
        }
        self.close_histograms();
    }

    /// Writes one log in fio's format: `time_ms, value, ddir, bs, offset, prio`, with the offset
    /// only if `log_offset` is set. With `log_window_value=both` a latency log has the mean as the
    /// value, and the largest latency of the window after it.
    ///
    /// # Errors
    /// `out` could not be written.
    pub fn write(&self, log: &Log, out: &mut dyn Write) -> io::Result<()> {
        for e in &log.entries {
            let ddir = e.direction as u8;
            write!(out, "{}, {}, ", e.time_ms, e.value)?;
            if let Some(maximum) = e.maximum {
                write!(out, "{maximum}, ")?;
            }
            write!(out, "{ddir}, {}, ", e.block_size)?;
            if self.with_offset {
                write!(out, "{}, ", e.offset.get())?;
            }
            if self.with_prio {
                writeln!(out, "0x{:04x}", e.ioprio.bits())?;
            } else {
                writeln!(out, "{}", u8::from(e.ioprio.class() == PrioClass::Rt))?;
            }
        }
        Ok(())
    }

    /// Writes the histogram log: `time_ms, ddir, bs, b0, ..., b1855`.
    ///
    /// # Errors
    /// `out` could not be written.
    pub fn write_histograms(&self, out: &mut dyn Write) -> io::Result<()> {
        for e in &self.histograms {
            write!(out, "{}, {}, {}", e.time_ms, e.direction as u8, e.block_size)?;
            for bin in e.bins.iter() {
                write!(out, ", {bin}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ms: u64, clat: u64, direction: Direction) -> Sample {
        let end = Instant::new(5 * MS + ms * MS);
        let ioprio = IoPrio::new(PrioClass::Rt, 3);
        Sample {
            end,
            direction,
            len: Bytes::new(4096),
            offset: DeviceOffset::new(8192),
            ioprio,
            slat: Some(10),
            clat,
            lat: clat + 10,
        }
    }
    fn logger(edit: impl FnOnce(&mut Logs)) -> Logger {
        let mut logs = Logs {
            bandwidth: Some("b".into()),
            iops: Some("i".into()),
            latency: Some("l".into()),
            ..Logs::default()
        };
        edit(&mut logs);
        let mut logger = Logger::new(&logs).expect("logs");
        logger.start(Instant::new(5 * MS));
        logger
    }
    fn text(logger: &Logger, kind: LogKind) -> String {
        let mut out = Vec::new();
        let log = logger.logs.iter().find(|l| l.kind == kind).expect("kept");
        logger.write(log, &mut out).expect("memory");
        String::from_utf8(out).expect("ascii")
    }

    #[test]
    fn a_line_an_io() {
        let mut logger = logger(|l| l.offset = true);
        logger.add(&sample(3, 1_000_000 - 10, Direction::Write));
        logger.finish();
        assert_eq!(text(&logger, LogKind::Bandwidth), "3, 4096, 1, 4096, 8192, 1\n");
        assert_eq!(text(&logger, LogKind::Iops), "3, 1, 1, 4096, 8192, 1\n");
        assert_eq!(text(&logger, LogKind::CompletionLatency), "3, 999990, 1, 4096, 8192, 1\n");
        assert_eq!(text(&logger, LogKind::SubmissionLatency), "3, 10, 1, 4096, 8192, 1\n");
    }

    #[test]
    fn windows_average_or_take_the_largest() {
        for (window_value, clat, second, third) in [
            (WindowValue::Average, "200", "7", "5"),
            (WindowValue::Maximum, "300", "7", "5"),
            (WindowValue::Both, "200, 300", "7, 7", "5, 5"),
        ] {
            let mut logger = logger(|l| {
                l.average_ms = 100;
                l.window_value = window_value;
                l.prio = true;
            });
            logger.add(&sample(10, 100, Direction::Read));
            logger.add(&sample(20, 300, Direction::Read));
            logger.add(&sample(30, 7, Direction::Write));
            logger.add(&sample(350, 5, Direction::Read));
            logger.finish();
            let expected = format!(
                "100, {clat}, 0, 0, 0x0000\n100, {second}, 1, 0, 0x0000\n350, {third}, 0, 0, 0x0000\n"
            );
            assert_eq!(text(&logger, LogKind::CompletionLatency), expected);
            // 20 I/Os a second of 4 KiB, and no rate of the window that ended with the job.
            assert_eq!(
                text(&logger, LogKind::Iops),
                "100, 20, 0, 0, 0x0000\n100, 10, 1, 0, 0x0000\n"
            );
            assert_eq!(
                text(&logger, LogKind::Bandwidth),
                "100, 80, 0, 0, 0x0000\n100, 40, 1, 0, 0x0000\n"
            );
        }
    }

    #[test]
    fn histograms_have_all_bins() {
        let mut logger = logger(|l| {
            l.histogram = Some("h".into());
            l.histogram_ms = 50;
        });
        logger.add(&sample(10, 3, Direction::Read));
        logger.add(&sample(60, 130, Direction::Read));
        logger.finish();
        let mut out = Vec::new();
        logger.write_histograms(&mut out).expect("memory");
        let text = String::from_utf8(out).expect("ascii");
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split(", ").collect()).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|l| l.len() == 3 + FIO_BINS));
        assert_eq!(
            (lines[0][0], lines[0][3 + 3], lines[1][0], lines[1][3 + 129]),
            ("50", "1", "100", "1")
        );
    }
}
