use std::fs;

use super::testing::{context, event, run};
use super::*;

#[test]
fn names_are_cut_and_stay_on_their_line() {
    assert_eq!(TaskName::new("a\nb", 1).comm(), "a?b");
    assert_eq!(TaskName::new("0123456789abcdefgh", 1).comm(), "0123456789abcde");
    assert_eq!(TaskName::new("01234567890123é", 1).comm(), "01234567890123");
    let converter = Converter::new(&context());
    let of = |task| {
        let event = converter.event(&Event { task, ..event(1, EventKind::Plug, 0, 0) });
        (event.comm.map(|id| converter.names().name(id).to_owned()), event.tid)
    };
    assert_eq!(of(TaskId::IDLE), (None, Some(0)));
    assert_eq!(of(TaskId(1)), (Some("highpool[1] a-b".to_owned()), Some(17)));
    assert_eq!(of(TaskId(9)), (None, Some(9)));
}

#[test]
fn every_format_makes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    for format in WriteFormat::ALL {
        let path = folder.path().join(format!("run.{}", format.extension()));
        let mut writer = RunTraceWriter::create(&path, &context()).unwrap();
        for events in run(3, 50, 4).chunks(7) {
            writer.write(events).unwrap();
        }
        writer.finish().unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let cpus = (0..3).map(|cpu| format!("run.blktrace.{cpu}"));
    let others = ["csv", "ftrace", "iolog", "json", "parquet", "perfetto", "perfetto-trace"];
    let expected: Vec<String> =
        cpus.chain(others.map(|extension| format!("run.{extension}"))).collect();
    assert_eq!(names, expected);
    let text = fs::read_to_string(folder.path().join("run.ftrace")).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(": block_")).count(), run(3, 50, 4).len());
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let error = RunTraceWriter::create(Path::new("/nonexistent/run.json"), &context())
        .err()
        .unwrap()
        .to_string();
    assert!(error.starts_with("/nonexistent/run.json: "), "{error}");
}
