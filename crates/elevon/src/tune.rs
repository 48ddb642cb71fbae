//! `elevon tune`: the search for the options under which a job does best.

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, MachineError};
use elevon_plan::output::NewFile;
use elevon_sweep::tune::{Search, TuneRequest};

use crate::args::{TextOrJson, TuneArgs};
use crate::bar::Terminal;
use crate::terminal::{all, emit, emit_text, tell, warn};

pub(crate) fn tune(args: &TuneArgs) -> Result<Ending, Failure> {
    let mut search = Search::new(&request(args))?;
    if let Some(path) = &args.html {
        let mut files = search.files()?;
        files.add_stdout()?;
        files.add_output(format!("--html {}", path.display()), path)?;
    }
    let page = args.html.as_deref().map(|path| NewFile::create("--html", path)).transpose()?;
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    let is_whole = search.run(args.trials.into(), &interrupt, &Terminal)?;
    let signal = interrupt.signal();
    if signal.is_some() {
        tell(&format!("interrupted after {} trials", search.trials()));
    }
    if search.trials() == 0 {
        return Ok(signal.map_or(Ending::Done, Ending::Interrupted));
    }
    if search.has_failed() {
        tell(&search.failures().unwrap_or_default());
        return Ok(signal.map_or(Ending::Failed, Ending::Interrupted));
    }
    search.check_metrics()?;
    search.run_again(&interrupt, &Terminal)?;
    let signal = interrupt.signal();
    warn(&search.warnings());
    let document = search.document(is_whole)?;
    let printed = match args.output_format {
        TextOrJson::Normal => emit_text(&document.text()),
        TextOrJson::Json => emit(&search.json()?),
    };
    let page = page.map_or(Ok(()), |file| file.commit(document.html("simulated").as_bytes()));
    all([printed, page])?;
    let ending = if search.keeps_bounds() { Ending::Done } else { Ending::Failed };
    Ok(signal.map_or(ending, Ending::Interrupted))
}

fn request(args: &TuneArgs) -> TuneRequest {
    TuneRequest {
        input: args.input.clone(),
        over: args.over.clone(),
        maximise: args.maximise.clone(),
        minimise: args.minimise.clone(),
        subject_to: args.subject_to.clone(),
        seeds: args.seeds.clone(),
        stack: args.stack.options.clone(),
    }
}
