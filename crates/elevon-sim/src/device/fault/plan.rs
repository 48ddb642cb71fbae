//! What goes wrong and when: rules, each with its text form.

use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Instant, Nanos, Sector};

use crate::device::text::{Fields, TextError};

/// A range of sectors, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorRange {
    /// First.
    pub first: Sector,
    /// Last.
    pub last: Sector,
}

impl SectorRange {
    /// The whole device.
    pub const ALL: Self = Self { first: Sector::ZERO, last: Sector::MAX };
}

/// Which commands a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that move data, and discards.
    Any,
    /// Reads.
    Reads,
    /// Everything to the device.
    Writes,
}

impl Which {
    pub(super) const fn has(self, op: Op) -> bool {
        match self {
            Self::Any => !matches!(op, Op::Flush),
            Self::Reads => matches!(op, Op::Read),
            Self::Writes => op.is_write(),
        }
    }
}

/// One thing that goes wrong. Probabilities are parts per million of the commands concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `error`: commands that touch the range fail.
    Error {
        /// Where.
        sectors: SectorRange,
        /// Which commands.
        which: Which,
        /// How often.
        ppm: u64,
        /// What they end with.
        status: Status,
        /// How long the device tries before it says so.
        retry: Nanos,
    },
    /// `latent`: a read finds a run of sectors unreadable, and so does every later one until they are written again.
    Latent {
        /// Chance that a read finds a new run at its place.
        ppm: u64,
        /// Longest run, sectors; runs are of 1 to this many.
        run: u64,
        /// A run that is bad from the start, if any.
        sectors: Option<SectorRange>,
        /// How long the device tries before it says so.
        retry: Nanos,
    },
    /// `stall`: with every so many commands the whole device stands still for a time.
    Stall {
        /// Commands from one stall to the next.
        every: u64,
        /// How long.
        lasting: Nanos,
    },
    /// `slow`: the whole device runs slower for a time.
    Slow {
        /// From when.
        from: Instant,
        /// How long.
        lasting: Nanos,
        /// How many times slower, 2 and up.
        factor: u64,
    },
    /// `no_completion`: the device never answers; the host has to abort.
    NoCompletion {
        /// How often.
        ppm: u64,
    },
    /// `late`: the answer comes later than it should, and an abort meanwhile is refused.
    Late {
        /// How often.
        ppm: u64,
        /// How much later.
        by: Nanos,
    },
    /// `busy`: the device refuses a command for lack of resources.
    Busy {
        /// How often, of the tries.
        ppm: u64,
    },
    /// `flush_error`: flushes fail.
    FlushError {
        /// How often.
        ppm: u64,
        /// What they end with.
        status: Status,
    },
    /// `readonly`: from some time on all writes fail.
    ReadOnly {
        /// From when.
        after: Instant,
    },
    /// `dead`: from some time on everything fails.
    Dead {
        /// From when.
        after: Instant,
    },
    /// `transport`: the way to the device fails; a retry may succeed.
    Transport {
        /// How often.
        ppm: u64,
    },
}

/// What there is, for help and for errors.
pub const NAMES: &str = "error, latent, stall, slow, no_completion, late, busy, flush_error, readonly, dead, transport";

const STATUSES: &[(&str, Status)] = &[
    ("medium", Status::Medium),
    ("io", Status::IoError),
    ("transport", Status::Transport),
    ("target", Status::Target),
    ("timeout", Status::Timeout),
    ("nospace", Status::NoSpace),
    ("protection", Status::Protection),
    ("offline", Status::Offline),
];

impl Rule {
    /// The rule's name in text and log.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Error { .. } => "error",
            Self::Latent { .. } => "latent",
            Self::Stall { .. } => "stall",
            Self::Slow { .. } => "slow",
            Self::NoCompletion { .. } => "no_completion",
            Self::Late { .. } => "late",
            Self::Busy { .. } => "busy",
            Self::FlushError { .. } => "flush_error",
            Self::ReadOnly { .. } => "readonly",
            Self::Dead { .. } => "dead",
            Self::Transport { .. } => "transport",
        }
    }

    /// From the text form, `error:sectors=1000-2000,status=medium`.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let scope = format!("fault {name}");
        let fields = |known| Fields::parse(&scope, rest, known);
        match name {
            "error" => {
                let fields = fields(&["sectors", "ppm", "status", "op", "retry"])?;
                let sectors = sectors(&fields)?;
                if sectors.is_none() && fields.raw("ppm").is_none() {
                    return Err(fields.bad("ppm", "where or how often: sectors=FIRST-LAST, or ppm=1..1000000, or both"));
                }
                Ok(Self::Error {
                    sectors: sectors.unwrap_or(SectorRange::ALL),
                    which: which(&fields)?,
                    ppm: fields.count("ppm", 1_000_000, 0..=1_000_000)?,
                    status: status(&fields, Status::Medium)?,
                    retry: fields.span("retry", Nanos::ZERO)?,
                })
            }
            "latent" => {
                let fields = fields(&["ppm", "run", "sectors", "retry"])?;
                Ok(Self::Latent {
                    ppm: fields.count("ppm", 0, 0..=1_000_000)?,
                    run: fields.count("run", 64, 1..=1 << 20)?,
                    sectors: sectors(&fields)?,
                    retry: fields.span("retry", Nanos::ZERO)?,
                })
            }
            "stall" => {
                let fields = fields(&["every", "for"])?;
                let every = fields.count("every", 1000, 1..=u64::MAX)?;
                Ok(Self::Stall { every, lasting: fields.span("for", Nanos::from_millis(200))? })
            }
            "slow" => {
                let fields = fields(&["from", "for", "factor"])?;
                Ok(Self::Slow {
                    from: Instant::default() + fields.span("from", Nanos::ZERO)?,
                    lasting: fields.span("for", Nanos::from_secs(3600))?,
                    factor: fields.count("factor", 2, 2..=1_000_000)?,
                })
            }
            "no_completion" => Ok(Self::NoCompletion { ppm: ppm(&fields(&["ppm"])?)? }),
            "late" => {
                let fields = fields(&["ppm", "by"])?;
                Ok(Self::Late { ppm: ppm(&fields)?, by: fields.span("by", Nanos::from_secs(31))? })
            }
            "busy" => Ok(Self::Busy { ppm: fields(&["ppm"])?.count("ppm", 50_000, 1..=999_999)? }),
            "flush_error" => {
                let fields = fields(&["ppm", "status"])?;
                Ok(Self::FlushError { ppm: ppm(&fields)?, status: status(&fields, Status::IoError)? })
            }
            "readonly" => Ok(Self::ReadOnly { after: after(&fields(&["after"])?)? }),
            "dead" => Ok(Self::Dead { after: after(&fields(&["after"])?)? }),
            "transport" => Ok(Self::Transport { ppm: ppm(&fields(&["ppm"])?)? }),
            _ => Err(TextError::UnknownName { name: name.into(), known: NAMES.into() }),
        }
    }
}

fn ppm(fields: &Fields<'_>) -> Result<u64, TextError> {
    fields.count("ppm", 1_000_000, 1..=1_000_000)
}

fn after(fields: &Fields<'_>) -> Result<Instant, TextError> {
    Ok(Instant::default() + fields.span("after", Nanos::ZERO)?)
}

fn sectors(fields: &Fields<'_>) -> Result<Option<SectorRange>, TextError> {
    let Some(text) = fields.raw("sectors") else { return Ok(None) };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => {
            Ok(Some(SectorRange { first: Sector::new(first), last: Sector::new(last) }))
        }
        _ => Err(fields.bad("sectors", "FIRST-LAST in 512-byte sectors, both included, as in 1000-2000")),
    }
}

fn which(fields: &Fields<'_>) -> Result<Which, TextError> {
    match fields.raw("op") {
        None | Some("any") => Ok(Which::Any),
        Some("read") => Ok(Which::Reads),
        Some("write") => Ok(Which::Writes),
        Some(_) => Err(fields.bad("op", "any, read or write")),
    }
}

fn status(fields: &Fields<'_>, default: Status) -> Result<Status, TextError> {
    let Some(text) = fields.raw("status") else { return Ok(default) };
    STATUSES.iter().find(|(name, _)| *name == text).map(|&(_, status)| status).ok_or_else(|| {
        let names: Vec<_> = STATUSES.iter().map(|(name, _)| *name).collect();
        fields.bad("status", format!("one of {}", names.join(", ")))
    })
}
