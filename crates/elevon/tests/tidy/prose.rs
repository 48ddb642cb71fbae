//! Counts words, parentheses and idioms in the sentences of every Markdown file and every comment,
//! and holds them to the rule of `CONTRIBUTING.md`, *Language*. `cargo test -p elevon --test tidy
//! keep_the_rule -- --nocapture` prints the figures and the worst ten sentences.

use std::collections::BTreeMap;
use std::path::Path;

use crate::documents::{documents, prose_lines};
use crate::{root, sources};

/// Maximum mean of the words of a sentence.
const MEAN_WORDS: f64 = 17.0;
/// A sentence with more words is long.
const LONG: usize = 30;
/// Maximum share of long sentences. One of a page may always be long.
const LONG_SHARE: f64 = 0.08;
/// Maximum words of a sentence.
const MOST_WORDS: usize = 45;
/// Maximum columns of a line outside of tables, code and links.
const COLUMNS: usize = 100;

/// Words that tell of an earlier state or of a measurement. `docs/evidence/` may have them.
const HISTORY: [&str; 6] =
    ["formerly", "previously", "used to be", "measured on", "measured with", "measured before"];

/// A sentence and its place.
struct Sentence {
    /// Path from the root of the repository, and the line of its paragraph.
    place: String,
    text: String,
    words: usize,
    /// It stands in a cell of a table, where a mean would say nothing.
    is_cell: bool,
}

/// One paragraph, item, heading or cell.
struct Paragraph {
    line: usize,
    text: String,
    is_cell: bool,
}

/// Cuts Markdown into paragraphs, without code and comments.
fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let mut is_open = false;
    let mut is_code = false;
    let mut is_comment = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
            is_open = false;
            continue;
        }
        is_comment |= line.starts_with("<!--");
        if is_code || is_comment {
            is_comment &= !line.ends_with("-->");
            is_open = false;
            continue;
        }
        let starts_item = line.starts_with("- ")
            || line.starts_with("* ")
            || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        let is_alone = line.is_empty() || line.starts_with(['#', '|', '>']);
        if line.starts_with('|') {
            let cells = line.trim_matches('|').split(" | ");
            found.extend(cells.map(|cell| Paragraph {
                line: number + 1,
                text: cell.to_owned(),
                is_cell: true,
            }));
        } else if is_open && !starts_item && !is_alone {
            let last = found.last_mut().expect("an open paragraph");
            last.text.push(' ');
            last.text.push_str(line);
        } else if !line.is_empty() && !line.starts_with('#') {
            found.push(Paragraph { line: number + 1, text: line.to_owned(), is_cell: false });
        }
        is_open = !is_alone;
    }
    found
}

/// Returns a text with each piece of code as one word, and each link as its text.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for (index, part) in text.split('`').enumerate() {
        plain.push_str(if index % 2 == 0 { part } else { "`code`" });
    }
    without_links(&plain)
}

fn without_links(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::new();
    while let Some((head, tail)) = rest.split_once("](") {
        plain.push_str(head);
        rest = tail.split_once(')').map_or("", |(_, tail)| tail);
    }
    plain.push_str(rest);
    plain
}

/// Cuts a paragraph into sentences: a full stop ends one before a capital, code, a quote or a
/// bracket.
fn cut(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices(". ").chain(text.match_indices("? ")) {
        let next = text[at + 2..].trim_start().chars().next();
        let starts = |c: char| c.is_uppercase() || c.is_numeric() || "`\"*([".contains(c);
        if at >= from && next.is_some_and(starts) {
            sentences.push(text[from..=at].trim());
            from = at + 2;
        }
    }
    sentences.push(text[from..].trim());
    sentences
}

/// Returns the sentences of a Markdown text whose first line is `first` of `name`. Fewer than
/// three words are no sentence.
fn sentences(name: &str, first: usize, markdown: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    for paragraph in paragraphs(markdown) {
        let text = plain(&paragraph.text);
        for sentence in cut(&text) {
            let is_word = |word: &&str| word.contains(|c: char| c.is_alphanumeric());
            let words = sentence.split_whitespace().filter(is_word).count();
            if words >= 3 {
                found.push(Sentence {
                    place: format!("{name}:{}", first + paragraph.line - 1),
                    text: sentence.to_owned(),
                    words,
                    is_cell: paragraph.is_cell,
                });
            }
        }
    }
    found
}

/// Returns the sentences of the comments of a Rust file.
fn comments(name: &str, text: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    let mut block = String::new();
    let mut first = 0;
    for (number, line) in text.lines().chain([""]).enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        if let Some(comment) = comment.map(|text| text.trim_start_matches(['/', '!'])) {
            if block.is_empty() {
                first = number + 1;
            }
            block.push_str(comment);
            block.push('\n');
        } else if !block.is_empty() {
            found.extend(sentences(name, first, &block));
            block.clear();
        }
    }
    found
}

/// An idiom: its name, whether a sentence has it, and the most in a hundred sentences.
type Idiom = (&'static str, fn(&Sentence) -> bool, f64);

/// Idioms that a reader has to decode. The guide of ripgrep has 0, 0, 0.6 and 3.2 in a hundred
/// sentences, by the same count.
const IDIOMS: [Idiom; 4] = [
    ("\"who\" without a noun before it", Sentence::has_bare_who, 0.08),
    ("nobody, somebody", Sentence::has_nobody, 0.15),
    ("\"where\" for \"if\"", Sentence::has_where_for_if, 1.0),
    ("four clauses or more", Sentence::has_many_clauses, 4.0),
];

/// A word that begins a clause, for the count of clauses.
const CONNECTORS: [&str; 19] = [
    "which", "who", "whose", "whom", "that", "where", "if", "because", "since", "while", "when",
    "until", "unless", "although", "though", "whether", "what", "as", "but",
];

impl Sentence {
    /// Returns the words in lower case without punctuation, each with what ends the word before.
    fn tokens(&self) -> impl Iterator<Item = (Option<char>, String)> {
        let mut before = None;
        self.text.split_whitespace().map(move |word| {
            let clean = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            let begins = if word.starts_with('(') { Some('(') } else { before };
            before = word.chars().next_back().filter(|c| ",;:.".contains(*c));
            (begins, clean)
        })
    }

    fn is_question(&self) -> bool {
        self.text.ends_with('?')
    }

    /// "Who asks first waits": no noun says of whom the sentence speaks.
    fn has_bare_who(&self) -> bool {
        let bare_after =
            ["of", "by", "for", "to", "from", "with", "and", "or", "but", "than", "only", "not"];
        let mut last = String::new();
        let mut is_first = true;
        let found = self.tokens().any(|(before, word)| {
            let is_bare = is_first || before.is_some() || bare_after.contains(&last.as_str());
            let found = ["who", "whoever", "whom"].contains(&word.as_str()) && is_bare;
            is_first = false;
            last = word;
            found
        });
        found && !self.is_question()
    }

    fn has_nobody(&self) -> bool {
        self.tokens().any(|(_, word)| {
            ["nobody", "somebody", "nobody's", "somebody's"].contains(&word.as_str())
        })
    }

    /// "Where a write waits, ..." and "..., where it was asked for": no place is meant.
    fn has_where_for_if(&self) -> bool {
        let mut is_first = true;
        let found = self.tokens().any(|(before, word)| {
            let is_bare = is_first || before.is_some();
            is_first = false;
            word == "where" && is_bare
        });
        found && !self.is_question()
    }

    fn has_many_clauses(&self) -> bool {
        let connectors =
            self.tokens().filter(|(_, word)| CONNECTORS.contains(&word.as_str())).count();
        let breaks = self.text.matches([';', ':']).count();
        connectors + breaks >= 4
    }

    fn parentheses(&self) -> usize {
        self.text.matches(" (").count() + usize::from(self.text.starts_with('('))
    }
}

/// Figures of many sentences.
struct Figures {
    count: usize,
    mean: f64,
    long: usize,
    too_long: usize,
    parentheses: usize,
    idioms: [usize; IDIOMS.len()],
}

impl Figures {
    fn of(sentences: &[Sentence]) -> Self {
        let prose = || sentences.iter().filter(|sentence| !sentence.is_cell);
        let count = prose().count();
        let words: usize = prose().map(|sentence| sentence.words).sum();
        Self {
            count,
            mean: words as f64 / count.max(1) as f64,
            long: prose().filter(|sentence| sentence.words > LONG).count(),
            too_long: sentences.iter().filter(|sentence| sentence.words > MOST_WORDS).count(),
            parentheses: prose().filter(|sentence| sentence.parentheses() > 1).count(),
            idioms: IDIOMS.map(|(_, is_one, _)| prose().filter(|one| is_one(one)).count()),
        }
    }

    /// True if words and parentheses keep the rule. A single long sentence of a short page does.
    fn is_plain(&self) -> bool {
        self.mean <= MEAN_WORDS
            && self.too_long == 0
            && self.parentheses == 0
            && self.long <= ((self.count as f64 * LONG_SHARE) as usize).max(1)
    }

    /// Returns the first idiom that is used too often.
    fn idiom(&self) -> Option<&'static str> {
        let most = |per_100: f64| (self.count as f64 * per_100 / 100.0).max(1.0);
        let counted = IDIOMS.iter().zip(self.idioms);
        let mut often = counted.filter(|((.., per_100), count)| *count as f64 > most(*per_100));
        often.next().map(|((name, ..), _)| *name)
    }

    fn row(&self, name: &str) -> String {
        let idioms: String = self.idioms.iter().map(|count| format!(" {count:6}")).collect();
        format!(
            "{name:50} {:5} {:5.1} {:5.1} {:4} {:4} {idioms}",
            self.count,
            self.mean,
            self.long as f64 * 100.0 / self.count.max(1) as f64,
            self.too_long,
            self.parentheses,
        )
    }
}

/// The columns of [`Figures::row`].
const HEAD: &str = "                                                   count  mean \
                    % >30  >45 ()()     who nobody  where clauses";

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("a path below the root").display().to_string()
}

/// Prints the figures of each group and of all, and the ten longest sentences. Returns the figures.
fn report(groups: BTreeMap<String, Vec<Sentence>>) -> (Vec<(String, Figures)>, Figures) {
    println!("{HEAD}");
    let rows: Vec<_> =
        groups.iter().map(|(name, sentences)| (name.clone(), Figures::of(sentences))).collect();
    for (name, figures) in &rows {
        println!("{}", figures.row(name));
    }
    let mut all: Vec<Sentence> = groups.into_values().flatten().collect();
    let sum = Figures::of(&all);
    println!("{}", sum.row("all"));
    all.sort_by_key(|sentence| std::cmp::Reverse(sentence.words));
    for sentence in all.iter().take(10) {
        println!("{} words: {}: {}", sentence.words, sentence.place, sentence.text);
    }
    for sentence in all.iter().filter(|one| !one.is_cell && one.parentheses() > 1).take(10) {
        println!("parentheses: {}: {}", sentence.place, sentence.text);
    }
    (rows, sum)
}

/// Fails with a line for each group that breaks the rule.
#[track_caller]
fn hold(groups: Vec<(String, Figures)>) {
    let is_fault =
        |(_, figures): &(String, Figures)| !figures.is_plain() || figures.idiom().is_some();
    let faults: Vec<_> = groups
        .into_iter()
        .filter(is_fault)
        .map(|(name, figures)| {
            format!("{} {}", figures.row(&name), figures.idiom().unwrap_or_default())
        })
        .collect();
    assert!(faults.is_empty(), "not plain:\n{HEAD}\n{}", faults.join("\n"));
}

/// Returns the pages by their paths from the root.
fn pages() -> impl Iterator<Item = (String, String)> {
    documents().into_iter().map(|(path, text)| (relative(&path), text))
}

#[test]
fn pages_keep_the_rule() {
    let pages = pages().map(|(name, text)| (name.clone(), sentences(&name, 1, &text)));
    hold(report(pages.collect()).0);
}

#[test]
fn comments_keep_the_rule() {
    let mut crates: BTreeMap<String, Vec<Sentence>> = BTreeMap::new();
    for (path, text) in sources() {
        let name = relative(&path);
        let krate = name.split('/').nth(1).expect("a crate").to_owned();
        crates.entry(krate).or_default().extend(comments(&name, &text));
    }
    hold(vec![("comments".to_owned(), report(crates).1)]);
}

/// A link counts as its text, and code does not count. A word without a space may be an address,
/// and a picture or a comment is one line.
#[test]
fn lines_of_pages_are_short() {
    let is_prose =
        |line: &&str| !line.trim_start().starts_with(['|', '!', '<']) && line.contains(' ');
    let mut faults = Vec::new();
    for (name, text) in pages() {
        for line in prose_lines(&text).filter(is_prose) {
            let prose: String = without_links(line).split('`').step_by(2).collect();
            if prose.chars().count() > COLUMNS {
                faults.push(format!("{name}: {line}"));
            }
        }
    }
    assert!(faults.is_empty(), "over {COLUMNS} columns:\n{}", faults.join("\n"));
}

#[test]
fn guides_and_references_have_no_history() {
    let sets = ["docs/tutorial/", "docs/how-to/", "docs/reference/"];
    let mut faults = Vec::new();
    let is_guide = |name: &str| sets.iter().any(|set| name.starts_with(set));
    for (name, text) in pages().filter(|(name, _)| is_guide(name)) {
        for line in text.lines() {
            let words = line.to_lowercase();
            if HISTORY.iter().any(|history| words.contains(history)) {
                faults.push(format!("{name}: {line}"));
            }
        }
    }
    assert!(faults.is_empty(), "history or a measurement:\n{}", faults.join("\n"));
}

#[test]
fn the_counter_counts() {
    let page = "# A heading is no sentence\n\nOne `let x = 1;` is\none [word](a/b.md). Is it? Yes, \
                it is.\n\n```sh\nno words here at all\n```\n- an item of five words\n\n\
                | a cell of four | b |\n";
    let found = sentences("page", 1, page);
    let counted: Vec<_> = found.iter().map(|one| (one.words, one.is_cell)).collect();
    assert_eq!(counted, [(5, false), (3, false), (5, false), (4, true)]);
    assert_eq!(found[2].place, "page:9");
    let is = |text: &str| {
        let found = &sentences("page", 1, text)[0];
        IDIOMS.map(|(_, is_one, _)| is_one(found))
    };
    assert_eq!(is("Who asks first has to wait."), [true, false, false, false]);
    assert_eq!(is("A client who asks has to wait."), [false; 4]);
    assert_eq!(is("This is where nobody waits."), [false, true, false, false]);
    assert_eq!(is("Where a write waits, it waits."), [false, false, true, false]);
    assert_eq!(is("It knows what that is: which, that, and when."), [false, false, false, true]);
}
