//! Writes the report of an experiment from its runs.

use elevon_plan::failure::Failure;
use elevon_report::compare::Variant;
use elevon_report::document::{Document, Table};
use elevon_report::html;
use elevon_report::plot::{self, Plot, Series};
use elevon_report::text::Figure;

use super::definition::{Definition, Section};
use super::evaluate::{Globals, Scope};
use super::part::{Axis, Content, Drawing, FigureRow, Part};
use super::reader::{Formula, Words};
use super::runner::{Named, bad};
use super::value::Value;

/// The report, and what of it is not as the experiment expects.
pub(super) struct Report {
    pub(super) document: Document,
    pub(super) missed: Vec<String>,
}

/// Writes the report, and makes the checks.
pub(super) fn report(definition: &Definition, globals: &Globals) -> Result<Report, Failure> {
    let mut report = Report { document: Document::new(&definition.title), missed: Vec::new() };
    let scope = Scope::new(globals, &[]);
    for section in &definition.sections {
        scope.for_each(section.each.as_ref(), |_, own| report.section(section, globals, own))?;
    }
    for (what, that) in &definition.checks {
        if !scope.of(that)?.holds() {
            report.missed.push(format!("{what}: does not hold"));
        }
    }
    Ok(report)
}

impl Report {
    fn section(
        &mut self,
        section: &Section,
        globals: &Globals,
        own: &Named,
    ) -> Result<(), Failure> {
        let mut own = own.clone();
        for (name, formula) in &section.names {
            let value = Scope::new(globals, &own).of(formula)?;
            own.push((name.clone(), value));
        }
        let scope = Scope::new(globals, &own);
        if let Some(heading) = &section.heading {
            self.document.heading(scope.text_of(heading)?);
        }
        for Part { each, content } in &section.parts {
            scope.for_each(each.as_ref(), |scope, _| self.content(content, scope))?;
        }
        Ok(())
    }

    fn content(&mut self, content: &Content, scope: &Scope<'_>) -> Result<(), Failure> {
        match content {
            Content::Say(sentences) => {
                let mut words = Vec::new();
                for (condition, sentence) in sentences {
                    if condition
                        .as_ref()
                        .map_or(Ok(true), |one| scope.of(one).map(|value| value.holds()))?
                    {
                        words.push(scope.text_of(sentence)?);
                    }
                }
                if !words.is_empty() {
                    self.document.paragraph(words.join(" "));
                }
            }
            Content::Command(formula) => {
                let value = scope.of(formula)?;
                let all =
                    if let Value::List(all) = &value { all } else { std::slice::from_ref(&value) };
                for one in all {
                    let Value::Run(run) = one else {
                        return Err(bad(formula, format!("expected a run, found {}", one.kind())));
                    };
                    self.document.command(&run.result.command);
                }
            }
            Content::Table { header, words, rows } => {
                let header = header
                    .iter()
                    .map(|head| scope.text_of(head))
                    .collect::<Result<_, Failure>>()?;
                let mut table = Table { header, words: words.clone(), rows: Vec::new() };
                for row in rows {
                    scope.for_each(row.each.as_ref(), |scope, _| {
                        let cells = row.cells.iter().map(|cell| scope.text_of(cell));
                        table.rows.push(cells.collect::<Result<_, Failure>>()?);
                        Ok(())
                    })?;
                }
                self.document.table(table);
            }
            Content::Figures { title, expected, rows } => {
                let mut all = Vec::new();
                for row in rows {
                    scope.for_each(row.each.as_ref(), |scope, _| {
                        all.push(self.figure(row, scope)?);
                        Ok(())
                    })?;
                }
                self.document.figures(&scope.text_of(title)?, &scope.text_of(expected)?, all);
            }
            Content::Plot(drawing) => self.document.plot(plotted(drawing, scope)?),
            Content::PlotOf { is_latency, variants } => {
                self.document.plot(plot_of_runs(*is_latency, variants, scope)?);
            }
        }
        Ok(())
    }

    fn figure(&mut self, row: &FigureRow, scope: &Scope<'_>) -> Result<Figure, Failure> {
        let optional = |words: &Option<Words>| {
            words.as_ref().map_or(Ok(String::new()), |one| scope.text_of(one))
        };
        let expected = match &row.expected {
            None => None,
            Some(formula) => match scope.of(formula)? {
                Value::None => None,
                value => Some(value.number().map_err(|message| bad(formula, message))?),
            },
        };
        let figure = Figure {
            name: scope.text_of(&row.name)?,
            unit: optional(&row.unit)?,
            expected,
            ours: scope.number_of(&row.ours)?,
            note: optional(&row.note)?,
        };
        if let (Some(tolerance), Some(expected)) = (&row.tolerance, expected) {
            let tolerance = scope.number_of(tolerance)?;
            let off = 100.0 * (figure.ours / expected - 1.0);
            // Not a number is not within the tolerance either.
            let is_within = off.abs() <= tolerance;
            if !is_within {
                let name = &figure.name;
                self.missed.push(format!(
                    "{name}: {off:+.1} % from {expected}, and {tolerance} % are allowed"
                ));
            }
        }
        Ok(figure)
    }
}

/// Returns a plot of the latencies of runs, or of the sizes of their requests.
fn plot_of_runs(
    is_latency: bool,
    variants: &[(Words, Formula)],
    scope: &Scope<'_>,
) -> Result<Plot, Failure> {
    let all = variants.iter().map(|(label, run)| Ok((scope.text_of(label)?, scope.of(run)?, run)));
    let all: Vec<(String, Value, &Formula)> = all.collect::<Result<_, Failure>>()?;
    let variant = |(label, value, formula): &'_ (String, Value, &Formula)| match value {
        Value::Run(run) => Ok((label.clone(), std::sync::Arc::clone(run))),
        other => Err(bad(formula, format!("expected a run, found {}", other.kind()))),
    };
    let all = all.iter().map(variant).collect::<Result<Vec<_>, Failure>>()?;
    let variants: Vec<Variant<'_>> =
        all.iter().map(|(label, run)| Variant { label, result: &run.result }).collect();
    Ok(if is_latency { html::latency_plot(&variants) } else { html::request_sizes_plot(&variants) })
}

fn plotted(drawing: &Drawing, scope: &Scope<'_>) -> Result<Plot, Failure> {
    let mut series = Vec::new();
    for line in &drawing.series {
        scope.for_each(line.each.as_ref(), |scope, _| {
            let numbers = |formula: &Formula| {
                scope.of(formula)?.numbers().map_err(|message| bad(formula, message))
            };
            let labels =
                line.labels.as_ref().map_or(Ok(Vec::new()), |formula| labels(scope, formula))?;
            let points = numbers(&line.x)?.into_iter().zip(numbers(&line.y)?).collect();
            let name = scope.text_of(&line.name)?;
            series.push(Series { name, colour: series.len(), points, labels, ..Series::default() });
            Ok(())
        })?;
    }
    let axis =
        |axis: &Axis| plot::Axis { title: axis.title.clone(), scale: axis.scale, unit: axis.unit };
    Ok(Plot {
        title: scope.text_of(&drawing.title)?,
        description: drawing
            .description
            .as_ref()
            .map_or(Ok(String::new()), |words| scope.text_of(words))?,
        mark: drawing.mark,
        x: axis(&drawing.x),
        y: axis(&drawing.y),
        series,
    })
}

fn labels(scope: &Scope<'_>, formula: &Formula) -> Result<Vec<String>, Failure> {
    let value = scope.of(formula)?;
    let all = value
        .list()
        .map(|all| all.iter().map(|one| one.shown(super::expression::Format::default())));
    all.and_then(Iterator::collect).map_err(|message| bad(formula, message))
}
