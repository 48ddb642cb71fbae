//! The table of fault kinds: what `--fault` parses, `elevon faults` shows and
//! `docs/reference/faults.md` lists.
//!
//! [`Rule::parse`](super::Rule::parse) takes names, keys and defaults from here, so a kind or a key
//! without a row cannot be used.

/// A key of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name in the text form.
    pub name: &'static str,
    /// Its valid values, with the range.
    pub takes: &'static str,
    /// The value if the key is not given, as text; `None` if there is none.
    pub default: Option<&'static str>,
    /// What it means.
    pub meaning: &'static str,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
pub struct FaultKind {
    /// Its name in the text form and in reports.
    pub name: &'static str,
    /// The effect.
    pub effect: &'static str,
    /// What the report counts as one firing of the rule.
    pub counts: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// An example for `--fault`.
    pub example: &'static str,
    /// True if it changes data, or the time that a model computes: a disk with real bytes, on
    /// which commands can only fail or end late, does not have it.
    pub needs_simulation: bool,
}

impl FaultKind {
    /// Returns which devices can have it, as a sentence.
    pub const fn devices(&self) -> &'static str {
        if self.needs_simulation {
            "Only simulated devices have it."
        } else {
            "Simulated devices have it, and any device that is served."
        }
    }
}

const fn key(
    name: &'static str,
    takes: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, takes, default: Some(default), meaning }
}

const SECTORS: &str = "FIRST-LAST, sectors of 512 bytes, both included";
const PPM: &str = "1 to 1000000, parts per million";
const TIME: &str = "a time up to 3600s (ns, us, ms, s)";
const STATUS: &str = "medium, io, transport, target, timeout, nospace, protection or offline";
const RETRY: Key =
    key("retry", TIME, "0", "time that the device tries before it reports the error");
const AFTER: Key = key("after", TIME, "0", "time of the run from which on it is so");

const fn often(meaning: &'static str) -> Key {
    key("ppm", PPM, "1000000", meaning)
}

/// All kinds of faults, in the order of the lists.
pub const KINDS: &[FaultKind] = &[
    FaultKind {
        name: "error",
        effect: "Commands fail that touch a range of sectors, or a share of all commands, or of those that touch the range. One of `sectors` and `ppm` must be given.",
        counts: "a command that it made fail",
        keys: &[
            Key {
                name: "sectors",
                takes: SECTORS,
                default: None,
                meaning: "where; the whole device if not given",
            },
            often("share of the commands concerned that fail"),
            key("op", "any, read or write", "any", "which commands; any: all but flushes"),
            key("status", STATUS, "medium", "what the command ends with"),
            RETRY,
        ],
        example: "error:sectors=1000-2000,status=medium",
        needs_simulation: false,
    },
    FaultKind {
        name: "latent",
        effect: "A read finds a run of sectors unreadable (a medium error), and so does every later read of them until they are written again. One of `ppm` and `sectors` must be given.",
        counts: "a read that failed because of it",
        keys: &[
            key(
                "ppm",
                "0 to 1000000, parts per million",
                "0",
                "share of reads that find a new unreadable run",
            ),
            key(
                "run",
                "1 to 1048576 sectors",
                "64",
                "longest run; a run has 1 to this many sectors",
            ),
            Key {
                name: "sectors",
                takes: SECTORS,
                default: None,
                meaning: "a run that is unreadable from the start",
            },
            RETRY,
        ],
        example: "latent:ppm=100,run=16,retry=2s",
        needs_simulation: false,
    },
    FaultKind {
        name: "uber",
        effect: "Reads meet unrecoverable bit errors as often as a data sheet states: one in so many bits read, so that long reads meet more. The sector is unreadable (a medium error) until it is written again.",
        counts: "a read that failed because of it",
        keys: &[
            key(
                "bits",
                "4096 to 1000000000000000000 bits",
                "1000000000000000",
                "bits read from one error to the next, on average",
            ),
            RETRY,
        ],
        example: "uber:bits=100000000000000",
        needs_simulation: false,
    },
    FaultKind {
        name: "bit_rot",
        effect: "A read ends well, and what it brought is wrong. A simulated run has no bytes, so no job sees it and the report counts it; a client of `elevon serve` does.",
        counts: "a read that brought something else",
        keys: &[often("share of reads")],
        example: "bit_rot:ppm=10",
        needs_simulation: true,
    },
    FaultKind {
        name: "lost_write",
        effect: "The device reports a write as done and never makes it: what was there before stays. A simulated run has no bytes, so no job sees it and the report counts it; a client of `elevon serve` does.",
        counts: "a write that was not made",
        keys: &[often("share of writes")],
        example: "lost_write:ppm=10",
        needs_simulation: true,
    },
    FaultKind {
        name: "misdirected",
        effect: "A write lands in another place than it should and ends well. A simulated run has no bytes, so no job sees it and the report counts it; a client of `elevon serve` does.",
        counts: "a write that landed elsewhere",
        keys: &[
            often("share of writes"),
            key(
                "by",
                "8 to 1048576 sectors, a multiple of 8",
                "8",
                "how far behind its place it lands; before it where the device ends",
            ),
        ],
        example: "misdirected:ppm=10,by=64",
        needs_simulation: true,
    },
    FaultKind {
        name: "reset",
        effect: "After every so many commands the device resets: every command in flight ends with a transport error, and the device does nothing for a time. Its write cache keeps what it holds.",
        counts: "a reset",
        keys: &[
            key("every", "1 and more commands", "100000", "commands from one reset to the next"),
            key("for", TIME, "1s", "how long a reset takes"),
        ],
        example: "reset:every=20000,for=2s",
        needs_simulation: false,
    },
    FaultKind {
        name: "stall",
        effect: "After every so many commands the whole device stands still for a time; nothing is lost.",
        counts: "a time that the device stood still",
        keys: &[
            key("every", "1 and more commands", "1000", "commands from one stall to the next"),
            key("for", TIME, "200ms", "how long the device stands still"),
        ],
        example: "stall:every=5000,for=1s",
        needs_simulation: false,
    },
    FaultKind {
        name: "slow",
        effect: "The whole device runs slower for a time.",
        counts: "a command that reached the device in this time",
        keys: &[
            key("from", TIME, "0", "time of the run at which it begins"),
            key("for", TIME, "3600s", "how long it lasts"),
            key("factor", "2 to 1000000", "2", "how many times slower"),
        ],
        example: "slow:from=1s,for=2s,factor=10",
        needs_simulation: true,
    },
    FaultKind {
        name: "no_completion",
        effect: "The device never answers a command; when `--set io_timeout` (30 s) has passed the host aborts it and tries again.",
        counts: "a command that is never answered",
        keys: &[often("share of commands")],
        example: "no_completion:ppm=10",
        needs_simulation: false,
    },
    FaultKind {
        name: "late",
        effect: "The answer to a command comes later than it should, and the device refuses an abort meanwhile. The default is longer than the timeout of 30 s.",
        counts: "a command that was answered late",
        keys: &[often("share of commands"), key("by", TIME, "31s", "how much later")],
        example: "late:ppm=100,by=31s",
        needs_simulation: false,
    },
    FaultKind {
        name: "busy",
        effect: "The device refuses a command for lack of resources; the host tries again.",
        counts: "a refusal",
        keys: &[key(
            "ppm",
            "1 to 999999, parts per million",
            "50000",
            "share of the tries that are refused",
        )],
        example: "busy:ppm=50000",
        needs_simulation: false,
    },
    FaultKind {
        name: "flush_error",
        effect: "Flushes of the device's write cache fail.",
        counts: "a flush that it made fail",
        keys: &[often("share of flushes"), key("status", STATUS, "io", "what the flush ends with")],
        example: "flush_error:ppm=100000",
        needs_simulation: false,
    },
    FaultKind {
        name: "readonly",
        effect: "From some time on every write and discard fails with an I/O error.",
        counts: "a command that it made fail",
        keys: &[AFTER],
        example: "readonly:after=2s",
        needs_simulation: false,
    },
    FaultKind {
        name: "dead",
        effect: "From some time on every command fails, as of a device that was pulled out; so do those in flight at that time.",
        counts: "a command that it made fail",
        keys: &[AFTER],
        example: "dead:after=2s",
        needs_simulation: false,
    },
    FaultKind {
        name: "transport",
        effect: "The path to the device fails for a command; a retry may succeed.",
        counts: "a command that it made fail",
        keys: &[often("share of commands")],
        example: "transport:ppm=1000",
        needs_simulation: false,
    },
];

/// Returns the kind with a name.
pub fn kind(name: &str) -> Option<&'static FaultKind> {
    KINDS.iter().find(|kind| kind.name == name)
}
