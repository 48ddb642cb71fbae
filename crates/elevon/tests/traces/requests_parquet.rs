//! The rows of `elevon inspect --requests FILE.parquet`, read back by Parquet's own reader, are
//! those of `--requests FILE.csv`.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use crate::common::{Bench, kernel_truth};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

/// A row by title of column; values that the trace lacks are not there.
type Row = BTreeMap<String, String>;

/// Reads CSV in which no field is quoted.
fn csv(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).expect("CSV");
    assert!(!text.contains('"'), "no name in these traces needs quotes");
    let mut lines = text.lines();
    let titles: Vec<&str> = lines.next().expect("titles").split(',').collect();
    let row = |line: &str| {
        let cells = titles.iter().zip(line.split(',')).filter(|(_, cell)| !cell.is_empty());
        cells.map(|(&title, cell)| (title.to_owned(), cell.to_owned())).collect()
    };
    lines.map(row).collect()
}

fn parquet(path: &Path) -> Vec<Row> {
    let file = SerializedFileReader::new(File::open(path).expect("a file")).expect("Parquet");
    let cell = |field: &Field| match field {
        Field::Null => None,
        Field::Long(number) => Some(number.to_string()),
        Field::Str(text) => Some(text.clone()),
        other => panic!("{other:?}"),
    };
    let row = |row: Result<parquet::record::Row, _>| {
        let row = row.expect("a row");
        row.get_column_iter()
            .filter_map(|(title, field)| Some((title.clone(), cell(field)?)))
            .collect()
    };
    file.get_row_iter(None).expect("rows").map(row).collect()
}

#[test]
fn parquet_has_the_rows_of_the_csv() {
    let bench = Bench::new();
    for (trace, least) in [
        ("traces/dd-64m-direct-ext4-none-512.ftrace", 100),
        ("traces/pgbench-ext4-mq-deadline-excerpt.ftrace", 100),
        ("traces/mixed-mq-deadline-excerpt.perfetto-trace", 100),
        ("blktrace-6.1/dd-mq-deadline", 100),
    ] {
        let path = kernel_truth(trace);
        let path = path.to_str().expect("a path in UTF-8");
        let devices = bench.elevon(&["inspect", path]).output().expect("the command ran");
        // Of a trace of several devices the first that is listed has most events.
        let said = String::from_utf8_lossy(&devices.stderr).into_owned();
        let dev = said.split("--dev: ").nth(1).and_then(|list| list.split(' ').next());
        let dev: Vec<&str> = dev.map_or(vec![], |dev| vec!["--dev", dev]);
        for file in ["r.csv", "r.parquet"] {
            bench.stdout(&[&["inspect", path, "--requests", file][..], &dev].concat());
        }
        let (rows, read_back) = (csv(&bench.path("r.csv")), parquet(&bench.path("r.parquet")));
        assert!(rows.len() >= least, "{trace}: {} rows", rows.len());
        assert_eq!(read_back, rows, "{trace}");
    }
}
