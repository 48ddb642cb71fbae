use std::fs;

use super::testing::{context, run};
use super::*;

#[test]
fn extensions_name_formats_and_others_are_refused() {
    for format in TraceFormat::ALL {
        let path = PathBuf::from(format!("a.b/run.{}", format.extension()));
        assert_eq!(TraceFormat::from_path(&path).unwrap(), format);
    }
    for path in ["run", "run.txt", "run.FTRACE", ".json/run", ""] {
        let error = TraceFormat::from_path(Path::new(path)).unwrap_err().to_string();
        assert_eq!(error, format!("{path}: a trace file ends in .ftrace, .blktrace, .perfetto or .json"));
    }
}

#[test]
fn names_are_cut_and_stay_on_their_line() {
    assert_eq!(TaskName::new("a\nb", 1).comm(), "a?b");
    assert_eq!(TaskName::new("0123456789abcdefgh", 1).comm(), "0123456789abcde");
    assert_eq!(TaskName::new("01234567890123é", 1).comm(), "01234567890123");
    assert_eq!(context().task(TaskId::IDLE), ("<idle>", 0));
    assert_eq!(context().task(TaskId(1)), ("highpool[1] a-b", 17));
    assert_eq!(context().task(TaskId(9)), ("<...>", 9));
}

#[test]
fn every_format_makes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    for format in TraceFormat::ALL {
        let path = folder.path().join(format!("run.{}", format.extension()));
        let mut writer = TraceWriter::create(&path, context()).unwrap();
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
    assert_eq!(text::records(&text).count(), run(3, 50, 4).len());
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let error = TraceWriter::create(Path::new("/nonexistent/run.json"), context()).err().unwrap().to_string();
    assert!(error.starts_with("/nonexistent/run.json: "), "{error}");
}
