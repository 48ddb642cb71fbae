//! `slots`: N servers behind one FIFO; a request holds a server for latency + bytes / bandwidth.
//!
//! The measurements on real kernels were made on this device, so by default the model has nothing
//! else. Commands that move no data (discard, write zeroes, flush) hold a server only for the
//! latency. A flush is not ordered specially: it is a command in the FIFO like any other, because
//! there is no cache to wait for. Writes, discards (with write zeroes) and
//! flushes may have costs of their own, which `elevon calibrate TRACE` finds.
//!
//! The bandwidth applies to each server. A fraction of a nanosecond is rounded up.
//!
//! Further parameters, which are off unless set, are for devices that were fitted to a trace.
//! [`place`] has costs of commands that go on where others ended, [`spread`] a spread of the time
//! that a server is held, and [`servers`] how servers are given away.
//!
//! Cost: O(1) per command while requests are of one size, O(log slots) if sizes are mixed.

use elevon_core::driver::{Accept, Command, Completion};
use elevon_core::limits::QueueLimits;
use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, Sectors};

use super::parameter::{self, HOUR, Parameter, SWITCH, parameters};
use super::text::TextError;
use super::{Description, Device, in_range};
use crate::chance::draw;

pub mod place;
pub mod servers;
pub mod spread;

use place::Streams;
use servers::{Rules, Servers};
use spread::{Quantiles, Spread};

/// The range of a quantile: up to a thousand times.
const SPREAD: (u64, u64) = (0, 1_000_000_000);
/// Purpose of the draws of service times.
const SERVICE: u64 = 0x5107_0003;

/// Parameters of a `slots` device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotsParameters {
    /// Number of servers, 1..=4096.
    pub slots: u32,
    /// Fixed time of every request.
    pub latency: Nanos,
    /// Bytes per second of each server; zero for no limit.
    pub bandwidth: Bytes,
    /// Size.
    pub size: Bytes,
    /// Whether it reports to be rotational.
    pub rotational: bool,
    /// Hardware queues.
    pub hw_queues: u16,
    /// Commands that each hardware queue holds.
    pub queue_depth: u32,
    /// Sectors of the largest request that it takes.
    pub max_sectors: u32,
    /// What every write costs; zero: as a read.
    pub write_latency: Nanos,
    /// Bytes per second of each server for writes; zero: as for reads.
    pub write_bandwidth: Bytes,
    /// What every sequential read costs ([`place`]); zero: as another read.
    pub seq_latency: Nanos,
    /// Bytes per second of each server for sequential reads; zero: as for other reads.
    pub seq_bandwidth: Bytes,
    /// What every sequential write costs; zero: as another write.
    pub seq_write_latency: Nanos,
    /// Bytes per second of each server for sequential writes; zero: as for other writes.
    pub seq_write_bandwidth: Bytes,
    /// What a discard or a write of zeroes costs; zero: the latency of a write.
    pub discard_latency: Nanos,
    /// What a flush costs; zero: as a read.
    pub flush_latency: Nanos,
    /// Whether it says that it has a volatile cache, so that flushes reach it.
    pub write_cache: bool,
    /// Time of every command that occupies no server, after its service.
    pub base_latency: Nanos,
    /// The most by which the thread that delivers completions wakes late.
    pub deliver_late: Nanos,
    /// Time that it takes for each.
    pub deliver_each: Nanos,
    /// Time from when a server becomes free to when a waiting command takes it; one that comes
    /// meanwhile takes the server.
    pub hand_over: Nanos,
    /// Chance, in parts in a million, that a free server takes any waiting command.
    pub disorder: u64,
    /// Whether a flush waits for a server as every command does.
    pub flush_waits: bool,
    /// The most requests that were in the device at once in the trace that it was fitted to, if
    /// they were too few to show how many it serves at once; otherwise zero.
    pub traced_depth: u32,
    /// Spread of the time that a read holds a server.
    pub spread: Quantiles,
    /// The same for all else; quantiles of 0 are those of reads.
    pub write_spread: Quantiles,
    /// The same for sequential reads; quantiles of 0 are those of other reads.
    pub seq_spread: Quantiles,
    /// The same for sequential writes; quantiles of 0 are those of other writes.
    pub seq_write_spread: Quantiles,
    /// The same for discards and writes of zeroes; quantiles of 0 are those of writes.
    pub discard_spread: Quantiles,
    /// The same for flushes; quantiles of 0 are those of writes.
    pub flush_spread: Quantiles,
}

impl Default for SlotsParameters {
    fn default() -> Self {
        Self {
            slots: 8,
            latency: Nanos::from_millis(2),
            bandwidth: Bytes::new(500_000_000),
            size: Bytes::new(1 << 30),
            rotational: false,
            hw_queues: 1,
            queue_depth: 128,
            // It must never affect a request: 32 MiB, larger than any soft limit of a kernel.
            max_sectors: 65536,
            write_latency: Nanos::ZERO,
            write_bandwidth: Bytes::ZERO,
            seq_latency: Nanos::ZERO,
            seq_bandwidth: Bytes::ZERO,
            seq_write_latency: Nanos::ZERO,
            seq_write_bandwidth: Bytes::ZERO,
            discard_latency: Nanos::ZERO,
            flush_latency: Nanos::ZERO,
            write_cache: false,
            base_latency: Nanos::ZERO,
            deliver_late: Nanos::ZERO,
            deliver_each: Nanos::ZERO,
            hand_over: Nanos::ZERO,
            disorder: 0,
            spread: Quantiles::EVEN,
            write_spread: Quantiles::UNSET,
            seq_spread: Quantiles::UNSET,
            seq_write_spread: Quantiles::UNSET,
            discard_spread: Quantiles::UNSET,
            flush_spread: Quantiles::UNSET,
            flush_waits: true,
            traced_depth: 0,
        }
    }
}

impl SlotsParameters {
    /// The keys of the text form.
    pub(crate) const KEYS: &[Parameter<Self>] = parameters! {
        slots Count in (1, 4096), "servers";
        latency Time in (0, HOUR), "time that every request holds one";
        bandwidth Rate in (1_000, 1_000_000_000_000_000), "rate of each server";
        size Blocks in (4096, 1 << 63), "capacity";
        rotational Switch in SWITCH, "1: the queue says rotational, which schedulers look at";
        hw_queues Count in (1, 1024), "hardware queues";
        queue_depth Count in (1, 65536), "commands that each hardware queue holds";
        max_sectors Count in (8, 65536), "sectors of the largest request that it takes";
        write_latency Time in (0, HOUR), "the same for writes; 0: as latency";
        write_bandwidth Rate in (0, 1_000_000_000_000_000), "the same for writes; 0: as bandwidth";
        seq_latency Time in (0, HOUR), "the same for a read that begins within 256 KiB of where one of the last reads ended; 0: as latency";
        seq_bandwidth Rate in (0, 1_000_000_000_000_000), "the same for such a read; 0: as bandwidth";
        seq_write_latency Time in (0, HOUR), "the same for such a write; 0: as write_latency";
        seq_write_bandwidth Rate in (0, 1_000_000_000_000_000), "the same for such a write; 0: as write_bandwidth";
        discard_latency Time in (0, HOUR), "the same for discards and write zeroes, whatever the size; 0: as write_latency";
        flush_latency Time in (0, HOUR), "the same for a flush; 0: as latency";
        write_cache Switch in SWITCH, "1: the queue says that there is a volatile cache, so that flushes reach the device";
        base_latency Time in (0, HOUR), "time of every command that occupies no server, after its service";
        deliver_late Time in (0, HOUR), "one thread delivers completions: it wakes up to this much after the first, and delivers all that are there";
        deliver_each Time in (0, HOUR), "time that this thread takes for each completion";
        hand_over Time in (0, HOUR), "time until a waiting command takes a server that is free; one that comes meanwhile takes it";
        disorder Share in (0, 1_000_000), "chance that a free server takes any waiting command instead of the oldest";
        flush_waits Switch in SWITCH, "1: a flush waits for a server as every command; 0: it occupies none";
        traced_depth Count in (0, 4096), "the most commands at once in the trace that it was fitted to, if more might be served at once than that shows; a run that goes deeper gets a warning; 0: no such bound";
        spread_min = spread.min Share in SPREAD, "the shortest time that a read holds a server, as a share of latency and transfer";
        spread_p10 = spread.p10 Share in SPREAD, "one read in ten is shorter";
        spread_p25 = spread.p25 Share in SPREAD, "a quarter is shorter";
        spread_p50 = spread.p50 Share in SPREAD, "half are shorter";
        spread_p75 = spread.p75 Share in SPREAD, "a quarter is longer";
        spread_p90 = spread.p90 Share in SPREAD, "one in ten is longer";
        spread_p95 = spread.p95 Share in SPREAD, "one in twenty is longer";
        spread_p99 = spread.p99 Share in SPREAD, "one in a hundred is longer";
        spread_p999 = spread.p999 Share in SPREAD, "one in a thousand is longer";
        spread_max = spread.max Share in SPREAD, "the longest; between two of these times are spread evenly";
        write_spread_min = write_spread.min Share in SPREAD, "the same for writes and all else; 0: as spread_min";
        write_spread_p10 = write_spread.p10 Share in SPREAD, "0: as spread_p10";
        write_spread_p25 = write_spread.p25 Share in SPREAD, "0: as spread_p25";
        write_spread_p50 = write_spread.p50 Share in SPREAD, "0: as spread_p50";
        write_spread_p75 = write_spread.p75 Share in SPREAD, "0: as spread_p75";
        write_spread_p90 = write_spread.p90 Share in SPREAD, "0: as spread_p90";
        write_spread_p95 = write_spread.p95 Share in SPREAD, "0: as spread_p95";
        write_spread_p99 = write_spread.p99 Share in SPREAD, "0: as spread_p99";
        write_spread_p999 = write_spread.p999 Share in SPREAD, "0: as spread_p999";
        write_spread_max = write_spread.max Share in SPREAD, "0: as spread_max";
        seq_spread_min = seq_spread.min Share in SPREAD, "the same for sequential reads; 0: as spread_min";
        seq_spread_p10 = seq_spread.p10 Share in SPREAD, "0: as spread_p10";
        seq_spread_p25 = seq_spread.p25 Share in SPREAD, "0: as spread_p25";
        seq_spread_p50 = seq_spread.p50 Share in SPREAD, "0: as spread_p50";
        seq_spread_p75 = seq_spread.p75 Share in SPREAD, "0: as spread_p75";
        seq_spread_p90 = seq_spread.p90 Share in SPREAD, "0: as spread_p90";
        seq_spread_p95 = seq_spread.p95 Share in SPREAD, "0: as spread_p95";
        seq_spread_p99 = seq_spread.p99 Share in SPREAD, "0: as spread_p99";
        seq_spread_p999 = seq_spread.p999 Share in SPREAD, "0: as spread_p999";
        seq_spread_max = seq_spread.max Share in SPREAD, "0: as spread_max";
        seq_write_spread_min = seq_write_spread.min Share in SPREAD, "the same for sequential writes; 0: as write_spread_min";
        seq_write_spread_p10 = seq_write_spread.p10 Share in SPREAD, "0: as write_spread_p10";
        seq_write_spread_p25 = seq_write_spread.p25 Share in SPREAD, "0: as write_spread_p25";
        seq_write_spread_p50 = seq_write_spread.p50 Share in SPREAD, "0: as write_spread_p50";
        seq_write_spread_p75 = seq_write_spread.p75 Share in SPREAD, "0: as write_spread_p75";
        seq_write_spread_p90 = seq_write_spread.p90 Share in SPREAD, "0: as write_spread_p90";
        seq_write_spread_p95 = seq_write_spread.p95 Share in SPREAD, "0: as write_spread_p95";
        seq_write_spread_p99 = seq_write_spread.p99 Share in SPREAD, "0: as write_spread_p99";
        seq_write_spread_p999 = seq_write_spread.p999 Share in SPREAD, "0: as write_spread_p999";
        seq_write_spread_max = seq_write_spread.max Share in SPREAD, "0: as write_spread_max";
        discard_spread_min = discard_spread.min Share in SPREAD, "the same for discards and write zeroes; 0: as write_spread_min";
        discard_spread_p10 = discard_spread.p10 Share in SPREAD, "0: as write_spread_p10";
        discard_spread_p25 = discard_spread.p25 Share in SPREAD, "0: as write_spread_p25";
        discard_spread_p50 = discard_spread.p50 Share in SPREAD, "0: as write_spread_p50";
        discard_spread_p75 = discard_spread.p75 Share in SPREAD, "0: as write_spread_p75";
        discard_spread_p90 = discard_spread.p90 Share in SPREAD, "0: as write_spread_p90";
        discard_spread_p95 = discard_spread.p95 Share in SPREAD, "0: as write_spread_p95";
        discard_spread_p99 = discard_spread.p99 Share in SPREAD, "0: as write_spread_p99";
        discard_spread_p999 = discard_spread.p999 Share in SPREAD, "0: as write_spread_p999";
        discard_spread_max = discard_spread.max Share in SPREAD, "0: as write_spread_max";
        flush_spread_min = flush_spread.min Share in SPREAD, "the same for flushes; 0: as write_spread_min";
        flush_spread_p10 = flush_spread.p10 Share in SPREAD, "0: as write_spread_p10";
        flush_spread_p25 = flush_spread.p25 Share in SPREAD, "0: as write_spread_p25";
        flush_spread_p50 = flush_spread.p50 Share in SPREAD, "0: as write_spread_p50";
        flush_spread_p75 = flush_spread.p75 Share in SPREAD, "0: as write_spread_p75";
        flush_spread_p90 = flush_spread.p90 Share in SPREAD, "0: as write_spread_p90";
        flush_spread_p95 = flush_spread.p95 Share in SPREAD, "0: as write_spread_p95";
        flush_spread_p99 = flush_spread.p99 Share in SPREAD, "0: as write_spread_p99";
        flush_spread_p999 = flush_spread.p999 Share in SPREAD, "0: as write_spread_p999";
        flush_spread_max = flush_spread.max Share in SPREAD, "0: as write_spread_max";
    };

    /// How its servers are given away.
    fn rules(&self, seed: u64) -> Rules {
        let &Self { slots: servers, hand_over, base_latency: base, disorder, .. } = self;
        let (late, each) = (self.deliver_late, self.deliver_each);
        Rules { servers, hand_over, base, late, each, disorder, seed }
    }

    /// Latency and bandwidth by kind of commands that move data.
    fn costs(&self) -> [(Nanos, Bytes); 4] {
        let or =
            |latency: Nanos, bandwidth: Bytes, (other_latency, other_bandwidth): (Nanos, Bytes)| {
                let latency = if latency.is_zero() { other_latency } else { latency };
                (latency, if bandwidth.is_zero() { other_bandwidth } else { bandwidth })
            };
        let read = (self.latency, self.bandwidth);
        let write = or(self.write_latency, self.write_bandwidth, read);
        let seq_read = or(self.seq_latency, self.seq_bandwidth, read);
        [read, write, seq_read, or(self.seq_write_latency, self.seq_write_bandwidth, write)]
    }

    /// The spreads by kind: as [`Self::costs`], then discards and flushes.
    fn spreads(&self) -> [Quantiles; 6] {
        let writes = self.write_spread.or(&self.spread);
        let (seq_reads, seq_writes) =
            (self.seq_spread.or(&self.spread), self.seq_write_spread.or(&writes));
        [
            self.spread,
            writes,
            seq_reads,
            seq_writes,
            self.discard_spread.or(&writes),
            self.flush_spread.or(&writes),
        ]
    }

    /// Parses the text form, for example `slots=8,latency=2ms`.
    ///
    /// # Errors
    /// There is no such key, it is given twice, or its value is not valid.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        parameter::parse("device slots", Self::KEYS, text)
    }
}

/// Returns how long `bytes` take at `rate` bytes a second, rounded up; zero if the rate is zero (no
/// limit).
#[inline]
pub(crate) fn transfer(bytes: Bytes, rate: Bytes) -> Nanos {
    if rate.is_zero() {
        return Nanos::ZERO;
    }
    match bytes.get().checked_mul(1_000_000_000) {
        Some(scaled) => Nanos::new(scaled.div_ceil(rate.get())),
        None => Nanos::new(
            u64::try_from((u128::from(bytes.get()) * 1_000_000_000).div_ceil(rate.get().into()))
                .unwrap_or(u64::MAX),
        ),
    }
}

/// A `slots` device.
#[derive(Clone, Debug)]
pub struct Slots {
    description: Description,
    servers: Servers<Completion>,
    seed: u64,
    /// By kind, the last request size and its service time: the same size often repeats, and a
    /// division costs more than all the rest.
    last: [(Bytes, Nanos); 4],
    /// Latency and bandwidth by kind: read, write, sequential read, sequential write.
    costs: [(Nanos, Bytes); 4],
    /// The streams of reads and of writes, if sequential ones differ.
    streams: Option<Box<[Streams; 2]>>,
    /// How the times spread by kind, if they do.
    spreads: Option<Box<[Spread; 6]>>,
    /// What a discard and a flush take.
    without_data: [Nanos; 2],
    /// Servers, and the depth up to which a trace has shown what it does, if it has a bound.
    shown: (u32, u32),
    /// Whether a flush waits for a server.
    flush_waits: bool,
}

/// Kinds of commands that move no data. The others are in the order of [`Slots::costs`].
const DISCARD: usize = 4;
const FLUSH: usize = 5;

impl Slots {
    /// Returns a device with these parameters; `seed` is its random seed.
    pub fn new(parameters: &SlotsParameters, seed: u64) -> Self {
        let limits = QueueLimits {
            max_hw_sectors: Sectors::new(parameters.max_sectors.into()),
            rotational: parameters.rotational,
            rotational_written_later: parameters.rotational,
            write_cache: parameters.write_cache,
            ..super::limits_without_medium()
        };
        let description = Description {
            name: "slots".into(),
            size: parameters.size.sectors_floor(),
            limits,
            hw_queues: parameters.hw_queues,
            queue_depth: parameters.queue_depth,
        };
        let costs = parameters.costs();
        let spreads = parameters.spreads();
        let is_by_place =
            (0..2).any(|kind| costs[kind] != costs[kind + 2] || spreads[kind] != spreads[kind + 2]);
        let spreads = spreads.map(|quantiles| Spread::new(&quantiles));
        Self {
            servers: Servers::new(parameters.rules(seed), description.capacity()),
            seed,
            last: costs.map(|(latency, _)| (Bytes::ZERO, latency)),
            costs,
            streams: is_by_place.then(Box::default),
            spreads: (!spreads.iter().all(Spread::is_even)).then(|| Box::new(spreads)),
            without_data: [
                (parameters.discard_latency, costs[1].0),
                (parameters.flush_latency, parameters.latency),
            ]
            .map(|(own, other)| if own.is_zero() { other } else { own }),
            flush_waits: parameters.flush_waits,
            shown: (parameters.slots, parameters.traced_depth),
            description,
        }
    }

    #[inline]
    fn service(&mut self, command: &Command) -> Nanos {
        let mut kind = match command.op {
            op if op.has_data() => usize::from(op.is_write()),
            Op::Flush => FLUSH,
            _ => DISCARD,
        };
        if let Some(streams) = &mut self.streams
            && kind < DISCARD
            && streams[kind].go_on(command.sector, command.bytes)
        {
            kind += 2;
        }
        let even = match self.last.get_mut(kind) {
            None => self.without_data[kind - DISCARD],
            Some(last) => {
                if last.0 != command.bytes {
                    let (latency, bandwidth) = self.costs[kind];
                    *last = (command.bytes, latency + transfer(command.bytes, bandwidth));
                }
                last.1
            }
        };
        let Some(spreads) = &self.spreads else { return even };
        let chance = draw(self.seed, SERVICE, command.sequence);
        Nanos::new(spreads[kind].apply(even.get(), chance))
    }
}

impl Slots {
    /// Returns the depth of the trace that it was fitted to and the larger one that commands have
    /// reached since, if more of them might be served at once than that trace shows.
    pub fn beyond_trace(&self) -> Option<(u32, u32)> {
        let ((servers, traced), waiting) = (self.shown, self.servers.most_waiting() as u32);
        (traced > 0 && waiting > 0 && servers + waiting > traced)
            .then_some((traced, servers + waiting))
    }

    pub(super) const fn description_mut(&mut self) -> &mut Description {
        &mut self.description
    }
}

impl Device for Slots {
    fn description(&self) -> &Description {
        &self.description
    }

    #[inline]
    fn submit(&mut self, now: Instant, command: &Command) -> Accept {
        if !in_range(&self.description, command) {
            return Accept::Error(Status::IoError);
        }
        let service = self.service(command);
        let completion = Completion::success(command);
        if command.op == Op::Flush && !self.flush_waits {
            self.servers.pass(now, command.sequence, service, completion);
        } else {
            self.servers.arrive(now, command.sequence, service, completion);
        }
        Accept::Ok
    }

    #[inline]
    fn next_event(&self) -> Option<Instant> {
        self.servers.next_at()
    }

    #[inline]
    fn poll(&mut self, now: Instant) -> Option<Completion> {
        self.servers.poll(now).map(|(_, completion)| completion)
    }

    fn abort(&mut self, now: Instant, command: &Command) -> bool {
        self.servers.remove(now, command.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{below, draw};
    use crate::device::closed_loop::{ClosedLoop, closed_loop, read_command};

    fn slots(text: &str) -> Slots {
        Slots::new(&SlotsParameters::parse(text).unwrap(), 1)
    }

    #[test]
    fn a_request_holds_a_server_for_latency_and_transfer() {
        let mut device = slots("slots=2,latency=2ms,bandwidth=500MB/s");
        for (id, bytes) in [(0, 4096), (1, 1 << 20), (2, 4096)] {
            assert_eq!(device.submit(Instant::default(), &read_command(id, 0, bytes)), Accept::Ok);
        }
        let mut ends = Vec::new();
        while let Some(at) = device.next_event() {
            assert!(at.get() == 0 || device.poll(Instant::new(at.get() - 1)).is_none());
            ends.push((device.poll(at).unwrap().request.0, at.get()));
        }
        // 4096 B at 2 ns a byte; the third request waits for the first server that becomes free.
        assert_eq!(ends, [(0, 2_008_192), (2, 2 * 2_008_192), (1, 2_000_000 + 2 * (1 << 20))]);
    }

    #[test]
    fn writes_and_flushes_may_cost_something_else() {
        let text = "latency=1ms,bandwidth=100MB/s,write_latency=3ms,write_bandwidth=50MB/s,flush_latency=50us";
        let ends = |text: &str, op: Op| {
            let mut device = slots(text);
            let bytes = if op.has_data() { 5000 } else { 0 };
            let command = Command { op, ..read_command(0, 0, bytes) };
            assert_eq!(device.submit(Instant::default(), &command), Accept::Ok);
            device.next_event().map(Instant::get)
        };
        let all = [Op::Read, Op::Write, Op::Discard, Op::Flush];
        assert_eq!(
            all.map(|op| ends(text, op)),
            [1_050_000, 3_100_000, 3_000_000, 50_000].map(Some)
        );
        let plain = "latency=1ms,bandwidth=100MB/s";
        assert_eq!(
            all.map(|op| ends(plain, op)),
            [1_050_000, 1_050_000, 1_000_000, 1_000_000].map(Some)
        );
        let discards = format!("{text},discard_latency=7ms,discard_spread_min=200%");
        let all = [Op::Write, Op::Discard, Op::WriteZeroes, Op::Flush];
        assert_eq!(
            all.map(|op| ends(&discards, op)),
            [3_100_000, 14_000_000, 14_000_000, 50_000].map(Some)
        );
    }

    /// Reads and writes have streams of their own, and what is not set is as elsewhere.
    #[test]
    fn sequential_commands_may_cost_something_else() {
        let text = "slots=1,latency=1ms,bandwidth=1000MB/s,seq_latency=500us,write_latency=3ms,seq_write_bandwidth=10MB/s";
        let mut device = slots(text);
        let mut now = 0;
        let mut takes = |op: Op, sector: u64| {
            device.submit(Instant::new(now), &Command { op, ..read_command(0, sector, 10_000) });
            let at = device.next_event().expect("one command").get();
            assert!(device.poll(Instant::new(at)).is_some());
            (at - std::mem::replace(&mut now, at)) / 1_000
        };
        let (read, write) = (Op::Read, Op::Write);
        let sectors =
            [(read, 1000), (write, 1500), (read, 1500), (write, 1900), (read, 5000), (write, 5000)];
        assert_eq!(
            sectors.map(|(op, sector)| takes(op, sector)),
            [1_010, 3_010, 510, 4_000, 1_010, 3_010]
        );
        assert!(slots("latency=1ms,seq_latency=1ms").streams.is_none(), "nothing differs");
    }

    #[test]
    fn closed_loop_throughput_is_servers_over_service() {
        for (depth, servers) in [(1, 1), (4, 4), (8, 8), (64, 8)] {
            let measured = closed_loop(
                &mut slots(""),
                &ClosedLoop { depth, ios: 40_000, ..ClosedLoop::default() },
            );
            let expected = f64::from(servers) * 1e9 / 2_008_192.0;
            assert!(
                (measured.iops() / expected - 1.0).abs() < 0.002,
                "{depth}: {} {expected}",
                measured.iops()
            );
        }
    }

    /// Compares with the simplest form: each command in order takes the server that is free first.
    #[test]
    fn agrees_with_next_free_times_on_random_arrivals() {
        let mut device = slots("slots=5,latency=100us,bandwidth=50MB/s,queue_depth=256");
        let mut free = [0u64; 5];
        let (mut expected, mut got, mut now) = (Vec::new(), Vec::new(), 0);
        let mut drain = |device: &mut Slots, until: u64| {
            while let Some(at) = device.next_event().filter(|at| at.get() <= until) {
                got.push((at.get(), device.poll(at).unwrap().request.0));
            }
        };
        for id in 0..5_000u32 {
            now += below(draw(1, 0, id.into()), 80_000);
            drain(&mut device, now);
            let bytes = 512 * (1 + below(draw(1, 1, id.into()), 40));
            device.submit(Instant::new(now), &read_command(id, 0, bytes));
            let server = free.iter_mut().min().unwrap();
            *server = now.max(*server) + 100_000 + bytes * 20;
            expected.push((*server, id));
        }
        drain(&mut device, u64::MAX);
        expected.sort_unstable();
        assert_eq!(got, expected);
    }

    #[test]
    fn an_aborted_command_gives_its_server_to_the_next() {
        let mut device = slots("slots=1,latency=1ms,bandwidth=1000MB/s");
        let commands: Vec<_> = (0..3).map(|id| read_command(id, 0, 1000)).collect();
        commands.iter().for_each(|c| assert_eq!(device.submit(Instant::default(), c), Accept::Ok));
        assert!(device.abort(Instant::new(500), &commands[0]));
        assert!(device.abort(Instant::new(600), &commands[2]));
        assert_eq!(device.next_event(), Some(Instant::new(500 + 1_001_000)));
        assert_eq!(device.poll(Instant::new(1_001_500)).unwrap().request.0, 1);
        assert_eq!(device.next_event(), None);
    }

    #[test]
    fn spread_stretches_what_holds_a_server_and_no_more() {
        let text = "slots=1,latency=1ms,bandwidth=1000MB/s,flush_latency=500us,base_latency=100us,spread_min=200%,\
                    write_spread_min=300%,flush_spread_min=400%";
        for (op, us, waits) in [
            (Op::Read, 2_108, 1),
            (Op::Write, 3_112, 1),
            (Op::Flush, 2_100, 1),
            (Op::Flush, 2_000, 0),
        ] {
            let mut device = slots(&format!("{text},flush_waits={waits}"));
            let bytes = if op.has_data() { 4000 } else { 0 };
            device.submit(Instant::default(), &Command { op, ..read_command(0, 0, bytes) });
            assert!(
                device.poll(Instant::new(us * 1_000 - 1)).is_none()
                    && device.next_event().is_some()
            );
            assert!(device.poll(Instant::new(us * 1_000)).is_some(), "{op:?}");
        }
    }

    /// A client that is back before a server is handed over keeps it, and the others starve; one
    /// that is back later waits its turn, and each hand-over is time in which no process is served.
    #[test]
    fn a_server_that_is_handed_over_is_kept_or_idle() {
        let measured = |more: &str| {
            let mut device = slots(&format!("slots=4,latency=1ms{more}"));
            closed_loop(
                &mut device,
                &ClosedLoop { depth: 16, ios: 20_000, ..ClosedLoop::default() },
            )
        };
        let plain = measured("");
        let (base, kept) = (measured(",base_latency=200us"), measured(",hand_over=100us"));
        let handed = measured(",base_latency=200us,hand_over=100us");
        for (other, share) in [(&base, 1.0), (&kept, 1.0), (&handed, 1.008 / 1.108)] {
            assert!((other.iops() / plain.iops() - share).abs() < 0.01, "{} {share}", other.iops());
        }
        assert!(kept.latency_max.get() > 1000 * plain.latency_max.get(), "{:?}", kept.latency_max);
        assert!(handed.latency_max.get() < 2 * plain.latency_max.get(), "{:?}", handed.latency_max);
    }

    #[test]
    fn transfers_round_up_and_do_not_overflow() {
        assert_eq!(transfer(Bytes::new(1), Bytes::new(3_000_000_000)), Nanos::new(1));
        assert_eq!(transfer(Bytes::new(4096), Bytes::new(500_000_000)), Nanos::new(8192));
        assert_eq!(transfer(Bytes::new(1 << 50), Bytes::new(1_000_000_000)), Nanos::new(1 << 50));
        assert_eq!(transfer(Bytes::new(7), Bytes::ZERO), Nanos::ZERO);
    }
}
