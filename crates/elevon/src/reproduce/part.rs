//! The parts of a report, as the file of an experiment has them.

use elevon_formats::toml_tree::{Entry, Tree};
use elevon_report::plot::{Mark, Scale, Unit};

use super::reader::{Compiler, Each, Formula, Table, Words};

/// A part of a report, once or for each element of a list.
pub(super) struct Part {
    pub(super) each: Option<Each>,
    pub(super) content: Content,
}

pub(super) enum Content {
    /// Sentences, each with its condition; those that hold make one paragraph.
    Say(Vec<(Option<Formula>, Words)>),
    /// The command of a run, or of each of a list.
    Command(Formula),
    Table {
        header: Vec<Words>,
        words: Vec<usize>,
        rows: Vec<Rows>,
    },
    Figures {
        title: Words,
        expected: Words,
        rows: Vec<FigureRow>,
    },
    Plot(Box<Drawing>),
    /// One of the plots of `elevon run`, of runs with labels.
    PlotOf {
        is_latency: bool,
        variants: Vec<(Words, Formula)>,
    },
}

/// Reads a part from its table and the entry that names its kind.
type ReadPart = fn(&mut Compiler, &Table<'_>, &Entry) -> Option<Content>;

pub(super) struct Rows {
    pub(super) each: Option<Each>,
    pub(super) cells: Vec<Words>,
}

/// A figure beside the one of others.
pub(super) struct FigureRow {
    pub(super) each: Option<Each>,
    pub(super) name: Words,
    pub(super) unit: Option<Words>,
    pub(super) expected: Option<Formula>,
    pub(super) ours: Formula,
    pub(super) note: Option<Words>,
    /// How many percent it may differ.
    pub(super) tolerance: Option<Formula>,
}

pub(super) struct Drawing {
    pub(super) title: Words,
    pub(super) description: Option<Words>,
    pub(super) mark: Mark,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Line>,
}

pub(super) struct Axis {
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) scale: Scale,
}

pub(super) struct Line {
    pub(super) each: Option<Each>,
    pub(super) name: Words,
    pub(super) x: Formula,
    pub(super) y: Formula,
    pub(super) labels: Option<Formula>,
}

/// Units of axes; values are given in the base unit: nanoseconds, bytes, bytes per second.
const UNITS: [(&str, Unit); 6] = [
    ("count", Unit::Count),
    ("percent", Unit::Percent),
    ("ns", Unit::Nanos),
    ("kib", Unit::KiB),
    ("bytes", Unit::Bytes),
    ("bytes/s", Unit::BytesPerSecond),
];
const MARKS: [(&str, Mark); 3] =
    [("points", Mark::Points), ("line", Mark::Line), ("step", Mark::Step)];
const SCALES: [(&str, Scale); 2] = [("linear", Scale::Linear), ("log", Scale::Log)];

/// Compiles the parts of a section.
pub(super) fn parts(compiler: &mut Compiler, tables: &[Table<'_>]) -> Vec<Part> {
    tables.iter().filter_map(|table| compiler.within(|compiler| part(compiler, table))).collect()
}

fn part(compiler: &mut Compiler, table: &Table<'_>) -> Option<Part> {
    let each = table.get("each").map(|entry| compiler.each(entry));
    let kinds: [(&str, ReadPart); 7] = [
        ("paragraph", say),
        ("say", say),
        ("command", command),
        ("table", table_of),
        ("figures", figures),
        ("plot", plot),
        ("plot_of", plot_of),
    ];
    let found = kinds.iter().find_map(|(kind, read)| Some((table.get(kind)?, read)));
    let Some((entry, read)) = found else {
        let right = "expected one of the keys paragraph, say, command, table, figures, plot, plot_of in this part";
        compiler.complain(table.place, "part", right);
        return None;
    };
    Some(Part { each, content: read(compiler, table, entry)? })
}

fn say(compiler: &mut Compiler, table: &Table<'_>, _: &Entry) -> Option<Content> {
    compiler.only(table, &["each", "paragraph", "say"]);
    let mut all: Vec<(Option<Formula>, Words)> = Vec::new();
    if let Some(entry) = table.get("paragraph") {
        all.push((None, compiler.words(entry)));
    }
    if let Some(entry) = table.get("say") {
        for pair in compiler.list("say", &entry.node) {
            let Tree::List(both) = &pair.value else {
                compiler.complain(&pair.place, "say", "expected [\"condition\", \"sentence\"]");
                continue;
            };
            let [condition, sentence] = &both[..] else {
                compiler.complain(&pair.place, "say", "expected [\"condition\", \"sentence\"]");
                continue;
            };
            all.push((
                Some(compiler.node_formula("say", condition)),
                compiler.node_words("say", sentence),
            ));
        }
    }
    Some(Content::Say(all))
}

fn command(compiler: &mut Compiler, table: &Table<'_>, entry: &Entry) -> Option<Content> {
    compiler.only(table, &["each", "command"]);
    Some(Content::Command(compiler.formula(entry)))
}

fn table_of(compiler: &mut Compiler, table: &Table<'_>, entry: &Entry) -> Option<Content> {
    compiler.only(table, &["each", "table", "words", "rows"]);
    let header: Vec<Words> = compiler
        .list("table", &entry.node)
        .iter()
        .map(|node| compiler.node_words("table", node))
        .collect();
    let mut words = Vec::new();
    if let Some(entry) = table.get("words") {
        for node in compiler.list("words", &entry.node) {
            match node.value {
                Tree::Number(number) if number >= 0.0 && number < header.len() as f64 => {
                    words.push(number as usize);
                }
                _ => compiler.complain(
                    &node.place,
                    "words",
                    "expected numbers of columns, the first of which is 0",
                ),
            }
        }
    }
    let mut rows = Vec::new();
    for row in compiler.tables(table, "rows") {
        let found = compiler.within(|compiler| {
            compiler.only(&row, &["each", "cells"]);
            let each = row.get("each").map(|entry| compiler.each(entry));
            let entry = compiler.needed(&row, "cells", "cells = [\"a cell for each column\"]")?;
            let nodes = compiler.list("cells", &entry.node);
            if nodes.len() != header.len() {
                let message = format!(
                    "expected {} cells, as many as columns, found {}",
                    header.len(),
                    nodes.len()
                );
                compiler.complain(&entry.node.place, "cells", message);
            }
            let cells = nodes.iter().map(|node| compiler.node_words("cells", node)).collect();
            Some(Rows { each, cells })
        });
        rows.extend(found);
    }
    Some(Content::Table { header, words, rows })
}

fn figures(compiler: &mut Compiler, table: &Table<'_>, entry: &Entry) -> Option<Content> {
    compiler.only(table, &["each", "figures", "expected", "rows"]);
    let title = compiler.words(entry);
    let expected = compiler
        .needed(table, "expected", "expected = \"published\"")
        .map(|entry| compiler.words(entry))?;
    let mut rows = Vec::new();
    for row in compiler.tables(table, "rows") {
        let found = compiler.within(|compiler| {
            compiler.only(&row, &["each", "name", "unit", "expected", "ours", "note", "tolerance"]);
            Some(FigureRow {
                each: row.get("each").map(|entry| compiler.each(entry)),
                name: compiler
                    .needed(&row, "name", "name = \"read\"")
                    .map(|entry| compiler.words(entry))?,
                unit: row.get("unit").map(|entry| compiler.words(entry)),
                expected: row.get("expected").map(|entry| compiler.formula(entry)),
                ours: compiler
                    .needed(&row, "ours", "ours = \"one[0].bw\"")
                    .map(|entry| compiler.formula(entry))?,
                note: row.get("note").map(|entry| compiler.words(entry)),
                tolerance: row.get("tolerance").map(|entry| compiler.formula(entry)),
            })
        });
        rows.extend(found);
    }
    Some(Content::Figures { title, expected, rows })
}

fn plot(compiler: &mut Compiler, table: &Table<'_>, entry: &Entry) -> Option<Content> {
    compiler.only(table, &["each", "plot", "description", "mark", "x", "y", "series"]);
    let title = compiler.words(entry);
    let description = table.get("description").map(|entry| compiler.words(entry));
    let mark =
        table.get("mark").and_then(|entry| choice(compiler, entry, &MARKS)).unwrap_or(Mark::Line);
    let x = axis(compiler, table, "x")?;
    let y = axis(compiler, table, "y")?;
    let mut series = Vec::new();
    for row in compiler.tables(table, "series") {
        let found = compiler.within(|compiler| {
            compiler.only(&row, &["each", "name", "x", "y", "labels"]);
            Some(Line {
                each: row.get("each").map(|entry| compiler.each(entry)),
                name: compiler
                    .needed(&row, "name", "name = \"ours\"")
                    .map(|entry| compiler.words(entry))?,
                x: compiler
                    .needed(&row, "x", "x = \"a list\"")
                    .map(|entry| compiler.formula(entry))?,
                y: compiler
                    .needed(&row, "y", "y = \"a list\"")
                    .map(|entry| compiler.formula(entry))?,
                labels: row.get("labels").map(|entry| compiler.formula(entry)),
            })
        });
        series.extend(found);
    }
    Some(Content::Plot(Box::new(Drawing { title, description, mark, x, y, series })))
}

fn axis(compiler: &mut Compiler, table: &Table<'_>, key: &str) -> Option<Axis> {
    let entry = compiler.needed(
        table,
        key,
        &format!("{key} = {{ title = \"depth\", unit = \"count\" }}"),
    )?;
    let axis = compiler.table(entry);
    compiler.only(&axis, &["title", "unit", "scale"]);
    let title =
        compiler.needed(&axis, "title", "title = \"depth\"").map(|entry| compiler.text(entry))?;
    let unit =
        axis.get("unit").and_then(|entry| choice(compiler, entry, &UNITS)).unwrap_or(Unit::Count);
    let scale = axis
        .get("scale")
        .and_then(|entry| choice(compiler, entry, &SCALES))
        .unwrap_or(Scale::Linear);
    Some(Axis { title, unit, scale })
}

fn plot_of(compiler: &mut Compiler, table: &Table<'_>, entry: &Entry) -> Option<Content> {
    compiler.only(table, &["each", "plot_of", "variants"]);
    let is_latency = choice(compiler, entry, &[("latency", true), ("request_sizes", false)])?;
    let mut variants = Vec::new();
    for row in compiler.tables(table, "variants") {
        compiler.only(&row, &["label", "run"]);
        let label =
            compiler.needed(&row, "label", "label = \"one\"").map(|entry| compiler.words(entry))?;
        let run = compiler
            .needed(&row, "run", "run = \"one[0]\"")
            .map(|entry| compiler.formula(entry))?;
        variants.push((label, run));
    }
    Some(Content::PlotOf { is_latency, variants })
}

/// Returns what a word stands for.
fn choice<T: Copy>(compiler: &mut Compiler, entry: &Entry, all: &[(&str, T)]) -> Option<T> {
    let word = compiler.text(entry);
    let found = all.iter().find(|(name, _)| *name == word).map(|(_, choice)| *choice);
    if found.is_none() {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        compiler.complain(
            &entry.node.place,
            &entry.key,
            format!("expected one of {}, found {word}", names.join(", ")),
        );
    }
    found
}
