//! `elevon advise`: the lines of a configuration that serves the processes of a trace better.

use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::SIGINT;
use elevon_plan::failure::{Ending, Failure, MachineError};
use elevon_plan::options::{QueueOptions, StackOptions};
use elevon_whatif::advise::{AdviseRequest, advise as advise_on};

use crate::args::{AdviseArgs, TextOrJson};
use crate::bar::Terminal;
use crate::terminal::{emit, emit_text};

pub(crate) fn advise(args: &AdviseArgs) -> Result<Ending, Failure> {
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    let Some(answer) = advise_on(request(args), &interrupt, &Terminal)? else {
        return Ok(Ending::Interrupted(interrupt.signal().unwrap_or(SIGINT)));
    };
    match args.output_format {
        TextOrJson::Normal => emit_text(&answer.text())?,
        TextOrJson::Json => emit(&answer.json())?,
    }
    Ok(Ending::Done)
}

fn request(args: &AdviseArgs) -> AdviseRequest {
    let (scheduler, kernel, set) = (args.scheduler.clone(), args.kernel.clone(), args.set.clone());
    let queue = QueueOptions { scheduler, kernel, set, ..QueueOptions::default() };
    AdviseRequest {
        input: args.input.clone(),
        dev: args.dev.clone(),
        goal: args.goal,
        for_process: args.for_process.clone(),
        max_loss: args.max_loss,
        select: args.select.options(),
        given: StackOptions {
            queue,
            seed: args.seed,
            ioprio: args.ioprio.clone(),
            ..args.of_jobs.options.clone()
        },
        device: args.device.clone(),
        name: args.name.clone(),
        once: args.once,
        experimental: args.experimental,
        ios: args.ios,
        best: args.best,
    }
}
