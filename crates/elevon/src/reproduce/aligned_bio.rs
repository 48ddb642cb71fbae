//! Proposal 001: direct I/O fills bios until their vectors run out, the queue limit splits them,
//! and every split leaves a small tail.
//!
//! One number per direction, the cost of a command, is calibrated on the published baseline. The
//! rest follows from it, except that the memory of the third measurement is chosen to fit that
//! measurement. The times of the proposal's trace of dd are used as they stand.

mod paced;
mod pattern;
mod summary;
mod throughput;

use elevon_report::document::Document;

use crate::failure::Failure;
use crate::reproduce::lab::Lab;

const PARAMETERS: &str = include_str!("../../../../experiments/aligned-bio/parameters.toml");
const TRACE: &str = include_str!("../../../../experiments/aligned-bio/trace.txt");

pub(super) fn report(lab: &Lab) -> Result<Document, Failure> {
    let mut document = Document::new("aligned-bio: small tails of full bios (proposal 001, UFS 4.0)");
    document.paragraph(
        "\"block: Check the queue limit before bio submitting\", Ed Tsai, linux-block, October and November 2023. Where the pages \
         of a buffer lie scattered, a bio is full at 1 MiB and a little; a queue limit of 512 KiB cuts it into 512, 512 and a \
         tail of 24 to 56 KiB. The patch (fill=max-sectors here) ends a bio at the limit. It was not merged, nor was the \
         thread's own proposal (fill=trim): kernels to 6.19 do what fill=full does here. From 7.0 a vector ends with its folio (fill=folio), \
         so that bios of ordinary pages end at 1 MiB and a limit of 512 KiB leaves no tails: the proposal's problem is solved \
         another way.",
    );
    pattern::report(&mut document, &pattern::measure(lab)?);
    let throughput = throughput::measure(lab)?;
    throughput::report(&mut document, &throughput);
    paced::report(&mut document, &paced::measure(lab, throughput.directions[0].fit)?);
    Ok(document)
}

#[cfg(test)]
mod tests;
