//! Power cuts of a run, and what they say of the program.

use elevon_plan::failure::Failure;
use elevon_result::number::{counted, length};
use elevon_twin::lab::Outcome;
use elevon_twin::power::{Cuts, Smallest};
use elevon_twin::{Settings, files};

use super::failure;
use crate::terminal::tell;

/// Makes power cuts. Tells what they do, and returns how many lost data.
pub(super) fn cut(
    run: &Settings,
    outcome: &Outcome,
    output: &[u8],
    check: &str,
    count: usize,
) -> Result<usize, Failure> {
    let mut settings = run.clone();
    settings.program = ["sh", "-c", check].map(str::to_owned).to_vec();
    settings.take.clear();
    (settings.has_trace, settings.has_files) = (false, false);
    let cuts = Cuts { settings: &settings, history: &outcome.history, output };
    let phase = outcome.phase;
    let chosen = cuts.choose(phase.first, phase.last, count, settings.disk.seed);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let verdicts = cuts.make_all(&chosen, threads).map_err(failure)?;
    let lost: Vec<usize> = (0..chosen.len()).filter(|&at| verdicts[at].is_loss()).collect();
    tell(&format!("{}: {} lost data", counted(chosen.len() as u64, "power cut"), lost.len()));
    if let Some(&first) = lost.first() {
        let at = outcome.history.time_of(chosen[first].steps).since(phase.begin);
        tell(&format!(
            "the first is {} after the start of the program: {}",
            length(at),
            verdicts[first]
        ));
        let smallest = cuts.shrink(chosen[first]).map_err(failure)?;
        describe(&smallest, outcome);
    }
    Ok(lost.len())
}

/// Tells the smallest loss.
fn describe(smallest: &Smallest, outcome: &Outcome) {
    if smallest.lost.is_empty() {
        tell("no lost write is needed: the data was not yet at the disk");
        return;
    }
    let few = counted(smallest.lost.len() as u64, "lost write");
    tell(&format!("the smallest loss: {few} of those that were not flushed"));
    for write in &smallest.lost {
        let at = write.sector.byte_offset().get();
        let files = files::at(&outcome.files, at, at + write.bytes.get());
        let of = if files.is_empty() { String::new() } else { format!(" of {}", files.join(", ")) };
        tell(&format!(
            "  sector {}, {} bytes{of}, issued {} after the start",
            write.sector.get(),
            write.bytes.get(),
            length(write.at.since(outcome.phase.begin))
        ));
    }
}
