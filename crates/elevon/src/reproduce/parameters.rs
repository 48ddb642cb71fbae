//! Parameters of an experiment: TOML tables with numbers, strings and lists of whole numbers.

use toml::{Table, Value};

/// The parameters of one file, which is part of the binary. An error in it is a bug and panics.
#[derive(Clone, Debug)]
pub(super) struct Parameters(Table);

impl Parameters {
    pub(super) fn parse(text: &str) -> Self {
        Self(text.parse().unwrap_or_else(|error| panic!("{error}")))
    }

    /// Returns the value of `table.key`.
    fn value(&self, key: &str) -> &Value {
        let found = key.split_once('.').and_then(|(table, key)| self.0.get(table)?.get(key));
        found.unwrap_or_else(|| panic!("no parameter {key}"))
    }

    pub(super) fn number(&self, key: &str) -> f64 {
        let value = self.value(key);
        let whole = value.as_integer().map(|number| number as f64);
        value.as_float().or(whole).unwrap_or_else(|| panic!("{key} is no number"))
    }

    pub(super) fn numbers(&self, key: &str) -> Vec<u64> {
        let number = |value: &Value| u64::try_from(value.as_integer()?).ok();
        let numbers = self.value(key).as_array().and_then(|values| values.iter().map(number).collect());
        numbers.unwrap_or_else(|| panic!("{key} is no list of numbers"))
    }

    pub(super) fn text(&self, key: &str) -> &str {
        self.value(key).as_str().unwrap_or_else(|| panic!("{key} is no string"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_numbers_and_strings() {
        let all = Parameters::parse("# c\n[a]\nx = 1.5\ny = \"--set k=v\"\n\n[b]\nx = -2\nl = [1, 20]\n");
        assert_eq!(all.numbers("b.l"), [1, 20]);
        assert_eq!((all.number("a.x"), all.number("b.x"), all.text("a.y")), (1.5, -2.0, "--set k=v"));
    }
}
