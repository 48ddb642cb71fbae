//! The model that is fitted, and its latencies for observed requests.

use elevon_core::units::{Bytes, Instant, Nanos};

use elevon_sim::chance::draw;
use elevon_sim::device::SlotsParameters;
use elevon_sim::device::parameter::HOUR;
use elevon_sim::device::slots::servers::{Rules, Servers};
use elevon_sim::device::slots::spread::{Quantiles, Spread};

/// Random seed of the trials. It is the same for each, so that they can be compared.
const SEED: u64 = 1;
/// Purposes of the draws of service times: of the order in which they are drawn, and within.
const SERVICE: u64 = 0xf17_0001;
const WITHIN: u64 = 0xf17_0002;
/// Bytes per second if the size costs nothing: the maximum of the parameter.
const FASTEST: Bytes = Bytes::new(1_000_000_000_000_000);
/// Smallest rate that the parameter takes.
const SLOWEST: Bytes = Bytes::new(1000);
/// Marks a request that was in the device before a window began.
const BEFORE: u32 = u32::MAX;

/// A value for each kind, at its index. The length is a number, because the compiler fails on
/// closures that update a field whose length is a constant of a type.
pub(crate) type ByKind<T> = [T; 6];

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A read; if [`Kind::SequentialRead`] occurs, one that is not sequential.
    Read,
    /// A write; if [`Kind::SequentialWrite`] occurs, one that is not sequential.
    Write,
    /// A read that goes on where another ended ([`elevon_sim::device::slots::place`]).
    SequentialRead,
    /// A write that goes on where another ended.
    SequentialWrite,
    /// A discard, a secure erase or a write of zeroes, which take one time whatever their size.
    Discard,
    /// A flush.
    Flush,
}

impl Kind {
    /// All kinds, each at its own index.
    pub const ALL: ByKind<Self> = [
        Self::Read,
        Self::Write,
        Self::SequentialRead,
        Self::SequentialWrite,
        Self::Discard,
        Self::Flush,
    ];

    /// Returns true if requests of this kind move data.
    pub const fn has_data(self) -> bool {
        !matches!(self, Self::Discard | Self::Flush)
    }

    /// Returns the kind whose costs this one has if there are none of it.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write | Self::SequentialRead => Self::Read,
            Self::SequentialWrite | Self::Discard | Self::Flush => Self::Write,
        }
    }
}

/// A request that was observed. Times are nanoseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// When it was issued to the device.
    pub issued: u64,
    /// When it completed, not before.
    pub completed: u64,
    /// First sector.
    pub sector: u64,
    /// Length; 0 for a flush and a discard.
    pub bytes: u64,
    /// Its kind.
    pub kind: Kind,
}

impl Served {
    pub(super) fn latency(&self) -> u64 {
        self.completed - self.issued
    }
}

/// Time for which a request of a kind occupies a server, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Time of every request.
    pub latency: f64,
    /// Time per byte.
    pub per_byte: f64,
}

impl Cost {
    /// Returns the time of a request of `bytes`.
    pub fn of(&self, bytes: u64) -> f64 {
        self.latency + self.per_byte * bytes as f64
    }

    /// Returns the bytes per second of a server; 0 if the size costs nothing.
    pub fn bandwidth(&self) -> u64 {
        if self.per_byte > 0.0 { (1e9 / self.per_byte) as u64 } else { 0 }
    }
}

/// The fitted device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Servers.
    pub servers: u64,
    /// Costs by kind, which include [`Model::base`]. A kind without requests has the costs of
    /// another.
    pub costs: ByKind<Cost>,
    /// Nanoseconds of each cost that do not occupy a server.
    pub base: f64,
    /// Nanoseconds until a waiting request takes a free server.
    pub hand_over: f64,
    /// Probability that a free server takes any waiting request instead of the oldest.
    pub disorder: f64,
    /// True if a flush waits for a server, as reads and writes do.
    pub flush_waits: bool,
    /// Spread of the service times by kind.
    pub spreads: ByKind<Quantiles>,
}

impl Model {
    pub(super) fn from_servers(servers: u64, costs: ByKind<Cost>) -> Self {
        let spreads = [Quantiles::EVEN; 6];
        Self {
            servers,
            costs,
            base: 0.0,
            hand_over: 0.0,
            disorder: 0.0,
            flush_waits: true,
            spreads,
        }
    }

    /// Returns the time for which a request of a kind occupies a server. For a flush that occupies
    /// none, returns its latency.
    pub fn held(&self, kind: Kind) -> Cost {
        let cost = self.costs[kind as usize];
        if kind == Kind::Flush && !self.flush_waits {
            return cost;
        }
        Cost { latency: (cost.latency - self.base).max(0.0), ..cost }
    }

    /// Returns true if requests of this kind take another time than those of the kind that it would
    /// have without its place.
    pub fn is_by_place(&self, kind: Kind) -> bool {
        let [own, other] = [kind, kind.other()]
            .map(|kind| (self.costs[kind as usize], self.spreads[kind as usize]));
        matches!(kind, Kind::SequentialRead | Kind::SequentialWrite) && own != other
    }

    /// Returns the maximum of [`Model::base`].
    pub(super) fn base_limit(&self) -> f64 {
        let waiting =
            if self.flush_waits { &self.costs[..] } else { &self.costs[..Kind::Flush as usize] };
        let least = waiting.iter().map(|cost| cost.latency).fold(f64::INFINITY, f64::min);
        (least - 1.0).max(0.0)
    }

    fn rules(&self) -> Rules {
        Rules {
            servers: self.servers as u32,
            hand_over: Nanos::new(self.hand_over as u64),
            base: Nanos::new(self.base as u64),
            disorder: parts(self.disorder),
            seed: SEED,
            ..Rules::default()
        }
    }

    /// Returns the model as parameters of a device. `has` tells which kinds of requests there were:
    /// without flushes the device has no volatile cache, and without writes or discards it has no
    /// times of their own. Times are at least 100 ns, because zero refers to another time, and
    /// every figure is within the range of its parameter.
    pub(super) fn parameters(&self, has: impl Fn(Kind) -> bool) -> SlotsParameters {
        let time = |ns: f64| Nanos::new(((ns / 100.0).round() as u64).clamp(1, HOUR / 100) * 100);
        let or_none = |ns: f64| if ns < 50.0 { Nanos::ZERO } else { time(ns) };
        let rate = |cost: Cost| {
            let rate = Bytes::new(cost.bandwidth() / 1000 * 1000);
            if cost.per_byte > 0.0 { rate.clamp(SLOWEST, FASTEST) } else { FASTEST }
        };
        let [read, write, seq_read, seq_write, discard, flush] =
            Kind::ALL.map(|kind| self.held(kind));
        let [spread, writes, seq_reads, seq_writes, discards, flushes] = self.spreads;
        let [has_writes, has_discards, has_flushes] =
            [Kind::Write, Kind::Discard, Kind::Flush].map(has);
        let unless =
            |own: Quantiles, other: Quantiles| if own == other { Quantiles::UNSET } else { own };
        let [seq_read, seq_write] = [(seq_read, read), (seq_write, write)].map(|(own, other)| {
            if own == other { (Nanos::ZERO, Bytes::ZERO) } else { (time(own.latency), rate(own)) }
        });
        SlotsParameters {
            slots: self.servers as u32,
            latency: time(read.latency),
            bandwidth: rate(read),
            write_latency: if has_writes { time(write.latency) } else { Nanos::ZERO },
            write_bandwidth: if has_writes { rate(write) } else { Bytes::ZERO },
            seq_latency: seq_read.0,
            seq_bandwidth: seq_read.1,
            seq_write_latency: seq_write.0,
            seq_write_bandwidth: seq_write.1,
            discard_latency: if has_discards { time(discard.latency) } else { Nanos::ZERO },
            flush_latency: if has_flushes { time(flush.latency) } else { Nanos::ZERO },
            write_cache: has_flushes,
            base_latency: or_none(self.base),
            hand_over: or_none(self.hand_over),
            disorder: parts(self.disorder),
            spread,
            flush_waits: self.flush_waits || !has_flushes,
            write_spread: unless(writes, spread),
            seq_spread: unless(seq_reads, spread),
            seq_write_spread: unless(seq_writes, writes),
            discard_spread: if has_discards { unless(discards, writes) } else { Quantiles::UNSET },
            flush_spread: if has_flushes { unless(flushes, writes) } else { Quantiles::UNSET },
            ..SlotsParameters::default()
        }
    }

    /// Returns the nanoseconds from issue to completion of each request of the windows. Each window
    /// starts with the requests that were in the device at that time, so that a small error of the
    /// costs does not accumulate.
    pub(super) fn latencies(&self, served: &[Served], windows: &[(usize, usize)]) -> Vec<u64> {
        let mut all = vec![0; windows.iter().map(|(from, until)| until - from).sum()];
        let service = Service::new(self);
        let mut filled = 0;
        let windows = windows.iter().flat_map(|&(from, until)| {
            (from..until).step_by(super::WINDOW).map(move |at| (at, until.min(at + super::WINDOW)))
        });
        // Numbers of the requests that may still be in the device, in order of issue.
        let (mut before, mut seen): (Vec<usize>, usize) = (Vec::new(), 0);
        for (from, until) in windows {
            let now = served[from].issued;
            before.extend(seen..from);
            before.retain(|&at| served[at].completed > now);
            seen = from;
            let mut servers = Servers::new(self.rules(), 64);
            self.enter(&mut servers, served, &before, now, &service);
            let own = &mut all[filled..filled + until - from];
            filled += until - from;
            let mut take = |servers: &mut Servers<u32>, now: u64| {
                while let Some((at, item)) = servers.poll(Instant::new(now)) {
                    if item != BEFORE {
                        own[item as usize] = at.get() - served[from + item as usize].issued;
                    }
                }
            };
            for (n, one) in served[from..until].iter().enumerate() {
                take(&mut servers, one.issued);
                let (now, time) = (Instant::new(one.issued), service.of(one, from + n));
                if self.waits(one) {
                    servers.arrive(now, n as u64, time, n as u32);
                } else {
                    servers.pass(now, n as u64, time, n as u32);
                }
            }
            take(&mut servers, u64::MAX);
        }
        all
    }

    /// Returns true if a request waits for a server.
    pub(super) fn waits(&self, one: &Served) -> bool {
        self.flush_waits || one.kind != Kind::Flush
    }

    /// Fills servers with the requests in the device. Behind a FIFO those that were issued first
    /// are in service, otherwise those that complete first; the rest wait.
    fn enter(
        &self,
        servers: &mut Servers<u32>,
        served: &[Served],
        before: &[usize],
        now: u64,
        service: &Service,
    ) {
        let mut inside: Vec<usize> =
            before.iter().copied().filter(|&at| self.waits(&served[at])).collect();
        if self.hand_over > 0.0 || self.disorder > 0.0 {
            inside.sort_by_key(|&at| (served[at].completed, at));
        }
        let (first, rest) = inside.split_at(inside.len().min(self.servers as usize));
        let mut rest = rest.to_vec();
        rest.sort_unstable();
        let sequence = |at: usize| u64::MAX - at as u64;
        for &at in first {
            let left = served[at].completed.saturating_sub(now).saturating_sub(self.base as u64);
            servers.arrive(Instant::new(now), sequence(at), Nanos::new(left), BEFORE);
        }
        for at in rest {
            servers.arrive(Instant::new(now), sequence(at), service.of(&served[at], at), BEFORE);
        }
    }
}

/// Draws service times of a model.
struct Service {
    held: ByKind<Cost>,
    spreads: ByKind<Spread>,
}

impl Service {
    fn new(model: &Model) -> Self {
        Self {
            held: Kind::ALL.map(|kind| model.held(kind)),
            spreads: model.spreads.map(|quantiles| Spread::new(&quantiles)),
        }
    }

    /// Returns the service time of a request; `number` decides its random draw.
    fn of(&self, one: &Served, number: usize) -> Nanos {
        let even = self.held[one.kind as usize].of(one.bytes) as u64;
        let spread = &self.spreads[one.kind as usize];
        Nanos::new(if spread.is_even() { even } else { spread.apply(even, chance(number as u64)) })
    }
}

/// Returns the random number of a request. Of 64 consecutive requests each has another 64th of the
/// range, in random order, so that a few windows have the mean of many.
fn chance(number: u64) -> u64 {
    let block = draw(SEED, SERVICE, number / 64);
    let place = (number % 64).wrapping_mul(block << 1 | 1).wrapping_add(block >> 32) % 64;
    place << 58 | draw(SEED, WITHIN, number) >> 6
}

fn parts(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 1e6).round() as u64
}
