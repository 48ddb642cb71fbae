//! Options of the stack as arguments: clap is told of the rows of [`OPTIONS`].

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use elevon_plan::options::{OPTIONS, OptionGroup, OptionRow, OptionValue, StackOptions};

use super::usage::utf8;

/// Which options a command takes.
pub(crate) trait Groups {
    const GROUPS: &'static [OptionGroup];
}

/// All but those of a trace.
#[derive(Clone, Debug)]
pub(crate) struct OfRun;
/// All but those of a trace and of real devices.
#[derive(Clone, Debug)]
pub(crate) struct OfSimulation;
/// Those of a server.
#[derive(Clone, Debug)]
pub(crate) struct OfQueue;
/// Those of jobs, taken to be refused with a reason.
#[derive(Clone, Debug)]
pub(crate) struct OfJobs;
/// Those of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfTrace;

impl Groups for OfRun {
    const GROUPS: &'static [OptionGroup] =
        &[OptionGroup::Device, OptionGroup::Queue, OptionGroup::Jobs, OptionGroup::Cache];
}

impl Groups for OfSimulation {
    const GROUPS: &'static [OptionGroup] =
        &[OptionGroup::Device, OptionGroup::Queue, OptionGroup::Jobs];
}

impl Groups for OfQueue {
    const GROUPS: &'static [OptionGroup] = &[OptionGroup::Queue];
}

impl Groups for OfJobs {
    const GROUPS: &'static [OptionGroup] = &[OptionGroup::Jobs, OptionGroup::Cache];
}

impl Groups for OfTrace {
    const GROUPS: &'static [OptionGroup] = &[OptionGroup::Trace];
}

/// The options of some groups; the others have their defaults.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackArgs<G = OfRun> {
    pub(crate) options: StackOptions,
    groups: PhantomData<G>,
}

fn rows<G: Groups>() -> impl Iterator<Item = &'static OptionRow> {
    OPTIONS.iter().filter(|row| G::GROUPS.contains(&row.group))
}

fn argument(row: &OptionRow) -> Arg {
    let arg = Arg::new(row.name).long(row.name).value_name(row.value_name).help(row.help);
    let arg = row.default.into_iter().fold(arg, Arg::default_value);
    match row.value {
        OptionValue::Word(_) => arg.value_parser(utf8()),
        OptionValue::Number(_) => arg.value_parser(value_parser!(u64)).allow_negative_numbers(true),
        OptionValue::Text(_) => arg,
        OptionValue::Path(_) => arg.value_parser(value_parser!(PathBuf)),
        OptionValue::Texts(_) => arg.action(ArgAction::Append),
    }
}

impl<G: Groups> Args for StackArgs<G> {
    fn augment_args(command: Command) -> Command {
        command.args(rows::<G>().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<G: Groups> FromArgMatches for StackArgs<G> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self { options: StackOptions::default(), groups: PhantomData };
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let options = &mut self.options;
        for row in rows::<G>() {
            let text = || matches.get_one::<String>(row.name).cloned();
            match row.value {
                OptionValue::Word(of) => text().into_iter().for_each(|text| *of(options) = text),
                OptionValue::Number(of) => {
                    matches.get_one(row.name).into_iter().for_each(|number| *of(options) = *number);
                }
                OptionValue::Text(of) => *of(options) = text(),
                OptionValue::Path(of) => {
                    *of(options) = matches.get_one::<PathBuf>(row.name).cloned();
                }
                OptionValue::Texts(of) => {
                    of(options).extend(
                        matches.get_many::<String>(row.name).into_iter().flatten().cloned(),
                    );
                }
            }
        }
        Ok(())
    }
}

/// Hides the options of jobs in the help of a command that refuses them.
pub(super) fn hidden_of_jobs(arg: Arg) -> Arg {
    let is_of_jobs = rows::<OfJobs>().any(|row| row.name == arg.get_id().as_str());
    if is_of_jobs { arg.hide(true) } else { arg }
}
