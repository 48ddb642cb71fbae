//! The rules of faults: what fails and when, each with its text form.

use core::ops::RangeInclusive;

use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Instant, Nanos, Sector, Sectors};
use elevon_formats::quantity;

use super::kinds::{FaultKind, KINDS, kind};
use crate::device::text::{Fields, TextError};

/// A range of sectors, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorRange {
    /// First sector.
    pub first: Sector,
    /// Last sector.
    pub last: Sector,
}

impl SectorRange {
    /// The whole device.
    pub const ALL: Self = Self { first: Sector::ZERO, last: Sector::MAX };
}

/// The commands to which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All commands that move data, and discards.
    Any,
    /// Reads.
    Reads,
    /// All commands that write to the device.
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

/// One kind of fault with its parameters. Probabilities are parts per million of the commands to
/// which it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `error`: commands that touch the range fail.
    Error {
        /// The sectors.
        sectors: SectorRange,
        /// The commands to which it applies.
        which: Which,
        /// Probability.
        ppm: u64,
        /// The status of a failed command.
        status: Status,
        /// How long the device retries before it reports the error.
        retry: Nanos,
    },
    /// `latent`: a read finds a run of sectors unreadable; every later read fails there too, until
    /// they are written again.
    Latent {
        /// Probability that a read finds a new run at its sectors.
        ppm: u64,
        /// Longest run in sectors; runs have 1 to this many.
        run: u64,
        /// A run that is bad from the start, if any.
        sectors: Option<SectorRange>,
        /// How long the device retries before it reports the error.
        retry: Nanos,
    },
    /// `uber`: reads find unreadable sectors, one per `bits` bits read.
    Uber {
        /// Mean number of bits read per error.
        bits: u64,
        /// How long the device retries before it reports the error.
        retry: Nanos,
    },
    /// `bit_rot`: a read ends with success and returns other data.
    BitRot {
        /// Probability.
        ppm: u64,
    },
    /// `lost_write`: a write ends with success and is not done.
    LostWrite {
        /// Probability.
        ppm: u64,
    },
    /// `misdirected`: a write ends with success and lands elsewhere.
    Misdirected {
        /// Probability.
        ppm: u64,
        /// Distance behind its place, a multiple of 8.
        by: Sectors,
    },
    /// `reset`: after every `every` commands, all commands in flight fail and the device stops for
    /// a time.
    Reset {
        /// Commands from one reset to the next.
        every: u64,
        /// Duration of a reset.
        lasting: Nanos,
    },
    /// `stall`: after every `every` commands, the whole device stops for a time.
    Stall {
        /// Commands from one stall to the next.
        every: u64,
        /// Duration of a stall.
        lasting: Nanos,
    },
    /// `slow`: the whole device runs slower for a time.
    Slow {
        /// Start time.
        from: Instant,
        /// Duration.
        lasting: Nanos,
        /// How many times slower, at least 2.
        factor: u64,
    },
    /// `no_completion`: the device never completes the command; the host has to abort it.
    NoCompletion {
        /// Probability.
        ppm: u64,
    },
    /// `late`: the completion comes late, and an abort before that is refused.
    Late {
        /// Probability.
        ppm: u64,
        /// The delay.
        by: Nanos,
    },
    /// `busy`: the device refuses a command for lack of resources.
    Busy {
        /// Probability, per try.
        ppm: u64,
    },
    /// `flush_error`: flushes fail.
    FlushError {
        /// Probability.
        ppm: u64,
        /// The status of a failed flush.
        status: Status,
    },
    /// `readonly`: all writes fail after some time.
    ReadOnly {
        /// Start time.
        after: Instant,
    },
    /// `dead`: all commands fail after some time.
    Dead {
        /// Start time.
        after: Instant,
    },
    /// `transport`: the path to the device fails; a retry may succeed.
    Transport {
        /// Probability.
        ppm: u64,
    },
}

/// The lowest rate of unrecoverable bit errors that can be set.
const MAX_BITS: u64 = 1_000_000_000_000_000_000;

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
    /// Returns the rule's name in text and log.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Error { .. } => "error",
            Self::Latent { .. } => "latent",
            Self::Uber { .. } => "uber",
            Self::BitRot { .. } => "bit_rot",
            Self::LostWrite { .. } => "lost_write",
            Self::Misdirected { .. } => "misdirected",
            Self::Reset { .. } => "reset",
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

    /// Parses the text form, `error:sectors=1000-2000,status=medium`. Names, keys and defaults are
    /// those of [`KINDS`].
    ///
    /// # Errors
    /// An unknown kind or key, a value out of its range, or a rule that can never have an effect.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(kind) = kind(name) else {
            let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            return Err(TextError::Whole(format!(
                "no such kind; `elevon faults` lists them ({})",
                known.join(", ")
            )));
        };
        let given = Given::new(kind, rest)?;
        match kind.name {
            "error" => {
                let sectors = given.sectors()?;
                given.needs_place_or_share(sectors)?;
                Ok(Self::Error {
                    sectors: sectors.unwrap_or(SectorRange::ALL),
                    which: given.which()?,
                    ppm: given.count("ppm", 1..=1_000_000)?,
                    status: given.status()?,
                    retry: given.span("retry")?,
                })
            }
            "latent" => {
                let sectors = given.sectors()?;
                given.needs_place_or_share(sectors)?;
                let ppm = given.count("ppm", 0..=1_000_000)?;
                Ok(Self::Latent {
                    ppm,
                    run: given.count("run", 1..=1 << 20)?,
                    sectors,
                    retry: given.span("retry")?,
                })
            }
            "uber" => Ok(Self::Uber {
                bits: given.count("bits", 4096..=MAX_BITS)?,
                retry: given.span("retry")?,
            }),
            "bit_rot" => Ok(Self::BitRot { ppm: given.ppm()? }),
            "lost_write" => Ok(Self::LostWrite { ppm: given.ppm()? }),
            "misdirected" => Ok(Self::Misdirected { ppm: given.ppm()?, by: given.distance()? }),
            "reset" => Ok(Self::Reset {
                every: given.count("every", 1..=u64::MAX)?,
                lasting: given.span("for")?,
            }),
            "stall" => Ok(Self::Stall {
                every: given.count("every", 1..=u64::MAX)?,
                lasting: given.span("for")?,
            }),
            "slow" => Ok(Self::Slow {
                from: given.instant("from")?,
                lasting: given.span("for")?,
                factor: given.count("factor", 2..=1_000_000)?,
            }),
            "no_completion" => Ok(Self::NoCompletion { ppm: given.ppm()? }),
            "late" => Ok(Self::Late { ppm: given.ppm()?, by: given.span("by")? }),
            "busy" => Ok(Self::Busy { ppm: given.count("ppm", 1..=999_999)? }),
            "flush_error" => Ok(Self::FlushError { ppm: given.ppm()?, status: given.status()? }),
            "readonly" => Ok(Self::ReadOnly { after: given.instant("after")? }),
            "dead" => Ok(Self::Dead { after: given.instant("after")? }),
            "transport" => Ok(Self::Transport { ppm: given.ppm()? }),
            _ => unreachable!("`{name}` has a row in KINDS and no rule"),
        }
    }

    /// Returns the sectors that the rule names, if any.
    pub const fn sectors(&self) -> Option<SectorRange> {
        match *self {
            Self::Error { sectors, .. } if sectors.last.get() != Sector::MAX.get() => Some(sectors),
            Self::Latent { sectors, .. } => sectors,
            _ => None,
        }
    }

    /// Returns true if a disk with real bytes cannot have this fault.
    pub fn needs_simulation(&self) -> bool {
        kind(self.name()).is_some_and(|kind| kind.needs_simulation)
    }

    /// Refuses a rule that names sectors beyond a device of `size` sectors.
    ///
    /// # Errors
    /// The range ends past the last sector.
    pub fn check_size(&self, size: u64) -> Result<(), TextError> {
        match self.sectors() {
            Some(SectorRange { first, last }) if last.get() >= size => Err(TextError::BadValue {
                scope: format!("fault {}", self.name()),
                key: "sectors".into(),
                value: format!("{}-{}", first.get(), last.get()),
                expected: format!("sectors of the device, 0 to {}", size.saturating_sub(1)),
            }),
            _ => Ok(()),
        }
    }
}

/// The keys that a text gives; the others have the defaults of the kind's table.
struct Given<'a> {
    kind: &'static FaultKind,
    scope: String,
    fields: Fields<'a>,
}

impl<'a> Given<'a> {
    fn new(kind: &'static FaultKind, text: &'a str) -> Result<Self, TextError> {
        let scope = format!("fault {}", kind.name);
        let known: Vec<_> = kind.keys.iter().map(|key| key.name).collect();
        Ok(Self { kind, fields: Fields::parse(&scope, text, &known)?, scope })
    }

    /// Returns the default of a key that is not given.
    fn default(&self, key: &str) -> Option<&'static str> {
        let row = self.kind.keys.iter().find(|row| row.name == key);
        row.unwrap_or_else(|| panic!("{}: `{key}` has no row in KINDS", self.scope)).default
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.fields.raw(key).or_else(|| self.default(key))
    }

    fn span(&self, key: &str) -> Result<Nanos, TextError> {
        let default = self
            .default(key)
            .and_then(|text| quantity::time(text).ok())
            .expect("a default that is a time");
        self.fields.span(key, default)
    }

    fn instant(&self, key: &str) -> Result<Instant, TextError> {
        Ok(Instant::default() + self.span(key)?)
    }

    fn count(&self, key: &str, range: RangeInclusive<u64>) -> Result<u64, TextError> {
        let default = self
            .default(key)
            .and_then(|text| text.parse().ok())
            .expect("a default that is a number");
        self.fields.count(key, default, range)
    }

    fn ppm(&self) -> Result<u64, TextError> {
        self.count("ppm", 1..=1_000_000)
    }

    /// Parses a distance in whole blocks of 4096 bytes, so that a misdirected write covers whole
    /// blocks of the device.
    fn distance(&self) -> Result<Sectors, TextError> {
        let by = self.count("by", 8..=1 << 20)?;
        if !by.is_multiple_of(8) {
            return Err(self.fields.bad("by", "sectors, a multiple of 8"));
        }
        Ok(Sectors::new(by))
    }

    /// Refuses a rule without sectors and without a probability: it would do nothing, or make every
    /// command fail.
    fn needs_place_or_share(&self, sectors: Option<SectorRange>) -> Result<(), TextError> {
        if sectors.is_none() && self.fields.raw("ppm").is_none_or(|ppm| ppm == "0") {
            return Err(TextError::Whole(
                "needs sectors=FIRST-LAST, ppm=1..1000000, or both".into(),
            ));
        }
        Ok(())
    }

    fn sectors(&self) -> Result<Option<SectorRange>, TextError> {
        let Some(text) = self.text("sectors") else { return Ok(None) };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => {
                Ok(Some(SectorRange { first: Sector::new(first), last: Sector::new(last) }))
            }
            _ => Err(self
                .fields
                .bad("sectors", "FIRST-LAST in 512-byte sectors, both included, as in 1000-2000")),
        }
    }

    fn which(&self) -> Result<Which, TextError> {
        match self.text("op") {
            Some("any") => Ok(Which::Any),
            Some("read") => Ok(Which::Reads),
            Some("write") => Ok(Which::Writes),
            _ => Err(self.fields.bad("op", "any, read or write")),
        }
    }

    fn status(&self) -> Result<Status, TextError> {
        let text = self.text("status").unwrap_or("");
        STATUSES.iter().find(|(name, _)| *name == text).map(|&(_, status)| status).ok_or_else(
            || {
                let names: Vec<_> = STATUSES.iter().map(|(name, _)| *name).collect();
                self.fields.bad("status", format!("one of {}", names.join(", ")))
            },
        )
    }
}
