//! How the kernel lays out the records of its tracepoints and the pages of its ring buffer, as the
//! files `format` and `header_page` of tracefs say.
//!
//! ```text
//! field:char rwbs[10];    offset:34;    size:10;    signed:0;
//! ```

use super::page::PageLayout;
use crate::event::{DeviceNumber, TraceKind};

/// The block events that are recorded: those that the lives of bios and requests are made of.
/// `block_io_start` and `block_io_done` say nothing that others do not, and buffer events are of
/// the file system.
pub(super) const EVENTS: [(&str, TraceKind); 18] = [
    ("block_bio_queue", TraceKind::Queue),
    ("block_split", TraceKind::Split { new_sector: 0 }),
    ("block_getrq", TraceKind::GetRequest),
    ("block_sleeprq", TraceKind::SleepRequest),
    ("block_plug", TraceKind::Plug),
    ("block_unplug", TraceKind::Unplug { requests: 0, timer: None }),
    ("block_bio_backmerge", TraceKind::BackMerge),
    ("block_bio_frontmerge", TraceKind::FrontMerge),
    ("block_rq_merge", TraceKind::RequestMerge),
    ("block_rq_insert", TraceKind::Insert),
    ("block_rq_issue", TraceKind::Issue),
    ("block_rq_requeue", TraceKind::Requeue),
    ("block_rq_complete", TraceKind::Complete),
    ("block_rq_error", TraceKind::RequestError),
    ("block_bio_complete", TraceKind::BioComplete),
    ("block_bio_bounce", TraceKind::Bounce),
    ("block_bio_remap", TraceKind::Remap { from: DeviceNumber::new(0, 0), from_sector: 0 }),
    ("block_rq_remap", TraceKind::RequestRemap { from: DeviceNumber::new(0, 0), from_sector: 0 }),
];

/// A file of tracefs does not describe what is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no `{missing}` in {file}")]
pub struct LayoutError {
    /// The file, below tracefs.
    pub file: String,
    /// What was looked for.
    pub missing: &'static str,
}

/// Where a field lies in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
}

/// Where the fields of a tracepoint's record lie; `None` for one that it does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventLayout {
    pub(super) kind: TraceKind,
    /// The number that begins each record.
    pub(super) id: u16,
    pub(super) pid: Field,
    pub(super) device: Option<Field>,
    pub(super) sector: Option<Field>,
    pub(super) sectors: Option<Field>,
    pub(super) bytes: Option<Field>,
    pub(super) letters: Option<Field>,
    pub(super) comm: Option<Field>,
    pub(super) command: Option<Field>,
    pub(super) priority: Option<Field>,
    pub(super) error: Option<Field>,
    pub(super) old_device: Option<Field>,
    pub(super) old_sector: Option<Field>,
    pub(super) new_sector: Option<Field>,
    pub(super) requests: Option<Field>,
}

impl EventLayout {
    /// Reads the file `format` of an event.
    ///
    /// # Errors
    /// A text without the number of the event, or without the fields that every event has.
    pub(super) fn parse(name: &str, kind: TraceKind, text: &str) -> Result<Self, LayoutError> {
        let missing =
            |missing| LayoutError { file: format!("events/block/{name}/format"), missing };
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        let field =
            |name: &str| fields(text).find(|(known, _)| *known == name).map(|(_, field)| field);
        Ok(Self {
            kind,
            id: id.ok_or_else(|| missing("ID"))?,
            pid: field("common_pid").ok_or_else(|| missing("common_pid"))?,
            device: field("dev"),
            sector: field("sector"),
            sectors: field("nr_sector"),
            bytes: field("bytes"),
            letters: field("rwbs"),
            comm: field("comm"),
            command: field("cmd"),
            priority: field("ioprio"),
            error: field("error").or_else(|| field("errors")),
            old_device: field("old_dev"),
            old_sector: field("old_sector"),
            new_sector: field("new_sector"),
            requests: field("nr_rq"),
        })
    }
}

/// Reads `events/header_page`.
///
/// # Errors
/// A text without the parts of a page.
pub(super) fn parse_page(text: &str) -> Result<PageLayout, LayoutError> {
    let field = |name: &'static str| {
        let missing = LayoutError { file: "events/header_page".to_owned(), missing: name };
        fields(text).find(|(known, _)| *known == name).map(|(_, field)| field).ok_or(missing)
    };
    let (commit, data) = (field("commit")?, field("data")?);
    field("timestamp")?;
    Ok(PageLayout {
        commit_size: commit.size,
        commit: commit.offset,
        data: data.offset,
        len: data.offset + data.size,
    })
}

/// The fields of a description, by name.
fn fields(text: &str) -> impl Iterator<Item = (&str, Field)> {
    text.lines().filter_map(|line| {
        let mut parts = line.trim().split(';');
        let declaration = parts.next()?.strip_prefix("field:")?.trim_end();
        let number = |part: &str, key: &str| part.trim().strip_prefix(key)?.parse::<usize>().ok();
        let (offset, size) = (number(parts.next()?, "offset:")?, number(parts.next()?, "size:")?);
        let name = declaration.rsplit([' ', '\t']).next()?;
        let name = name.split('[').next()?;
        // Nothing in a page lies behind its end; this only keeps sums small.
        (offset < 1 << 20 && size < 1 << 20).then_some((name, Field { offset, size }))
    })
}
