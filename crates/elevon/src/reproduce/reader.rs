//! Reads tables, expressions and templates of an experiment's file, and collects what is wrong.

use elevon_core::nearest::did_you_mean;
use elevon_formats::fio::{Diagnostic, Problem, Span};
use elevon_formats::toml_tree::{Entry, Node, Tree};

use super::evaluate::FUNCTIONS;
use super::expression::{Expr, Part as TemplatePart, SyntaxError, Template};

/// Something that was written at a place, under a key.
#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub(super) it: T,
    pub(super) key: String,
    pub(super) place: Span,
}

/// An expression of the file.
pub(super) type Formula = Placed<Expr>;
/// A template of the file.
pub(super) type Words = Placed<Template>;
/// A name that stands for each element of a list.
pub(super) type Each = (String, Formula);

/// Reads tables and collects what is wrong.
pub(super) struct Compiler {
    pub(super) errors: Vec<Diagnostic>,
    /// Names that expressions may use at this point.
    pub(super) names: Vec<String>,
    pub(super) functions: Vec<String>,
}

/// What a name has to be.
pub(super) const NAME_RULE: &str =
    "expected a name of letters, digits and _ that starts with a letter";

/// The entries of a table of the file.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) all: &'a [Entry],
    pub(super) place: &'a Span,
    /// Its name in complaints.
    pub(super) key: &'a str,
}

impl<'a> Table<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&'a Entry> {
        self.all.iter().find(|entry| entry.key == key)
    }
}

impl Compiler {
    pub(super) fn complain(&mut self, place: &Span, key: &str, message: impl Into<String>) {
        self.errors.push(place.diagnostic(key, Problem::Malformed.because(message)));
    }

    /// Complains of keys that there are not.
    pub(super) fn only(&mut self, table: &Table<'_>, known: &[&str]) {
        for entry in table.all.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let meant = did_you_mean(&entry.key, known.iter().copied());
            self.complain(
                &entry.key_place,
                &entry.key,
                format!("no such key{meant}; there are {}", known.join(", ")),
            );
        }
    }

    /// Returns an entry that has to be there.
    pub(super) fn needed<'a>(
        &mut self,
        table: &Table<'a>,
        key: &str,
        right: &str,
    ) -> Option<&'a Entry> {
        let found = table.get(key);
        if found.is_none() {
            let message = format!(
                "is not given in {}; write {right}",
                if table.key.is_empty() { "the file" } else { table.key }
            );
            self.complain(table.place, key, message);
        }
        found
    }

    pub(super) fn table<'a>(&mut self, entry: &'a Entry) -> Table<'a> {
        self.node_table(&entry.key, &entry.node)
    }

    fn node_table<'a>(&mut self, key: &'a str, node: &'a Node) -> Table<'a> {
        let Tree::Table(all) = &node.value else {
            self.complain(&node.place, key, "expected a table");
            return Table { all: &[], place: &node.place, key };
        };
        Table { all, place: &node.place, key }
    }

    /// Returns the tables of a list, `[[key]]`.
    pub(super) fn tables<'a>(&mut self, table: &Table<'a>, key: &'a str) -> Vec<Table<'a>> {
        let Some(entry) = table.get(key) else { return Vec::new() };
        let Tree::List(all) = &entry.node.value else {
            self.complain(&entry.node.place, key, format!("expected a list of tables: [[{key}]]"));
            return Vec::new();
        };
        all.iter().map(|node| self.node_table(key, node)).collect()
    }

    pub(super) fn text(&mut self, entry: &Entry) -> String {
        self.node_text(&entry.key, &entry.node).to_owned()
    }

    fn node_text<'a>(&mut self, key: &str, node: &'a Node) -> &'a str {
        let Tree::Text(found) = &node.value else {
            self.complain(&node.place, key, "expected a text in quotes");
            return "";
        };
        found
    }

    pub(super) fn flag(&mut self, entry: &Entry) -> bool {
        let Tree::Flag(flag) = entry.node.value else {
            self.complain(&entry.node.place, &entry.key, "expected true or false");
            return false;
        };
        flag
    }

    /// Returns the nodes of a list.
    pub(super) fn list<'a>(&mut self, key: &str, node: &'a Node) -> &'a [Node] {
        let Tree::List(all) = &node.value else {
            self.complain(&node.place, key, "expected a list");
            return &[];
        };
        all
    }

    pub(super) fn formula(&mut self, entry: &Entry) -> Formula {
        self.node_formula(&entry.key, &entry.node)
    }

    /// Compiles an expression; a number stands for itself.
    pub(super) fn node_formula(&mut self, key: &str, node: &Node) -> Formula {
        let it = match &node.value {
            Tree::Number(number) => Expr::Number(*number),
            _ => {
                let text = self.node_text(key, node);
                let found = Expr::parse(text);
                self.compiled(key, node, text, found, |compiler, expr| compiler.check(expr, text))
            }
        };
        Placed { it, key: key.to_owned(), place: node.place.clone() }
    }

    pub(super) fn words(&mut self, entry: &Entry) -> Words {
        self.node_words(&entry.key, &entry.node)
    }

    pub(super) fn node_words(&mut self, key: &str, node: &Node) -> Words {
        let text = self.node_text(key, node);
        let found = Template::parse(text);
        let it = self.compiled(key, node, text, found, |compiler, words| {
            compiler.check_template(words, text)
        });
        Placed { it, key: key.to_owned(), place: node.place.clone() }
    }

    /// Checks the names of what was parsed, or complains at the place of the error.
    fn compiled<T: Default>(
        &mut self,
        key: &str,
        node: &Node,
        text: &str,
        found: Result<T, SyntaxError>,
        check: impl FnOnce(&Self, &T) -> Result<(), SyntaxError>,
    ) -> T {
        let found = found.and_then(|it| check(self, &it).map(|()| it));
        found.unwrap_or_else(|error| {
            self.complain(&inside(&node.place, text, error.at), key, error.message);
            T::default()
        })
    }

    /// Complains of the names in an expression that stand for nothing.
    fn check(&self, expr: &Expr, text: &str) -> Result<(), SyntaxError> {
        let at = |name: &str| text.find(name).unwrap_or(0);
        match expr {
            Expr::Number(_) => Ok(()),
            Expr::Text(template) => self.check_template(template, text),
            Expr::Name(name) if self.names.iter().any(|known| known == name) => Ok(()),
            Expr::Name(name) => {
                let meant = did_you_mean(name, self.names.iter().map(String::as_str));
                let known = self.names.join(", ");
                Err(SyntaxError {
                    at: at(name),
                    message: format!("no such name: {name}{meant}; there are {known}"),
                })
            }
            Expr::List(all) => all.iter().try_for_each(|one| self.check(one, text)),
            Expr::Each { element, name, list, condition } => {
                self.check(list, text)?;
                let names = self.names.iter().chain([name]).cloned().collect();
                let inner = Self { errors: Vec::new(), names, functions: self.functions.clone() };
                inner.check(element, text)?;
                condition.as_ref().map_or(Ok(()), |one| inner.check(one, text))
            }
            Expr::Field(value, _) | Expr::Not(value) | Expr::Minus(value) => {
                self.check(value, text)
            }
            Expr::Index(value, index) => {
                self.check(value, text).and_then(|()| self.check(index, text))
            }
            Expr::Pick(value, wanted) => {
                self.check(value, text)?;
                wanted.iter().try_for_each(|(_, one)| self.check(one, text))
            }
            Expr::Call(name, arguments) => {
                let own = self.functions.iter().map(String::as_str);
                if !FUNCTIONS.contains(&name.as_str()) && !self.functions.contains(name) {
                    let meant = did_you_mean(name, own.chain(FUNCTIONS.iter().copied()));
                    return Err(SyntaxError {
                        at: at(name),
                        message: format!("no such function: {name}{meant}"),
                    });
                }
                arguments.iter().try_for_each(|one| self.check(one, text))
            }
            Expr::Both(_, a, b) => self.check(a, text).and_then(|()| self.check(b, text)),
        }
    }

    fn check_template(&self, template: &Template, text: &str) -> Result<(), SyntaxError> {
        template.0.iter().try_for_each(|part| match part {
            TemplatePart::Text(_) => Ok(()),
            TemplatePart::Value(expr, _) => self.check(expr, text),
        })
    }

    /// Compiles `name in list`, and makes the name known.
    pub(super) fn each(&mut self, entry: &Entry) -> Each {
        let found = self.text(entry);
        let Some((name, list)) = found.split_once(" in ").filter(|(name, _)| is_name(name)) else {
            self.complain(
                &entry.node.place,
                &entry.key,
                "expected `name in list`, such as \"run in five\"",
            );
            return (
                String::new(),
                Placed { it: Expr::default(), key: String::new(), place: Span::default() },
            );
        };
        let from = name.len() + " in ".len();
        let place = inside(&entry.node.place, &found, from);
        let node = Node { value: Tree::Text(list.to_owned()), place };
        let list = self.node_formula(&entry.key, &node);
        self.names.push(name.to_owned());
        (name.to_owned(), list)
    }

    /// Does something in which names become known that are not known afterwards.
    pub(super) fn within<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.names.len();
        let found = work(self);
        self.names.truncate(before);
        found
    }

    /// Compiles a table of names with expressions; each knows those before it.
    pub(super) fn named(&mut self, entry: &Entry) -> Vec<(String, Formula)> {
        let mut all = Vec::new();
        for entry in self.table(entry).all {
            let formula = self.formula(entry);
            self.new_name(entry);
            all.push((entry.key.clone(), formula));
        }
        all
    }

    pub(super) fn new_name(&mut self, entry: &Entry) {
        if !is_name(&entry.key) {
            self.complain(&entry.key_place, &entry.key, NAME_RULE);
        }
        self.names.push(entry.key.clone());
    }
}

impl Default for Expr {
    fn default() -> Self {
        Self::Number(0.0)
    }
}

pub(super) fn is_name(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns the place of a byte of a text that starts at a place.
fn inside(place: &Span, text: &str, at: usize) -> Span {
    let before = text.get(..at).unwrap_or(text);
    let lines = before.matches('\n').count() as u32;
    let in_line = before.rsplit('\n').next().unwrap_or_default().chars().count() as u32;
    let column = if lines == 0 { place.column + in_line } else { in_line + 1 };
    Span { file: place.file.clone(), line: place.line + lines, column }
}
