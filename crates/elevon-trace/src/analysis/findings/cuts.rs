//! Finds a queue limit that cuts I/O into many small requests, although the hardware takes larger
//! ones.

use super::super::life::Bio;
use super::super::sum::add;
use super::super::words;
use super::tails::{larger, larger_setting};
use super::{ByProcess, Context, Finding, FindingKind, When};
use crate::analysis::Group;
use crate::event::SECTOR_SIZE;

/// Minimum number of requests that are pieces of bios.
const MIN_PIECES: u64 = 64;
/// Minimum number of pieces of a bio, on average: a cure saves three quarters of the requests.
const MIN_PIECES_OF_A_BIO: u64 = 4;
/// Minimum part of all requests that are such pieces, in thousandths.
const MIN_PIECES_PERMILLE: u32 = 200;
/// Largest mean piece in sectors: 128 KiB. What a request costs beside its bytes, some microseconds
/// to some milliseconds, weighs little for larger ones.
const MAX_PIECE_SECTORS: u64 = 256;

/// Counters of reads and writes.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Cuts {
    bios: u64,
    pieces: u64,
    sectors: u64,
    by_process: ByProcess,
    when: When,
}

impl Cuts {
    /// Counts a completed bio that was in several requests.
    #[inline]
    pub(super) fn on_bio_completed(&mut self, bio: &Bio, now: u64) {
        if bio.pieces < 2 || !matches!(bio.group, Group::Read | Group::Write) {
            return;
        }
        self.bios += 1;
        self.pieces += u64::from(bio.pieces);
        add(&mut self.sectors, bio.end.wrapping_sub(bio.start));
        self.by_process.add(bio.process, u64::from(bio.pieces));
        if now != super::ABSENT {
            self.when.seen(bio.queued.min(now));
        }
        self.when.seen(now);
    }

    /// Returns the mean piece in bytes.
    pub(super) fn piece(&self) -> u64 {
        self.sectors.saturating_mul(SECTOR_SIZE).checked_div(self.pieces).unwrap_or(0)
    }

    /// Returns true if many requests are small pieces of bios, which the queue could take as larger
    /// ones.
    pub(super) fn are_many(&self, context: &Context<'_>, limit: u64) -> bool {
        let is_small = self.pieces >= MIN_PIECES
            && self.pieces >= self.bios.saturating_mul(MIN_PIECES_OF_A_BIO)
            && self.piece() <= MAX_PIECE_SECTORS * SECTOR_SIZE
            && words::permille(self.pieces, context.issued()) >= MIN_PIECES_PERMILLE;
        let hardware = context.setting("max_hw_sectors_kb").and_then(|kb| kb.parse::<u64>().ok());
        is_small && hardware.is_none_or(|kb| kb.saturating_mul(1024) >= limit.saturating_mul(2))
    }

    /// Returns what cuts, and into what: for the findings on the queue that the pieces make.
    pub(super) fn sentence(&self, context: &Context<'_>, limit: u64) -> String {
        format!(
            "{} bios of {} on average were cut into {} requests of at most {}, by {}",
            self.bios,
            words::bytes(
                self.sectors.saturating_mul(SECTOR_SIZE).checked_div(self.bios).unwrap_or(0)
            ),
            self.pieces,
            words::bytes(limit),
            cause(context, limit)
        )
    }

    pub(super) fn finding(&self, context: &Context<'_>, limit: u64) -> Option<Finding> {
        if !self.are_many(context, limit) {
            return None;
        }
        let bytes = self.sectors.saturating_mul(SECTOR_SIZE);
        let hardware = context.setting("max_hw_sectors_kb").and_then(|kb| kb.parse::<u64>().ok());
        let mut figures = vec![
            ("limit_bytes", limit),
            ("cut_bios", self.bios),
            ("requests_of_cut_bios", self.pieces),
            ("cut_bytes", bytes),
        ];
        let mut evidence = vec![self.sentence(context, limit)];
        if let Some(hardware) = hardware.map(|kb| kb.saturating_mul(1024)) {
            let needed = bytes.div_ceil(hardware.max(1)).max(self.bios);
            figures.extend([("hardware_bytes", hardware), ("requests_at_hardware_limit", needed)]);
            evidence.push(format!(
                "the hardware takes {} KiB at a time (max_hw_sectors_kb), which is {} requests for the same bytes",
                hardware >> 10,
                needed
            ));
        }
        Some(Finding {
            kind: FindingKind::SmallRequests,
            title: format!(
                "A queue limit of {} cuts {} bios into {} requests, {} for each",
                words::bytes(limit),
                self.bios,
                self.pieces,
                words::ratio(self.pieces, self.bios)
            ),
            when: self.when.span(),
            who: self.by_process.top(context),
            figures,
            evidence,
            advice: vec![remedy(context, limit)],
            weight: words::permille(self.pieces, context.issued()),
        })
    }
}

/// Returns the limit that cuts, as far as the settings tell.
fn cause(context: &Context<'_>, limit: u64) -> String {
    match (larger_setting(context, limit), context.setting("max_sectors_kb")) {
        (Some(soft), _) => format!("another limit than max_sectors_kb={soft}"),
        (None, Some(soft)) => format!("max_sectors_kb={soft}"),
        (None, None) => "max_sectors_kb or another limit of the queue".to_owned(),
    }
}

/// Returns what would let requests be larger.
pub(super) fn remedy(context: &Context<'_>, limit: u64) -> String {
    let (soft, hard) = (context.setting("max_sectors_kb"), context.setting("max_hw_sectors_kb"));
    match (larger_setting(context, limit), soft, hard) {
        (None, Some(soft), Some(hard)) => {
            format!(
                "a larger max_sectors_kb: it was {soft}, and the hardware takes {hard} (max_hw_sectors_kb)"
            )
        }
        (None, ..) => "a larger max_sectors_kb, if max_hw_sectors_kb allows one".to_owned(),
        (Some(_), ..) => format!("larger requests, {}", larger(context, limit)),
    }
}
