//! Parameters of an experiment: the tables, numbers and strings of TOML, no more of it than that.

/// The parameters of one file, which is part of the binary; so what is wrong with it is a bug, and panics.
#[derive(Clone, Debug)]
pub(super) struct Parameters(Vec<(String, &'static str)>);

impl Parameters {
    pub(super) fn parse(text: &'static str) -> Self {
        let (mut table, mut all) = ("", Vec::new());
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[') {
                table = name.strip_suffix(']').expect("a table's name ends with ]");
                continue;
            }
            let (key, value) = line.split_once('=').expect("key = value");
            all.push((format!("{table}.{}", key.trim()), value.trim()));
        }
        Self(all)
    }

    fn value(&self, key: &str) -> &'static str {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| *value).unwrap_or_else(|| panic!("no parameter {key}"))
    }

    pub(super) fn number(&self, key: &str) -> f64 {
        self.value(key).parse().unwrap_or_else(|_| panic!("{key} is no number"))
    }

    /// Numbers in a string, with commas between them.
    pub(super) fn numbers(&self, key: &str) -> Vec<u64> {
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{key}: {text} is no number"));
        self.text(key).split(',').map(number).collect()
    }

    pub(super) fn text(&self, key: &str) -> &'static str {
        let value = self.value(key);
        value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or_else(|| panic!("{key} is no string"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_numbers_and_strings() {
        let all = Parameters::parse("# c\n[a]\nx = 1.5\ny = \"--set k=v\"\n\n[b]\nx = -2\nl = \"1,20\"\n");
        assert_eq!(all.numbers("b.l"), [1, 20]);
        assert_eq!((all.number("a.x"), all.number("b.x"), all.text("a.y")), (1.5, -2.0, "--set k=v"));
    }
}
