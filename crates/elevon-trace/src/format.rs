//! The formats of traces. `detect` has the reader of each.

/// Makes the list of formats.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A trace format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum TraceFormat {
            $($(#[$doc])* $name,)+
        }

        impl TraceFormat {
            /// Every format, in the order in which they are looked for in a line.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

formats! {
    /// Events of LTTng's kernel tracer as babeltrace prints them.
    Lttng,
    /// Tracepoints as text: the kernel's `trace` file, `trace-cmd report`, `perf script`, lines
    /// without prefix.
    Ftrace,
    /// blktrace's binary records, versions 7 and 8.
    Blktrace,
    /// Output of `blkparse`.
    Blkparse,
    /// Perfetto's protobuf packets.
    Perfetto,
    /// fio's iolog, versions 2 and 3.
    FioLog,
    /// Output of `biosnoop` of bcc and bpftrace, and of `iosnoop` of perf-tools and DTrace.
    Snoop,
    /// CSV of disk I/O of Windows: xperf's dumper, and tables with titles of xperf and WPA.
    Xperf,
    /// What Sysinternals DiskMon saves.
    DiskMon,
    /// CSV of MSR Cambridge.
    Msr,
    /// CSV of Alibaba's block traces.
    Alibaba,
    /// CSV of Tencent CBS.
    Tencent,
    /// CSV of Systor '17.
    Systor,
    /// The UMass repository's SPC format.
    Spc,
    /// Traces of FIU, with a process and the hash of the content in each line.
    Fiu,
    /// CSV with titles as libCacheSim reads it.
    CacheSim,
    /// libCacheSim's binary oracleGeneral.
    OracleGeneral,
    /// CSV of events, as [`crate::write::csv`] writes it.
    Csv,
}
