use std::fs;

use super::testing::{context, event, run};
use super::*;

#[test]
fn extensions_name_formats_and_others_are_refused() {
    for format in RUN_FORMATS {
        let path = PathBuf::from(format!("a.b/run.{}", format.extension()));
        assert_eq!(format_of(&path).unwrap(), format);
    }
    for path in ["run", "run.txt", "run.FTRACE", ".json/run", ""] {
        let error = format_of(Path::new(path)).unwrap_err().to_string();
        assert_eq!(error, format!("{path}: a trace file ends in .ftrace, .blktrace, .perfetto or .json"));
    }
}

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
    for format in RUN_FORMATS {
        let path = folder.path().join(format!("run.{}", format.extension()));
        let mut writer = RunTraceWriter::create(&path, &context()).unwrap();
        for events in run(3, 50, 4).chunks(7) {
            writer.write(events).unwrap();
        }
        writer.finish().unwrap();
    }
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["run.blktrace.0", "run.blktrace.1", "run.blktrace.2", "run.ftrace", "run.json", "run.perfetto"]);
    let text = fs::read_to_string(folder.path().join("run.ftrace")).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(": block_")).count(), run(3, 50, 4).len());
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let error = RunTraceWriter::create(Path::new("/nonexistent/run.json"), &context()).err().unwrap().to_string();
    assert!(error.starts_with("/nonexistent/run.json: "), "{error}");
}
