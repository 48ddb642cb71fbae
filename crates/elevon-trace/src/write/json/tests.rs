use std::collections::BTreeMap;
use std::io::Cursor;

use serde_json::Value;

use super::*;
use crate::run::testing::{converted, run};

#[test]
fn objects_are_as_viewers_want_them() {
    let events = run(8, 300, 5);
    let mut writer =
        JsonWriter::new(Cursor::new(Vec::new()), Some(DeviceNumber::new(259, 3))).unwrap();
    let (made, converter) = converted(&events);
    made.iter().for_each(|event| writer.event(event, converter.names()).unwrap());
    let file = writer.finish().unwrap().into_inner();
    let file: Value = serde_json::from_slice(&file).unwrap();
    let objects = file["traceEvents"].as_array().unwrap();
    let mut slices: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for object in objects.iter().filter(|o| o["ph"] == "X") {
        let track = (object["pid"].as_u64().unwrap(), object["tid"].as_u64().unwrap());
        let start = object["ts"].as_f64().unwrap();
        slices.entry(track).or_default().push((start, start + object["dur"].as_f64().unwrap()));
    }
    for slices in slices.values() {
        assert!(
            slices.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-6),
            "slices of a track overlap"
        );
    }
    let count = |category: &str| objects.iter().filter(|o| o["cat"] == category).count();
    assert_eq!((count("rq"), count("wait")), (300, 300));
    assert!(objects.iter().any(|o| o["ph"] == "M" && o["args"]["name"] == "hctx0"));
    assert!(objects.iter().any(|o| o["args"]["task"] == "highpool[1] a-b"));
    assert!(
        objects
            .iter()
            .any(|o| o["ph"] == "C" && o["name"] == "in flight" && o["args"]["requests"] == 5)
    );
}

/// An output whose content can be read after its writer was dropped.
#[derive(Clone, Default)]
struct Kept(std::rc::Rc<std::cell::RefCell<Cursor<Vec<u8>>>>);
impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
impl Seek for Kept {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.borrow_mut().seek(to)
    }
}
impl Kept {
    fn objects(&self) -> usize {
        let value: Value = serde_json::from_slice(self.0.borrow().get_ref()).expect("valid JSON");
        value["traceEvents"].as_array().unwrap().len()
    }
}

#[test]
fn valid_json_after_every_chunk_and_when_dropped() {
    let kept = Kept::default();
    let mut writer = JsonWriter::new(kept.clone(), Some(DeviceNumber::new(259, 3))).unwrap();
    let mut sizes = vec![kept.objects()];
    let (events, converter) = converted(&run(2, 2000, 4));
    for event in &events {
        writer.event(event, converter.names()).unwrap();
        let size = kept.objects_if_grown(sizes.len());
        sizes.extend(size);
    }
    drop(writer);
    assert!(kept.objects() >= 2 * 2000 + 3 * 2000, "two slices and three counts a request");
}

impl Kept {
    /// Checks the file after each new chunk.
    fn objects_if_grown(&self, chunks: usize) -> Option<usize> {
        (self.0.borrow().get_ref().len() > chunks * CHUNK).then(|| self.objects())
    }
}

/// An output that cannot seek, like a pipe.
struct Pipe(Vec<u8>);
impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
impl Seek for Pipe {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Err(io::ErrorKind::NotSeekable.into())
    }
}

#[test]
fn a_pipe_gets_its_brackets_at_the_end() {
    let mut writer = JsonWriter::new(Pipe(Vec::new()), Some(DeviceNumber::new(259, 3))).unwrap();
    let (events, converter) = converted(&run(2, 500, 4));
    events.iter().for_each(|event| writer.event(event, converter.names()).unwrap());
    let file = writer.finish().unwrap().0;
    let value: Value = serde_json::from_slice(&file).unwrap();
    assert!(value["traceEvents"].as_array().unwrap().len() > 500);
}
