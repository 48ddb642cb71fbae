//! What an experiment is: its TOML file, checked. `docs/reference/reproduce.md` describes each key.

use std::sync::Arc;

use elevon_core::nearest::did_you_mean;
use elevon_formats::fio::{Diagnostic, Span};
use elevon_formats::toml_tree::{self, Entry, Node, Tree};

use super::evaluate::Function;
use super::expression::{Expr, Template};
use super::part::{Part, parts};
use super::reader::{Compiler, Each, Formula, NAME_RULE, Placed, Table, Words, is_name};
use super::value::{Record, Value, list, text};

/// An experiment.
pub(super) struct Definition {
    pub(super) title: String,
    /// Its line in the list of experiments.
    pub(super) summary: String,
    /// Parameters of the file, and `published`.
    pub(super) names: Record,
    pub(super) functions: Vec<(String, Function)>,
    pub(super) runs: Vec<RunDefinition>,
    pub(super) sections: Vec<Section>,
    pub(super) checks: Vec<(String, Formula)>,
}

/// A job that runs once for each combination of values.
pub(super) struct RunDefinition {
    pub(super) name: String,
    pub(super) job: Words,
    pub(super) options: Words,
    pub(super) variables: Vec<(String, Words)>,
    /// Axes, the first of which changes slowest.
    pub(super) over: Vec<Each>,
    pub(super) only: Option<Formula>,
    pub(super) fit: Option<Fit>,
    pub(super) trace: bool,
    /// Figures that are computed from each run, and kept under these names.
    pub(super) measures: Vec<(String, Formula)>,
    pub(super) hook: Option<Hook>,
}

/// A whole number that is searched by runs, under a name.
pub(super) struct Fit {
    pub(super) name: String,
    pub(super) search: Search,
}

pub(super) enum Search {
    /// The number between two bounds at which a figure has a value; the figure rises with it.
    Meets(Box<Meets>),
    /// A number that a run with it gives again, from 0 on.
    Again(Formula),
}

pub(super) struct Meets {
    pub(super) bounds: [Formula; 2],
    pub(super) measure: Formula,
    /// The value that the figure has to have.
    pub(super) meets: Formula,
}

/// Code that an experiment needs besides runs, and its settings.
pub(super) struct Hook {
    pub(super) name: Words,
    pub(super) settings: Vec<(String, Formula)>,
}

pub(super) struct Section {
    pub(super) heading: Option<Words>,
    pub(super) each: Option<Each>,
    /// Names for values of the section.
    pub(super) names: Vec<(String, Formula)>,
    pub(super) parts: Vec<Part>,
}

const TOP: [&str; 9] =
    ["title", "summary", "parameters", "full", "published", "functions", "run", "section", "check"];

impl Definition {
    /// Parses the text of an experiment; `file` is its name in complaints. With `full` the
    /// parameters of `[full]` replace others.
    ///
    /// # Errors
    /// All errors, each with its place and what would be right.
    pub(super) fn parse(file: &str, text: &str, full: bool) -> Result<Self, Vec<Diagnostic>> {
        let top = toml_tree::parse(file, text)?;
        let mut compiler = Compiler {
            errors: Vec::new(),
            names: vec!["published".to_owned()],
            functions: Vec::new(),
        };
        let start = Span { file: file.to_owned(), line: 1, column: 1 };
        let top = Table { all: &top, place: &start, key: "" };
        let found = compiler.definition(&top, full);
        if compiler.errors.is_empty() { Ok(found) } else { Err(compiler.errors) }
    }
}

impl Compiler {
    fn definition(&mut self, top: &Table<'_>, full: bool) -> Definition {
        self.only(top, &TOP);
        let title = self
            .needed(top, "title", "title = \"name: what it is about\"")
            .map(|entry| self.text(entry));
        let summary = top.get("summary").map(|entry| self.text(entry));
        let mut names = self.parameters(top, full);
        names.insert("published".to_owned(), self.published(top));
        let runs = self.tables(top, "run");
        let run_names: Vec<String> =
            runs.iter().filter_map(|run| run.get("name")).map(|entry| self.text(entry)).collect();
        for (at, name) in run_names.iter().enumerate() {
            let is_twice = self.names.contains(name) || run_names[..at].contains(name);
            if let Some(entry) = runs[at].get("name").filter(|_| is_twice || !is_name(name)) {
                self.complain(
                    &entry.node.place,
                    "name",
                    format!("expected a name of letters that nothing else has, found {name}"),
                );
            }
        }
        self.names.extend(run_names);
        let functions = self.functions(top);
        let runs: Vec<RunDefinition> =
            runs.iter().map(|run| self.within(|compiler| compiler.run(run))).collect();
        if runs.is_empty() && self.errors.is_empty() {
            self.complain(
                top.place,
                "run",
                "is not given; an experiment runs jobs: [[run]] name = \"one\", job = \"one.fio\"",
            );
        }
        let sections = self.tables(top, "section");
        let sections = sections
            .iter()
            .map(|section| self.within(|compiler| compiler.section(section)))
            .collect();
        let checks = self.tables(top, "check");
        let checks = checks.iter().filter_map(|check| self.one_check(check)).collect();
        let (title, summary) = (title.unwrap_or_default(), summary.unwrap_or_default());
        Definition { title, summary, names, functions, runs, sections, checks }
    }

    fn one_check(&mut self, check: &Table<'_>) -> Option<(String, Formula)> {
        self.only(check, &["what", "that"]);
        let what =
            self.needed(check, "what", "what = \"calibrated\"").map(|entry| self.text(entry))?;
        let that = self.needed(check, "that", "that = \"within(ours, published.one, 5)\"")?;
        Some((what, self.formula(that)))
    }

    fn parameters(&mut self, top: &Table<'_>, full: bool) -> Record {
        let mut names = Record::new();
        if let Some(entry) = top.get("parameters") {
            for entry in self.table(entry).all {
                self.new_name(entry);
                names.insert(entry.key.clone(), value_of(&entry.node));
            }
        }
        if let Some(entry) = top.get("full") {
            for entry in self.table(entry).all {
                if !names.contains_key(&entry.key) {
                    let meant = did_you_mean(&entry.key, names.keys().map(String::as_str));
                    self.complain(
                        &entry.key_place,
                        &entry.key,
                        format!("expected the name of a parameter{meant}"),
                    );
                } else if full {
                    names.insert(entry.key.clone(), value_of(&entry.node));
                }
            }
        }
        names
    }

    /// Returns the published figures of all sources.
    fn published(&mut self, top: &Table<'_>) -> Value {
        let mut all = Record::new();
        for source in self.tables(top, "published") {
            self.only(&source, &["source", "figures"]);
            if let Some(entry) = self.needed(&source, "source", "source = \"who, where, when\"")
                && self.text(entry).trim().is_empty()
            {
                self.complain(
                    &entry.node.place,
                    "source",
                    "expected who published the figures, where and when",
                );
            }
            let Some(figures) = self.needed(&source, "figures", "figures = { name = 25 }") else {
                continue;
            };
            for entry in self.table(figures).all {
                if all.insert(entry.key.clone(), value_of(&entry.node)).is_some() {
                    self.complain(
                        &entry.key_place,
                        &entry.key,
                        "is there twice; give each figure a name of its own",
                    );
                }
            }
        }
        Value::Record(Arc::new(all))
    }

    fn functions(&mut self, top: &Table<'_>) -> Vec<(String, Function)> {
        let Some(entry) = top.get("functions") else { return Vec::new() };
        let table = self.table(entry);
        let mut heads = Vec::new();
        for entry in table.all {
            let head = entry.key.strip_suffix(')').and_then(|head| head.split_once('('));
            let arguments: Option<(&str, Vec<String>)> = head.map(|(name, arguments)| {
                (
                    name,
                    arguments
                        .split(',')
                        .map(|one| one.trim().to_owned())
                        .filter(|one| !one.is_empty())
                        .collect(),
                )
            });
            match arguments
                .filter(|(name, all)| is_name(name) && all.iter().all(|one| is_name(one)))
            {
                Some((name, arguments)) => {
                    self.functions.push(name.to_owned());
                    heads.push((name.to_owned(), arguments, entry));
                }
                None => {
                    self.complain(
                        &entry.key_place,
                        &entry.key,
                        "expected \"name(argument, other)\" = \"expression\"",
                    );
                }
            }
        }
        let compile = |(name, arguments, entry): (String, Vec<String>, &Entry)| {
            let body = self.within(|compiler| {
                compiler.names.extend(arguments.iter().cloned());
                compiler.formula(entry)
            });
            (name, Function { arguments, body: body.it })
        };
        heads.into_iter().map(compile).collect()
    }

    fn run(&mut self, run: &Table<'_>) -> RunDefinition {
        self.only(
            run,
            &["name", "job", "options", "env", "over", "only", "fit", "trace", "measure", "hook"],
        );
        let name = self
            .needed(run, "name", "name = \"one\"")
            .map(|entry| self.text(entry))
            .unwrap_or_default();
        let over = run.get("over").map_or_else(Vec::new, |entry| self.named(entry));
        let only = run.get("only").map(|entry| self.formula(entry));
        let fit = run.get("fit").map(|entry| self.fit(entry));
        let job = self.needed(run, "job", "job = \"one.fio\"").map(|entry| self.words(entry));
        let nothing = || Placed {
            it: Template::default(),
            key: "options".to_owned(),
            place: run.place.clone(),
        };
        let options = run.get("options").map(|entry| self.words(entry)).unwrap_or_else(nothing);
        let variables = run.get("env").map_or_else(Vec::new, |entry| {
            self.table(entry)
                .all
                .iter()
                .map(|entry| (entry.key.clone(), self.words(entry)))
                .collect()
        });
        let hook = run.get("hook").and_then(|entry| self.hook(entry));
        let trace = run.get("trace").is_some_and(|entry| self.flag(entry));
        let measures = run.get("measure").map_or_else(Vec::new, |entry| self.measures(entry));
        RunDefinition {
            measures,
            name,
            job: job.unwrap_or_else(nothing),
            options,
            variables,
            over,
            only,
            fit,
            trace,
            hook,
        }
    }

    fn fit(&mut self, entry: &Entry) -> Fit {
        let table = self.table(entry);
        let name = self
            .needed(&table, "name", "name = \"cost\"")
            .map(|entry| self.text(entry))
            .unwrap_or_default();
        let search = if table.get("again").is_some() {
            self.only(&table, &["name", "again"]);
            let again = self
                .needed(&table, "again", "again = \"round(run.iops)\"")
                .map(|entry| self.of_run(entry));
            again.map(Search::Again)
        } else {
            self.only(&table, &["name", "from", "to", "measure", "meets"]);
            let number = "a whole number, such as 0";
            let from = self.needed(&table, "from", number).map(|entry| self.formula(entry));
            let to = self.needed(&table, "to", number).map(|entry| self.formula(entry));
            let meets = self
                .needed(&table, "meets", "meets = \"published.one\"")
                .map(|entry| self.formula(entry));
            let measure = self
                .needed(&table, "measure", "measure = \"run.bw\"")
                .map(|entry| self.of_run(entry));
            let all = from.zip(to).zip(measure.zip(meets));
            all.map(|((from, to), (measure, meets))| {
                Search::Meets(Box::new(Meets { bounds: [from, to], measure, meets }))
            })
        };
        self.names.push(name.clone());
        let nothing = || {
            Search::Again(Placed {
                it: Expr::default(),
                key: String::new(),
                place: entry.key_place.clone(),
            })
        };
        Fit { name, search: search.unwrap_or_else(nothing) }
    }

    /// Compiles an expression about the run that was just made, which it calls `run`.
    fn of_run(&mut self, entry: &Entry) -> Formula {
        self.within(|compiler| {
            compiler.names.push("run".to_owned());
            compiler.formula(entry)
        })
    }

    /// Compiles figures of the run that was just made.
    fn measures(&mut self, entry: &Entry) -> Vec<(String, Formula)> {
        let mut all = Vec::new();
        for entry in self.table(entry).all {
            if !is_name(&entry.key) {
                self.complain(&entry.key_place, &entry.key, NAME_RULE);
            }
            all.push((entry.key.clone(), self.of_run(entry)));
        }
        all
    }

    fn hook(&mut self, entry: &Entry) -> Option<Hook> {
        let table = self.table(entry);
        let name =
            self.needed(&table, "name", "name = \"io-throttle\"").map(|entry| self.words(entry))?;
        let others = table.all.iter().filter(|entry| entry.key != "name");
        let settings = others.map(|entry| (entry.key.clone(), self.formula(entry))).collect();
        Some(Hook { name, settings })
    }

    fn section(&mut self, section: &Table<'_>) -> Section {
        self.only(section, &["heading", "each", "let", "part"]);
        let each = section.get("each").map(|entry| self.each(entry));
        let names = section.get("let").map_or_else(Vec::new, |entry| self.named(entry));
        let heading = section.get("heading").map(|entry| self.words(entry));
        let tables = self.tables(section, "part");
        Section { heading, each, names, parts: parts(self, &tables) }
    }
}

/// Returns a parameter's value.
fn value_of(node: &Node) -> Value {
    match &node.value {
        Tree::Text(words) => text(words.as_str()),
        Tree::Number(number) => Value::Number(*number),
        Tree::Flag(flag) => Value::Flag(*flag),
        Tree::List(all) => list(all.iter().map(value_of)),
        Tree::Table(all) => Value::Record(Arc::new(
            all.iter().map(|entry| (entry.key.clone(), value_of(&entry.node))).collect(),
        )),
    }
}
