//! A TOML file as a tree whose keys and values know their places, for formats that are checked
//! elsewhere.
//!
//! Cost: O(size of the file).

use toml::de::DeTable;

use crate::diagnostic::{Diagnostic, Span};
use crate::toml_reader::{Reader, Value, entries, whole_number};

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Tree,
    /// The place of the value; of a text in one line, the place of its first character.
    pub place: Span,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// A text.
    Text(String),
    /// A decimal number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// A list.
    List(Vec<Node>),
    /// A table, in the file's order.
    Table(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub key_place: Span,
    /// The value.
    pub node: Node,
}

/// Parses a text. `file` is its name in complaints.
///
/// # Errors
/// All errors of the syntax, and values that are neither text, decimal number, true, false, list
/// nor table; each with its place and what would be right.
pub fn parse(file: &str, text: &str) -> Result<Vec<Entry>, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, text);
    let Some(table) = reader.table() else { return Err(reader.complaints) };
    let all = table_of(&mut reader, table.get_ref());
    if reader.complaints.is_empty() { Ok(all) } else { Err(reader.complaints) }
}

fn table_of(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Vec<Entry> {
    let mut all = Vec::new();
    for entry in entries(table) {
        let key_place = reader.place(entry.key.start);
        let node = node(reader, entry.name, entry.value, entry.at);
        all.push(Entry { key: entry.name.to_owned(), key_place, node });
    }
    all
}

fn node(reader: &mut Reader<'_>, key: &str, value: &Value<'_>, at: std::ops::Range<usize>) -> Node {
    let mut place = reader.place(at.start);
    let value = match value {
        Value::String(text) => {
            place = reader.place(reader.inside(&at, text, 0));
            Tree::Text(text.to_string())
        }
        Value::Boolean(flag) => Tree::Flag(*flag),
        Value::Array(all) => Tree::List(
            all.iter().map(|one| node(reader, key, one.get_ref(), one.span())).collect::<Vec<_>>(),
        ),
        Value::Table(table) => Tree::Table(table_of(reader, table)),
        Value::Float(number) => number_of(reader, key, at.start, &number.as_str().replace('_', "")),
        value => number_of(reader, key, at.start, &whole_number(value).unwrap_or_default()),
    };
    Node { value, place }
}

fn number_of(reader: &mut Reader<'_>, key: &str, at: usize, digits: &str) -> Tree {
    let number = digits.parse().ok().filter(|number: &f64| number.is_finite());
    if number.is_none() {
        reader.complain(
            at,
            key,
            "expected a text in quotes, a decimal number, true, false, a list or a table",
        );
    }
    Tree::Number(number.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_places() {
        let all = parse("x.toml", "a = 'text'\n[b]\nc = [1, 2.5]\nd = true\n").expect("good TOML");
        assert_eq!(
            (all[0].key.as_str(), &all[0].node.value),
            ("a", &Tree::Text("text".to_owned()))
        );
        assert_eq!((all[0].node.place.line, all[0].node.place.column), (1, 6));
        let Tree::Table(b) = &all[1].node.value else { panic!("a table") };
        let Tree::List(c) = &b[0].node.value else { panic!("a list") };
        assert_eq!((&c[1].value, c[1].place.line, c[1].place.column), (&Tree::Number(2.5), 3, 9));
        assert_eq!((&b[1].node.value, b[1].key_place.line), (&Tree::Flag(true), 4));
    }

    #[test]
    fn errors_have_places() {
        for (text, line) in [
            ("a = \n", "x.toml:1:"),
            (
                "a = 1\nb = 2020-01-01\n",
                "x.toml:2:5: b: expected a text in quotes, a decimal number",
            ),
            ("a = [1, nan]\n", "x.toml:1:9: a: expected"),
        ] {
            let shown = parse("x.toml", text).expect_err(text)[0].to_string();
            assert!(shown.starts_with(line), "{shown}");
        }
    }
}
