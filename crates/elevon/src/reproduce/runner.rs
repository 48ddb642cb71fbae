//! Makes the runs of an experiment.

use elevon_core::event::Event;
use elevon_core::stack::Stack;
use elevon_formats::fio::{Problem, Span};
use elevon_plan::execute::Watch;
use elevon_plan::failure::{Failure, InputError, MachineError};
use elevon_workload::run::Observer;

use super::definition::{Definition, Fit, Hook, Meets, RunDefinition, Search};
use super::evaluate::{Globals, Scope};
use super::hook::Hooked;
use super::lab::{Job, Lab};
use super::reader::{Each, Formula, Placed, Words};
use super::value::{Record, Run, Value, list};

/// Values under names.
pub(super) type Named = Vec<(String, Value)>;

/// Most combinations of the axes of a run.
const MAX_RUNS: usize = 100_000;
/// Most runs that a number may take to be the same again.
const MAX_REPEATS: usize = 4;
/// How near a fit comes to its figure, of 1; nearer than any figure is published.
const FIT_TOLERANCE: f64 = 2e-5;

/// Returns the name and the text of a job file.
pub(super) type ReadJob<'a> = &'a (dyn Fn(&str) -> Result<(String, String), Failure> + Sync);

/// What an expression that fails says: its place, its key, and what is wrong.
pub(super) fn bad<T>(placed: &Placed<T>, message: String) -> Failure {
    at_place(&placed.place, &placed.key, message)
}

fn at_place(place: &Span, key: &str, message: String) -> Failure {
    Failure::text(vec![place.diagnostic(key, Problem::Malformed.because(message))])
}

impl Scope<'_> {
    /// Returns the value of an expression of the file.
    pub(super) fn of(&self, formula: &Formula) -> Result<Value, Failure> {
        self.value(&formula.it).map_err(|message| bad(formula, message))
    }

    /// Returns the number that an expression of the file gives.
    pub(super) fn number_of(&self, formula: &Formula) -> Result<f64, Failure> {
        self.of(formula)?.number().map_err(|message| bad(formula, message))
    }

    /// Returns the text of a template of the file.
    pub(super) fn text_of(&self, words: &Words) -> Result<String, Failure> {
        self.fill(&words.it).map_err(|message| bad(words, message))
    }

    /// Does something for each element of a list under its name, or once without a list. Each time
    /// it gets the names of this scope and its own.
    pub(super) fn for_each(
        &self,
        each: Option<&Each>,
        mut work: impl FnMut(&Scope<'_>, &Named) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let own: Named = self.own.to_vec();
        let Some((name, formula)) = each else { return work(self, &own) };
        let values = self.of(formula)?;
        for value in values.list().map_err(|message| bad(formula, message))? {
            let own = [self.own, &[(name.clone(), value.clone())]].concat();
            work(&Scope::new(self.globals, &own), &own)?;
        }
        Ok(())
    }
}

/// Makes all runs, and returns them by their names beside the experiment's other names.
pub(super) fn run_all(
    lab: &Lab,
    definition: &mut Definition,
    read: ReadJob<'_>,
) -> Result<Globals, Failure> {
    let functions = std::mem::take(&mut definition.functions).into_iter().collect();
    let mut globals = Globals { names: definition.names.clone(), functions };
    let mut expected = 0;
    for run in &definition.runs {
        let mut all = Vec::new();
        combinations(&globals, run, &run.over, Vec::new(), &mut all)?;
        expected += all.len();
        lab.expect(expected);
        let maker = Maker { lab, globals: &globals, run, read };
        let made = lab.map(&all, |own| maker.make(own))?;
        globals.names.insert(run.name.clone(), list(made));
    }
    Ok(globals)
}

/// Collects every combination of values of the axes.
fn combinations(
    globals: &Globals,
    run: &RunDefinition,
    axes: &[Each],
    own: Named,
    all: &mut Vec<Named>,
) -> Result<(), Failure> {
    let scope = Scope::new(globals, &own);
    let Some(((name, formula), others)) = axes.split_first() else {
        let is_wanted =
            run.only.as_ref().map_or(Ok(true), |only| scope.of(only).map(|value| value.holds()))?;
        if is_wanted {
            all.push(own);
        }
        return Ok(());
    };
    let values = scope.of(formula)?;
    for value in values.list().map_err(|message| bad(formula, message))? {
        let mut own = own.clone();
        own.push((name.clone(), value.clone()));
        combinations(globals, run, others, own, all)?;
        if all.len() > MAX_RUNS {
            return Err(bad(formula, format!("expected {MAX_RUNS} runs at most")));
        }
    }
    Ok(())
}

/// Records every event of a run if they are wanted.
struct Tape<'a> {
    events: Option<Vec<Event>>,
    hook: Option<&'a mut Hooked>,
}

impl Observer for Tape<'_> {
    fn on_events(&mut self, events: &[Event]) {
        if let Some(all) = &mut self.events {
            all.extend_from_slice(events);
        }
    }
}

impl Watch for Tape<'_> {
    fn wants_events(&self) -> bool {
        self.events.is_some()
    }

    fn prepare(&mut self, stack: &mut Stack) {
        if let Some(hook) = &mut self.hook {
            hook.prepare(stack);
        }
    }

    fn on_end(&mut self, stack: &Stack) {
        if let Some(hook) = &mut self.hook {
            hook.on_end(stack);
        }
    }
}

/// Makes the runs of one definition.
struct Maker<'a> {
    lab: &'a Lab,
    globals: &'a Globals,
    run: &'a RunDefinition,
    read: ReadJob<'a>,
}

impl Maker<'_> {
    /// Makes the run at these values of the axes; of a fit, the one that meets its figure.
    fn make(&self, own: &Named) -> Result<Value, Failure> {
        match &self.run.fit {
            None => self.one(own),
            Some(Fit { name, search: Search::Again(again) }) => self.again(own, name, again),
            Some(Fit { name, search: Search::Meets(meets) }) => self.meets(own, name, meets),
        }
    }

    fn with(&self, own: &Named, name: &str, number: f64) -> Result<Value, Failure> {
        self.one(&[own.as_slice(), &[(name.to_owned(), Value::Number(number))]].concat())
    }

    fn measure(&self, own: &Named, formula: &Formula, run: &Value) -> Result<f64, Failure> {
        let own = [own.as_slice(), &[("run".to_owned(), run.clone())]].concat();
        Scope::new(self.globals, &own).number_of(formula)
    }

    /// Repeats the run until it gives the number that it was given.
    fn again(&self, own: &Named, name: &str, again: &Formula) -> Result<Value, Failure> {
        let mut number = 0.0;
        for _ in 0..MAX_REPEATS {
            let run = self.with(own, name, number)?;
            let next = self.measure(own, again, &run)?;
            if next == number {
                return Ok(run);
            }
            number = next;
        }
        Err(MachineError::Unsettled { run: self.run.name.clone(), number: name.to_owned() }.into())
    }

    /// Narrows the bounds by linear interpolation until the figure is met: it rises almost linearly
    /// with the number.
    fn meets(&self, own: &Named, name: &str, search: &Meets) -> Result<Value, Failure> {
        let Meets { bounds, measure, meets } = search;
        let scope = Scope::new(self.globals, own);
        let wanted = scope.number_of(meets)?;
        let at = |number: f64| -> Result<(f64, f64, Value), Failure> {
            let run = self.with(own, name, number)?;
            Ok((number, self.measure(own, measure, &run)?, run))
        };
        let [from, to] = bounds;
        let (mut low, mut high) =
            (at(scope.number_of(from)?.round())?, at(scope.number_of(to)?.round())?);
        if !(low.1..=high.1).contains(&wanted) {
            let message = format!(
                "no {name} from {} to {} gives {wanted}: the figure goes from {} to {}",
                low.0, high.0, low.1, high.1
            );
            return Err(bad(meets, message));
        }
        while high.0 - low.0 > 1.0 {
            let share = (wanted - low.1) / (high.1 - low.1);
            let guess = low.0 + (share * (high.0 - low.0)).round();
            let found = at(guess.clamp(low.0 + 1.0, high.0 - 1.0))?;
            if (found.1 / wanted - 1.0).abs() < FIT_TOLERANCE {
                return Ok(found.2);
            }
            if found.1 < wanted { low = found } else { high = found }
        }
        Ok(if wanted - low.1 < high.1 - wanted { low.2 } else { high.2 })
    }

    /// Makes one run.
    fn one(&self, own: &[(String, Value)]) -> Result<Value, Failure> {
        let scope = Scope::new(self.globals, own);
        let run = self.run;
        let (path, text) =
            (self.read)(&scope.text_of(&run.job)?).map_err(|failure| within(&run.job, failure))?;
        let options = scope.text_of(&run.options)?;
        let variables: Vec<(&str, String)> = run
            .variables
            .iter()
            .map(|(name, words)| Ok((name.as_str(), scope.text_of(words)?)))
            .collect::<Result<_, Failure>>()?;
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut hook = run.hook.as_ref().map(|hook| hooked(&scope, hook)).transpose()?;
        let mut tape = Tape { events: run.trace.then(Vec::new), hook: hook.as_mut() };
        let job = Job { path: &path, text: &text };
        let result = self.lab.watch(job, &variables, &options, &mut tape);
        let events = tape.events;
        let result = result.map_err(|failure| within(&run.options, failure))?;
        let mut kept: Record = own.iter().cloned().collect();
        if let Some(hook) = &hook {
            kept.extend(hook.figures());
        }
        let made = Run::new(kept, result, events.as_deref());
        let own = [own, &[("run".to_owned(), Value::Run(made.clone().into()))]].concat();
        let scope = Scope::new(self.globals, &own);
        let measured =
            run.measures.iter().map(|(name, formula)| Ok((name.clone(), scope.of(formula)?)));
        let measured = measured.collect::<Result<Record, Failure>>()?;
        Ok(Value::Run(made.with(measured).into()))
    }
}

fn hooked(scope: &Scope<'_>, hook: &Hook) -> Result<Hooked, Failure> {
    let settings = hook
        .settings
        .iter()
        .map(|(name, formula)| Ok((name.as_str(), scope.number_of(formula)?, formula)));
    let settings = settings.collect::<Result<Vec<_>, Failure>>()?;
    let mut hooked =
        Hooked::new(&scope.text_of(&hook.name)?).map_err(|message| bad(&hook.name, message))?;
    for (name, number, formula) in settings {
        hooked.set(name, number).map_err(|message| bad(formula, message))?;
    }
    Ok(hooked)
}

/// Names the place in the file in each error of the input.
fn within(words: &Words, failure: Failure) -> Failure {
    let Span { file, line, column } = &words.place;
    failure.within(|error| InputError::Named {
        name: format!("{file}:{line}:{column}: {}", words.key),
        error,
    })
}
