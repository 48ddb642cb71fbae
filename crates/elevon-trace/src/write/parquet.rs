//! Every field of every event in Parquet's columns, a row an event.
//!
//! Numbers are INT64, of which `sector` and the like may use all 64 bits; texts (kind, operation,
//! names) come from dictionaries; an absent field is null. Columns are packed by zstd, and times
//! are stored as differences. The file's metadata holds `elevon.schema`, the version of the
//! columns' meaning. Cost: one value a column and event; memory for a row group.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Encoding, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as SchemaType};

use super::EventWriter;
use crate::columns::{self, COLUMNS, Cell, SCHEMA, Type};
use crate::event::TraceEvent;
use crate::names::Names;

/// Rows of a row group.
const GROUP: usize = 1 << 16;

/// The values of a column of the row group in the making: for each row whether it has one, and
/// those there are.
enum Column {
    Numbers(Vec<i16>, Vec<i64>),
    Texts(Vec<i16>, Vec<ByteArray>),
}

/// Writes the row groups.
pub struct Writer<W: Write + Send> {
    out: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
}

fn other(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

impl<W: Write + Send> Writer<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// Of the output.
    pub fn new(out: W) -> io::Result<Self> {
        let fields = COLUMNS.iter().map(|&(name, column)| {
            let (physical, converted) = match column {
                Type::Number => (PhysicalType::INT64, ConvertedType::NONE),
                Type::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
            };
            let field = SchemaType::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_converted_type(converted);
            field.build().map(Arc::new)
        });
        let fields = fields.collect::<Result<Vec<_>, _>>().map_err(other)?;
        let schema = SchemaType::group_type_builder("event").with_fields(fields).build().map_err(other)?;
        let time = ColumnPath::from("time_ns");
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).map_err(other)?))
            .set_column_dictionary_enabled(time.clone(), false)
            .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED)
            .set_created_by("elevon".to_owned())
            .set_key_value_metadata(Some(vec![KeyValue::new("elevon.schema".to_owned(), SCHEMA.to_string())]))
            .build();
        let out = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(other)?;
        let columns = COLUMNS.iter().map(|(_, column)| match column {
            Type::Number => Column::Numbers(Vec::new(), Vec::new()),
            Type::Text => Column::Texts(Vec::new(), Vec::new()),
        });
        Ok(Self { out, columns: columns.collect(), rows: 0 })
    }

    /// Appends one event.
    ///
    /// # Errors
    /// Of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        let comm = event.comm.map(|id| names.name(id));
        let row = columns::row(event, comm, event.device.and_then(|device| names.device(device)));
        for (column, cell) in self.columns.iter_mut().zip(row) {
            match (column, cell) {
                (Column::Numbers(present, numbers), Some(Cell::Number(number))) => {
                    present.push(1);
                    numbers.push(number);
                }
                (Column::Texts(present, texts), Some(Cell::Text(text))) => {
                    present.push(1);
                    texts.push(ByteArray::from(text.into_bytes()));
                }
                (Column::Numbers(present, _) | Column::Texts(present, _), _) => present.push(0),
            }
        }
        self.rows += 1;
        if self.rows == GROUP { self.end_group() } else { Ok(()) }
    }

    /// Writes the row group.
    fn end_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.out.next_row_group().map_err(other)?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column().map_err(other)? else { break };
            match column {
                Column::Numbers(present, numbers) => {
                    writer.typed::<Int64Type>().write_batch(numbers, Some(present), None).map_err(other)?;
                    present.clear();
                    numbers.clear();
                }
                Column::Texts(present, texts) => {
                    writer.typed::<ByteArrayType>().write_batch(texts, Some(present), None).map_err(other)?;
                    present.clear();
                    texts.clear();
                }
            }
            writer.close().map_err(other)?;
        }
        group.close().map(drop).map_err(other)
    }

    /// Writes the last row group and the foot, and hands the output back.
    ///
    /// # Errors
    /// Of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_group()?;
        self.out.into_inner().map_err(other)
    }
}

impl<W: Write + Send> EventWriter for Writer<W> {
    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        Self::event(self, event, names)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        self.finish().map(drop)
    }
}
