//! The results of a sweep as a table: a row for each job of each run, as CSV, JSON lines and
//! Parquet. All three have the same columns.

use std::io;

use elevon_report::figures::is_whole;
use serde_json::{Map, Value, json};

#[cfg(feature = "parquet")]
mod parquet;

/// A row: what was run, and the figures of one job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) run: usize,
    /// The value of each axis.
    pub(crate) point: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) job: String,
    /// Why the run failed; empty if it did not.
    pub(crate) error: String,
    /// In the order of [`Table::figures`]; `None` if the job does not have the figure.
    pub(crate) figures: Vec<Option<f64>>,
    /// A command line that repeats the run.
    pub(crate) command: String,
}

/// A table in order of the runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// Keys of the axes.
    pub(crate) axes: Vec<String>,
    /// Names of the figures, which end in their units.
    pub(crate) figures: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// Returns the names of the columns.
    fn columns(&self) -> Vec<&str> {
        let point = self.axes.iter().map(String::as_str);
        let figures = self.figures.iter().map(String::as_str);
        ["run"]
            .into_iter()
            .chain(point)
            .chain(["seed", "job", "error"])
            .chain(figures)
            .chain(["command"])
            .collect()
    }

    /// Returns an axis as whole numbers, if all its values are such, as readers of CSV take them.
    fn whole(&self, axis: usize) -> Option<Vec<i64>> {
        let number =
            |text: &String| text.parse().ok().filter(|number: &i64| number.to_string() == *text);
        self.rows.iter().map(|row| number(&row.point[axis])).collect()
    }

    /// Returns the table as CSV (RFC 4180), with the names of the columns in the first line. A
    /// figure that a job does not have is empty.
    pub(crate) fn csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut out = csv::Writer::from_writer(Vec::new());
        out.write_record(self.columns())?;
        for row in &self.rows {
            let mut cells = vec![row.run.to_string()];
            cells.extend(row.point.iter().cloned());
            cells.extend([row.seed.to_string(), row.job.clone(), row.error.clone()]);
            cells.extend(
                row.figures
                    .iter()
                    .map(|figure| figure.map_or_else(String::new, |value| value.to_string())),
            );
            cells.push(row.command.clone());
            out.write_record(cells)?;
        }
        out.into_inner().map_err(|error| error.into_error().into())
    }

    /// Returns the table as JSON, an object in each line. A figure that a job does not have is
    /// null.
    pub(crate) fn json_lines(&self) -> String {
        let mut out = String::new();
        let whole: Vec<_> = (0..self.axes.len()).map(|axis| self.whole(axis)).collect();
        for (at, row) in self.rows.iter().enumerate() {
            let value = |axis: usize| {
                whole[axis].as_ref().map_or_else(|| json!(row.point[axis]), |all| json!(all[at]))
            };
            let point: Map<String, Value> =
                (0..).zip(&self.axes).map(|(axis, key)| (key.clone(), value(axis))).collect();
            let figures: Map<String, Value> = self
                .figures
                .iter()
                .zip(&row.figures)
                .map(|(name, value)| (name.clone(), number(name, *value)))
                .collect();
            let object = json!({
                "run": row.run, "point": point, "seed": row.seed, "job": row.job, "error": row.error,
                "figures": figures, "command": row.command,
            });
            out += &format!("{object}\n");
        }
        out
    }
}

/// Returns a figure as a number of JSON: a whole one without a fraction.
fn number(figure: &str, value: Option<f64>) -> Value {
    match value {
        Some(value) if is_whole(figure) => json!(value as u64),
        value => json!(value),
    }
}

/// Converts an error of a writer in memory.
pub(crate) fn of_table(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn table() -> Table {
        let row = |run, bs: &str, figures| Row {
            run,
            point: vec![bs.to_owned()],
            seed: u64::MAX,
            job: "a".to_owned(),
            error: String::new(),
            figures,
            command: "elevon run 'a b.fio' --seed 1".to_owned(),
        };
        Table {
            axes: vec!["bs".to_owned()],
            figures: ["iops", "read_iops", "ios"].map(str::to_owned).to_vec(),
            rows: vec![
                row(0, "4k", vec![Some(1e9 / 3.0), None, Some(2000.0)]),
                row(1, "8,16k", vec![Some(2.0), Some(0.5), None]),
            ],
        }
    }

    #[test]
    fn csv_and_json_have_the_same_columns() {
        let csv = String::from_utf8(table().csv().expect("memory")).expect("text");
        assert_eq!(
            csv,
            "run,bs,seed,job,error,iops,read_iops,ios,command\n\
             0,4k,18446744073709551615,a,,333333333.3333333,,2000,elevon run 'a b.fio' --seed 1\n\
             1,\"8,16k\",18446744073709551615,a,,2,0.5,,elevon run 'a b.fio' --seed 1\n"
        );
        let json = table().json_lines();
        let first: Value =
            serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
        assert_eq!(first["figures"]["iops"], json!(1e9 / 3.0));
        assert_eq!(first["figures"]["ios"], json!(2000), "a count is a whole number");
        assert_eq!(
            (&first["figures"]["read_iops"], &first["point"]["bs"]),
            (&Value::Null, &json!("4k"))
        );
    }
}
