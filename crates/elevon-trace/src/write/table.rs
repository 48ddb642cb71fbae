//! Tables of events and requests in Parquet's columns.
//!
//! Numbers are INT64, texts are UTF-8 in dictionaries, every column may be null, and all are
//! compressed by zstd. Cost: one value per column and row. Memory: one row group.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, Encoding, Repetition, Type as PhysicalType, ZstdLevel,
};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as SchemaType};

use crate::columns::{Cell, Type};

/// Rows of a row group.
const GROUP: usize = 1 << 16;

/// Names, version and columns of a table.
pub(crate) struct Table<'a> {
    /// The name of a row in Parquet's schema.
    pub(crate) row_name: &'a str,
    /// The key in the file's metadata that holds `version`.
    pub(crate) version_key: &'a str,
    /// Version of the meaning of the columns.
    pub(crate) version: String,
    /// Names and types of the columns, in order.
    pub(crate) columns: &'a [(&'static str, Type)],
    /// The column of mostly ascending numbers, if there is one; it is stored as differences.
    pub(crate) ascending: Option<&'a str>,
}

/// The values of one column in the current row group: for each row whether it has a value, and the
/// values.
enum Column {
    Numbers(Vec<i16>, Vec<i64>),
    Texts(Vec<i16>, Vec<ByteArray>),
}

/// Writes a table row by row.
pub(crate) struct TableWriter<W: Write + Send> {
    out: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
}

fn other(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

fn start<W: Write + Send>(
    out: W,
    table: &Table<'_>,
) -> Result<SerializedFileWriter<W>, ParquetError> {
    let fields = table.columns.iter().map(|&(name, column)| {
        let (physical, converted) = match column {
            Type::Number => (PhysicalType::INT64, ConvertedType::NONE),
            Type::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
        };
        let field = SchemaType::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_converted_type(converted);
        field.build().map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = SchemaType::group_type_builder(table.row_name).with_fields(fields).build()?;
    let version = KeyValue::new(table.version_key.to_owned(), table.version.clone());
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by("elevon".to_owned())
        .set_key_value_metadata(Some(vec![version]));
    if let Some(column) = table.ascending.map(ColumnPath::from) {
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))
}

impl<W: Write + Send> TableWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub(crate) fn new(out: W, table: &Table<'_>) -> io::Result<Self> {
        let columns = table.columns.iter().map(|(_, column)| match column {
            Type::Number => Column::Numbers(Vec::new(), Vec::new()),
            Type::Text => Column::Texts(Vec::new(), Vec::new()),
        });
        Ok(Self { out: start(out, table).map_err(other)?, columns: columns.collect(), rows: 0 })
    }

    /// Appends one row, which has a cell for each column, in order. A cell of the wrong type
    /// becomes null.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub(crate) fn row<const COLUMNS: usize>(
        &mut self,
        row: [Option<Cell>; COLUMNS],
    ) -> io::Result<()> {
        debug_assert_eq!(self.columns.len(), COLUMNS, "a cell for each column");
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
        if self.rows == GROUP { self.end_group().map_err(other) } else { Ok(()) }
    }

    /// Writes the row group.
    fn end_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.out.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            match column {
                Column::Numbers(present, numbers) => {
                    writer.typed::<Int64Type>().write_batch(numbers, Some(present), None)?;
                    present.clear();
                    numbers.clear();
                }
                Column::Texts(present, texts) => {
                    writer.typed::<ByteArrayType>().write_batch(texts, Some(present), None)?;
                    present.clear();
                    texts.clear();
                }
            }
            writer.close()?;
        }
        group.close().map(drop)
    }

    /// Writes the last row group and the footer, and returns the output.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.end_group().map_err(other)?;
        self.out.into_inner().map_err(other)
    }
}
