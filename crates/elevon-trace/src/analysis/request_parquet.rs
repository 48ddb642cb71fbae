//! Every request of a trace as a row of Parquet, with the columns of the CSV.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use elevon_core::ioprio::PrioClass;
use parquet::basic::{Compression, ConvertedType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type as SchemaType;

use super::{ProcessStats, RequestRecord, RequestSink};
use crate::op::TraceRwbs;

/// Rows of a row group.
const GROUP: usize = 1 << 16;

/// Version of what the columns mean, in the file's metadata as `elevon.requests`.
const SCHEMA: &str = "1";

/// Columns of numbers, then of texts. Times are nanoseconds of the trace's clock; what the trace
/// does not have is null.
const NUMBERS: [&str; 11] = [
    "queued_ns",
    "allocated_ns",
    "inserted_ns",
    "issued_ns",
    "completed_ns",
    "sector",
    "bytes",
    "bios",
    "process_id",
    "level",
    "error",
];
const TEXTS: [&str; 4] = ["operation", "rwbs", "process", "class"];

/// The values of a column of the row group in the making, and for each row whether it has one.
struct Column<T> {
    present: Vec<i16>,
    values: Vec<T>,
}

impl<T> Column<T> {
    const fn new() -> Self {
        Self { present: Vec::new(), values: Vec::new() }
    }

    fn push(&mut self, value: Option<T>) {
        self.present.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.present.clear();
        self.values.clear();
    }
}

/// Writes requests in order of completion. Memory: a row group.
pub struct ParquetRequests<W: Write + Send> {
    out: Option<SerializedFileWriter<W>>,
    numbers: [Column<i64>; NUMBERS.len()],
    texts: [Column<ByteArray>; TEXTS.len()],
    rows: usize,
    error: Option<io::Error>,
    text: String,
}

fn other(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

fn start<W: Write + Send>(out: W) -> Result<SerializedFileWriter<W>, ParquetError> {
    let numbers = NUMBERS.iter().map(|name| (name, PhysicalType::INT64, ConvertedType::NONE));
    let texts = TEXTS.iter().map(|name| (name, PhysicalType::BYTE_ARRAY, ConvertedType::UTF8));
    let fields = numbers.chain(texts).map(|(name, physical, converted)| {
        let field = SchemaType::primitive_type_builder(name, physical);
        field.with_repetition(Repetition::OPTIONAL).with_converted_type(converted).build().map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = SchemaType::group_type_builder("request").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by("elevon".to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new("elevon.requests".to_owned(), SCHEMA.to_owned())]))
        .build();
    SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
}

impl<W: Write + Send> ParquetRequests<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// Of the output.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(Self {
            out: Some(start(out).map_err(other)?),
            numbers: [const { Column::new() }; NUMBERS.len()],
            texts: [const { Column::new() }; TEXTS.len()],
            rows: 0,
            error: None,
            text: String::new(),
        })
    }

    fn row(&mut self, request: &RequestRecord, process: &ProcessStats) {
        let signed = |value: u64| value as i64;
        let numbers = [
            request.queued.map(signed),
            request.allocated.map(signed),
            request.inserted.map(signed),
            request.issued.map(signed),
            request.completed.map(signed),
            Some(signed(request.sector)),
            Some(signed(request.bytes)),
            (request.bios > 0).then_some(i64::from(request.bios)),
            process.id.map(i64::from),
            request.prio.map(|prio| i64::from(prio.level())),
            request.error.map(i64::from),
        ];
        self.text.clear();
        // Writing to a string does not fail.
        let _ = write!(self.text, "{}", TraceRwbs(request.op, Some(request.flags)));
        let class = request.prio.map(|prio| match prio.class() {
            PrioClass::None => "none",
            PrioClass::Rt => "rt",
            PrioClass::Be => "be",
            PrioClass::Idle => "idle",
        });
        let texts =
            [request.op.map(|op| op.name()), request.op.map(|_| self.text.as_str()), process.name.as_deref(), class];
        for (column, value) in self.numbers.iter_mut().zip(numbers) {
            column.push(value);
        }
        for (column, value) in self.texts.iter_mut().zip(texts) {
            column.push(value.map(ByteArray::from));
        }
        self.rows += 1;
    }

    /// Writes the row group.
    fn end_group(&mut self) -> Result<(), ParquetError> {
        let (true, Some(out)) = (self.rows > 0, &mut self.out) else { return Ok(()) };
        self.rows = 0;
        let mut group = out.next_row_group()?;
        for column in &mut self.numbers {
            let Some(mut writer) = group.next_column()? else { break };
            writer.typed::<Int64Type>().write_batch(&column.values, Some(&column.present), None)?;
            writer.close()?;
            column.clear();
        }
        for column in &mut self.texts {
            let Some(mut writer) = group.next_column()? else { break };
            writer.typed::<ByteArrayType>().write_batch(&column.values, Some(&column.present), None)?;
            writer.close()?;
            column.clear();
        }
        group.close().map(drop)
    }

    /// Writes the last row group and the foot, and hands the output back.
    ///
    /// # Errors
    /// The first one of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_group().map_err(other)?;
        match (self.error, self.out) {
            (None, Some(out)) => out.into_inner().map_err(other),
            (error, _) => Err(error.unwrap_or_else(|| io::Error::other("the output has ended"))),
        }
    }
}

impl<W: Write + Send> RequestSink for ParquetRequests<W> {
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]) {
        for request in requests {
            if self.error.is_some() {
                return;
            }
            self.row(request, &processes[request.process as usize]);
            if self.rows == GROUP {
                self.error = self.end_group().map_err(other).err();
            }
        }
    }

    /// The output cannot be taken back: what was written is of another device.
    fn restart(&mut self) {
        self.error = Some(io::Error::other("the rows of another device were written already; choose one with --dev"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::inspect;
    use crate::testing::data;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    /// What was written, read back: a row for each request, and nulls for what the trace does not
    /// have.
    #[test]
    fn rows_are_read_back() {
        let path = data("kernel-truth/traces/dd-1028k-direct.ftrace");
        let mut out = ParquetRequests::new(Vec::new()).expect("a head");
        let found = inspect(&mut || crate::open(&path), None, Some(&mut out), &mut |_| {}).expect("a trace");
        let bytes = out.finish().expect("a foot");
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
        let rows: Vec<_> = file.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        assert_eq!(rows.len() as u64, found.counts.completed[0]);
        let sum: i64 = rows.iter().map(|row| row.get_long(6).expect("bytes")).sum();
        assert_eq!(sum as u64, found.counts.completed_bytes[0]);
        let texts: Vec<&str> = (11..15).map(|at| rows[0].get_string(at).expect("a text").as_str()).collect();
        assert_eq!(texts, ["read", "R", "dd", "be"]);
        let device: i64 =
            rows.iter().map(|row| row.get_long(4).expect("an end") - row.get_long(3).expect("an issue")).sum();
        assert_eq!(u128::from(device as u64), found.stages[0].issued_to_completed.sum);
    }
}
