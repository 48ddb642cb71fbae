//! The table of a sweep as Parquet.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type;
use elevon_report::figures::is_whole;

use super::{Row, Table, of_table};

impl Table {
    /// Returns the table as Parquet, compressed with zstd.
    pub(crate) fn to_parquet(&self) -> std::io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write_parquet(&mut out).map_err(of_table)?;
        Ok(out)
    }

    fn write_parquet<W: Write + Send>(&self, out: W) -> Result<(), ParquetError> {
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

#[cfg(test)]
mod tests {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::RowAccessor;

    use crate::table::tests::table;

    #[test]
    fn parquet_is_read_back() {
        let out = table().to_parquet().expect("memory");
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
