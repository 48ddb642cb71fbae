//! Warnings of many runs, each told once.

use std::collections::BTreeMap;

/// Warnings that are told; of more, only how many there are.
const MAX_WARNINGS_SHOWN: usize = 10;

/// The different warnings of runs, with the number of runs that have each.
#[derive(Clone, Debug)]
pub struct Said {
    /// What a run is called: `runs`, or `points` where each stands for its runs with all seeds.
    noun: &'static str,
    runs: usize,
    /// In the order in which they first came.
    all: Vec<Warning>,
    places: BTreeMap<String, usize>,
}

#[derive(Clone, Debug)]
struct Warning {
    text: String,
    /// Runs that have it, and the number of the last of them.
    runs: usize,
    last: usize,
}

impl Default for Said {
    fn default() -> Self {
        Self::from_noun("runs")
    }
}

impl Said {
    /// Returns no warnings yet of what is called `noun`.
    pub(crate) const fn from_noun(noun: &'static str) -> Self {
        Self { noun, runs: 0, all: Vec::new(), places: BTreeMap::new() }
    }

    /// Adds the warnings of one more run.
    pub fn add<'w>(&mut self, warnings: impl IntoIterator<Item = &'w String>) {
        self.runs += 1;
        for text in warnings {
            let next = self.all.len();
            let at = *self.places.entry(text.clone()).or_insert(next);
            if at == next {
                self.all.push(Warning { text: text.clone(), runs: 0, last: 0 });
            }
            let warning = &mut self.all[at];
            if warning.last != self.runs {
                warning.runs += 1;
                warning.last = self.runs;
            }
        }
    }

    /// Returns the warnings that `before` does not have, with the share of the runs where it is not
    /// all of them.
    pub fn lines(&self, before: &Self) -> Vec<String> {
        let new: Vec<&Warning> =
            self.all.iter().filter(|one| !before.places.contains_key(&one.text)).collect();
        let line = |one: &&Warning| match one.runs == self.runs {
            true => one.text.clone(),
            false => format!("{} (in {} of {} {})", one.text, one.runs, self.runs, self.noun),
        };
        let mut lines: Vec<String> = new.iter().take(MAX_WARNINGS_SHOWN).map(line).collect();
        if new.len() > MAX_WARNINGS_SHOWN {
            lines.push(format!("and {} more warnings like these", new.len() - MAX_WARNINGS_SHOWN));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_told_once_with_its_runs() {
        let [a, b] = ["a", "b"].map(str::to_owned);
        let mut said = Said::default();
        said.add([&a, &a]);
        said.add([&b, &a]);
        assert_eq!(said.lines(&Said::default()), ["a", "b (in 1 of 2 runs)"]);
        let mut before = Said::default();
        before.add([&a]);
        assert_eq!(said.lines(&before), ["b (in 1 of 2 runs)"]);
        said.add(&(0..20).map(|at| at.to_string()).collect::<Vec<_>>());
        let lines = said.lines(&Said::default());
        assert_eq!(
            (lines.len(), lines[MAX_WARNINGS_SHOWN].as_str()),
            (MAX_WARNINGS_SHOWN + 1, "and 12 more warnings like these")
        );
    }
}
