//! The results of a sweep as a table: a row for each job of each run, as CSV, JSON lines and
//! Parquet. All three have the same columns.

use std::io::{self, Write};
use std::sync::Arc;

use elevon_report::figures::is_whole;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde_json::{Map, Value, json};

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

    /// Writes the table as Parquet, compressed with zstd.
    pub(crate) fn parquet<W: Write + Send>(&self, out: W) -> Result<(), ParquetError> {
        let level = ZstdLevel::try_new(3)?;
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        let mut file = SerializedFileWriter::new(out, self.schema()?, Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        // A seed above 2^63 keeps its bits; the schema says that they have no sign.
        let numbers = |of: &dyn Fn(&Row) -> u64| {
            self.rows.iter().map(|row| of(row) as i64).collect::<Vec<i64>>()
        };
        let texts = |of: &dyn Fn(&Row) -> &str| {
            self.rows.iter().map(|row| of(row).into()).collect::<Vec<ByteArray>>()
        };
        let mut next = |write: &mut dyn FnMut(
            &mut SerializedColumnWriter<'_>,
        ) -> Result<usize, ParquetError>| {
            let Some(mut column) = group.next_column()? else { return Ok(()) };
            write(&mut column)?;
            column.close()
        };
        next(&mut |c| {
            c.typed::<Int64Type>().write_batch(&numbers(&|row| row.run as u64), None, None)
        })?;
        for at in 0..self.axes.len() {
            next(&mut |c| match self.whole(at) {
                Some(numbers) => c.typed::<Int64Type>().write_batch(&numbers, None, None),
                None => c.typed::<ByteArrayType>().write_batch(
                    &texts(&|row| &row.point[at]),
                    None,
                    None,
                ),
            })?;
        }
        next(&mut |c| c.typed::<Int64Type>().write_batch(&numbers(&|row| row.seed), None, None))?;
        next(&mut |c| c.typed::<ByteArrayType>().write_batch(&texts(&|row| &row.job), None, None))?;
        next(&mut |c| {
            c.typed::<ByteArrayType>().write_batch(&texts(&|row| &row.error), None, None)
        })?;
        for at in 0..self.figures.len() {
            let values: Vec<f64> = self.rows.iter().filter_map(|row| row.figures[at]).collect();
            let levels: Vec<i16> =
                self.rows.iter().map(|row| i16::from(row.figures[at].is_some())).collect();
            next(&mut |c| match is_whole(&self.figures[at]) {
                true => {
                    let whole: Vec<i64> = values.iter().map(|value| *value as i64).collect();
                    c.typed::<Int64Type>().write_batch(&whole, Some(&levels), None)
                }
                false => c.typed::<DoubleType>().write_batch(&values, Some(&levels), None),
            })?;
        }
        next(&mut |c| {
            c.typed::<ByteArrayType>().write_batch(&texts(&|row| &row.command), None, None)
        })?;
        group.close()?;
        file.close().map(drop)
    }

    fn schema(&self) -> Result<Arc<Type>, ParquetError> {
        let column =
            |name: &str, physical: PhysicalType, logical: Option<LogicalType>, repetition| {
                let builder =
                    Type::primitive_type_builder(name, physical).with_repetition(repetition);
                builder.with_logical_type(logical).build().map(Arc::new)
            };
        let text = |name: &str| {
            column(name, PhysicalType::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED)
        };
        let number = |name: &str| column(name, PhysicalType::INT64, None, Repetition::REQUIRED);
        let mut fields = vec![number("run")?];
        for (at, axis) in self.axes.iter().enumerate() {
            fields.push(if self.whole(at).is_some() { number(axis)? } else { text(axis)? });
        }
        let unsigned = LogicalType::integer(64, false);
        let seed = column("seed", PhysicalType::INT64, Some(unsigned), Repetition::REQUIRED)?;
        fields.extend([seed, text("job")?, text("error")?]);
        for figure in &self.figures {
            let physical =
                if is_whole(figure) { PhysicalType::INT64 } else { PhysicalType::DOUBLE };
            fields.push(column(figure, physical, None, Repetition::OPTIONAL)?);
        }
        fields.push(text("command")?);
        Type::group_type_builder("run").with_fields(fields).build().map(Arc::new)
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
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    fn table() -> Table {
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

    #[test]
    fn parquet_is_read_back() {
        let mut out = Vec::new();
        table().parquet(&mut out).expect("memory");
        let file = SerializedFileReader::new(bytes::Bytes::from(out)).expect("a file");
        let rows: Vec<_> =
            file.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].get_long(0).expect("run"), rows[1].get_string(1).expect("bs").as_str()),
            (0, "8,16k")
        );
        assert_eq!(rows[0].get_ulong(2).expect("a seed"), u64::MAX);
        assert_eq!(rows[0].get_double(5).expect("iops").to_bits(), (1e9f64 / 3.0).to_bits());
        assert!(rows[0].get_long(7).expect("ios") == 2000 && rows[1].get_long(7).is_err());
        assert!(rows[0].get_double(6).is_err() && rows[1].get_double(6).expect("read_iops") == 0.5);
    }
}
