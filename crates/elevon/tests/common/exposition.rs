//! A strict reader of the text formats of metrics: Prometheus's, 0.0.4, and OpenMetrics, 1.0. It
//! panics if a text has not the form that the formats demand.

use std::collections::{BTreeMap, BTreeSet};

/// The labels of a sample.
pub(crate) type Labels = BTreeMap<String, String>;

/// Metrics, by the name of the sample and its labels.
#[derive(Debug)]
pub(crate) struct Exposition {
    samples: BTreeMap<(String, Labels), f64>,
    /// The types of the families.
    pub(crate) types: BTreeMap<String, String>,
}

impl Exposition {
    /// Returns the value of a sample, which must be there.
    #[track_caller]
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: Labels =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let found = self.samples.get(&(name.to_owned(), wanted));
        *found.unwrap_or_else(|| panic!("no {name} {labels:?} in {:#?}", self.samples.keys()))
    }

    /// Returns the sum of all samples of a name.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.samples.iter().filter(|((of, _), _)| of == name).map(|(_, value)| value).sum()
    }

    /// Reads a text. `open` says that it is OpenMetrics.
    pub(crate) fn read(text: &str, open: bool) -> Self {
        let mut all = Self { samples: BTreeMap::new(), types: BTreeMap::new() };
        let (mut helped, mut family) = (String::new(), None::<(String, String)>);
        let text =
            if open { text.strip_suffix("# EOF\n").expect("the end is marked") } else { text };
        assert!(text.ends_with('\n'), "the last line ends");
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "HELP", name, help] => {
                    assert!(
                        is_name(name, true) && help.ends_with('.') && !help.contains('\\'),
                        "{line}"
                    );
                    helped = name.to_owned();
                }
                ["#", "TYPE", name, kind] => {
                    assert_eq!(helped, name, "HELP comes before TYPE");
                    assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                    assert_eq!(kind == "counter" && !open, name.ends_with("_total"), "{line}");
                    assert!(
                        all.types.insert(name.to_owned(), kind.to_owned()).is_none(),
                        "a family occurs once: {line}"
                    );
                    family = Some((name.to_owned(), kind.to_owned()));
                }
                ["#", "UNIT", name, unit] => {
                    assert!(
                        open && helped == name && name.ends_with(&format!("_{unit}")),
                        "{line}"
                    );
                }
                _ => {
                    let (family, kind) = family.as_ref().expect("a sample has a type");
                    let (name, labels, value) = sample(line);
                    let suffix = name
                        .strip_prefix(family.as_str())
                        .unwrap_or_else(|| panic!("{line} in {family}"));
                    let suffixes = match kind.as_str() {
                        "counter" if open => &["_total"][..],
                        "histogram" => &["_bucket", "_sum", "_count"],
                        _ => &[""],
                    };
                    assert!(suffixes.contains(&suffix), "{line}");
                    assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{line}");
                    assert!(kind == "gauge" || value >= 0.0, "{line}");
                    assert!(
                        all.samples.insert((name, labels), value).is_none(),
                        "a sample occurs once: {line}"
                    );
                }
            }
        }
        all.check_histograms();
        all
    }

    /// Buckets of a histogram are cumulative, in order, and the last has everything.
    fn check_histograms(&self) {
        for family in
            self.types.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name)
        {
            let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
            for ((name, labels), &value) in &self.samples {
                if *name == format!("{family}_bucket") {
                    let mut rest = labels.clone();
                    let le = rest.remove("le").expect("looked at above");
                    let le =
                        if le == "+Inf" { f64::INFINITY } else { le.parse().expect("a number") };
                    buckets.entry(rest).or_default().push((le, value));
                }
            }
            let counts: BTreeSet<&Labels> = self
                .samples
                .keys()
                .filter(|(name, _)| *name == format!("{family}_count"))
                .map(|(_, labels)| labels)
                .collect();
            assert_eq!(counts, buckets.keys().collect(), "{family}");
            for (labels, mut of) in buckets {
                of.sort_by(|a, b| a.0.total_cmp(&b.0));
                assert!(
                    of.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1),
                    "{family} {labels:?}: {of:?}"
                );
                let count = self.samples[&(format!("{family}_count"), labels.clone())];
                assert_eq!(of.last(), Some(&(f64::INFINITY, count)), "{family} {labels:?}");
                assert!(self.samples.contains_key(&(format!("{family}_sum"), labels)));
            }
        }
    }
}

fn is_name(text: &str, may_have_colon: bool) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || (may_have_colon && c == ':');
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// Reads a line: name, labels in braces, value.
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect("a value");
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name, true), "{line}");
    let mut labels = Labels::new();
    if let Some(mut inner) = rest.strip_prefix('{') {
        while !inner.starts_with('}') {
            let (key, after) = inner.split_once("=\"").expect("a label");
            assert!(is_name(key, false), "{line}");
            let (value, after) = quoted(after);
            assert!(labels.insert(key.to_owned(), value).is_none(), "a label occurs once: {line}");
            inner = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &inner[1..];
    }
    let value = rest.strip_prefix(' ').expect("a space before the value");
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
}

/// Reads a text up to its closing quote.
fn quoted(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next().expect("a character behind a backslash").1 {
                'n' => value.push('\n'),
                c @ ('\\' | '"') => value.push(c),
                c => panic!("\\{c} in {text}"),
            },
            c => value.push(c),
        }
    }
    panic!("no closing quote: {text}")
}
