//! `elevon calibrate`: measures a device, or fits one to a trace.

use std::path::Path;

use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure, MachineError};
use elevon_plan::files::Files;
use elevon_plan::output::NewFile;
use elevon_sim::profiles;
use elevon_whatif::advise::Check;
use elevon_whatif::calibrate::{FittedDevice, Kinds, MeasureRequest, Measurement};
use elevon_whatif::trace_input::TraceInput;

use crate::args::{CalibrateArgs, TextOrJson};
use crate::bar::Terminal;
use crate::console::Console;
use crate::error::CommandError;
use crate::terminal::{all, emit, emit_text, warn};

pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<Ending, Failure> {
    let Some(path) = &args.input else { return measure(args) };
    let name = path.to_str().filter(|name| profiles::profile(name).is_some() && !path.exists());
    match name {
        Some(name) => {
            Err(Failure::named(name, CommandError::DeviceForTrace { device: name.to_owned() }))
        }
        None => fit(path, args),
    }
}

/// Measures a device.
fn measure(args: &CalibrateArgs) -> Result<Ending, Failure> {
    let &CalibrateArgs { ref device, seconds, overwrite_data, seed, .. } = args;
    let request = MeasureRequest { device: device.clone(), seconds, overwrite_data, seed };
    let mut measurement = Measurement::new(request)?;
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    measurement.check_that_time_passes(&interrupt)?;
    for (label, plan) in measurement.runs() {
        let mut console =
            Console::new(&label, None, false, None).with_status(&plan, &interrupt, true);
        let (result, outcome) = execute(&plan, &mut console, &interrupt)?;
        console.finish()?;
        warn(&result.warnings);
        if outcome != Ending::Done {
            return Ok(outcome);
        }
        measurement.take(&result);
    }
    emit(&match args.output_format {
        TextOrJson::Normal => measurement.text(),
        TextOrJson::Json => measurement.json(),
    })?;
    Ok(Ending::Done)
}

/// Fits a device to a trace, and ends with its replay as captured, beside the trace.
fn fit(path: &Path, args: &CalibrateArgs) -> Result<Ending, Failure> {
    let name = path.display().to_string();
    let mut files = Files::default();
    TraceInput::new(path, None, &Terminal)?.add_to(&mut files)?;
    if let Some(output) = &args.output {
        files.add_output(format!("--output {}", output.display()), output)?;
    }
    let output =
        args.output.as_deref().map(|path| NewFile::create("--output", path)).transpose()?;
    let is_text = args.output_format == TextOrJson::Normal;
    let kinds = Kinds::named(args.like.as_deref())?;
    let found = FittedDevice::to(path, args.dev.as_deref(), kinds, &Terminal)?;
    let profile = found.profile(&name);
    let interrupt = Interrupt::on_signals().map_err(MachineError::Signals)?;
    let check =
        Check::from_input(path, &found.device().to_string(), &profile, &interrupt, &Terminal)?;
    let report = match is_text {
        true => {
            found.text(&name)
                + &check.as_ref().map_or_else(String::new, Check::text)
                + &found.experiment_text()
        }
        false => found.json(&name, check.as_ref().map(Check::json)),
    };
    let printed = if is_text {
        let saved =
            args.output.as_ref().map(|path| format!("\nSaved for --device @{}\n", path.display()));
        let file = saved.unwrap_or_else(|| {
            format!("\nThe file for --device @FILE (-o FILE saves it):\n\n{profile}")
        });
        emit_text(&(report + &file))
    } else {
        emit(&report)
    };
    all([printed, output.map_or(Ok(()), |file| file.commit(profile.as_bytes()))])?;
    Ok(Ending::Done)
}
