use std::io::Write as _;

use super::*;

/// Text of some hundred kilobytes that does not repeat.
fn text() -> String {
    let line = |n: u64| {
        let sector = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        format!(
            "a-1 [000] ..... {}.{:06}: block_bio_queue: 8,0 R {sector} + 8 [a]\n",
            n / 1000,
            n % 1000
        )
    };
    (1..4000).map(line).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn error(bytes: &[u8]) -> String {
    from_bytes(bytes.to_vec()).err().expect("no trace").to_string()
}

/// What comes before the damage is read, and a file of which nothing is left is not called empty.
#[test]
fn damaged_compression_is_told() {
    let mut packed = gzip(text().as_bytes());
    let middle = packed.len() / 2;
    packed[middle..middle + 64].fill(0xff);
    let mut reader = from_bytes(packed).unwrap();
    let events = reader.read_all().unwrap().len();
    assert!((1500..3000).contains(&events), "{events} events");
    assert_eq!(reader.report().skipped.last().unwrap().reason, "compressed data that is whole");
    let packed = zstd::encode_all(text().as_bytes(), 3).unwrap();
    let message = "(bytes): its compressed data is damaged near the start";
    assert_eq!(error(&packed[..100]), message);
    assert_eq!(error(&gzip(text().as_bytes())[..14]), message);
    assert_eq!(error(&gzip(b"")), "(bytes): the trace is empty");
}

/// `pzstd` writes the length of each frame before it, in a frame that is skipped.
#[test]
fn a_frame_that_is_skipped_may_come_first() {
    let frame = zstd::encode_all(text().as_bytes(), 3).unwrap();
    let packed = [&b"\x50\x2a\x4d\x18\x04\0\0\0\x01\x02\x03\x04"[..], &frame].concat();
    assert_eq!(from_bytes(packed.repeat(2)).unwrap().read_all().unwrap().len(), 3999 * 2);
}

/// `atrace -z` prints a line and then the trace, compressed by zlib.
#[test]
fn zlib_is_taken_off() {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text().as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    for before in ["", "TRACE:\n", "capturing trace... done\nTRACE:\n"] {
        let mut reader = from_bytes([before.as_bytes(), &packed].concat()).unwrap();
        assert_eq!(reader.read_all().unwrap().len(), 3999, "{before}");
    }
    let plain = format!("capturing trace... done\nTRACE:\n{}", text());
    assert_eq!(from_bytes(plain.into_bytes()).unwrap().read_all().unwrap().len(), 3999);
}

/// xz has a length of its own for each block, and may be several files one after the other.
#[test]
fn xz_is_taken_off() {
    let (events, reader) =
        crate::testing::read_file(&crate::testing::data("formats/ftrace.txt.xz"));
    assert_eq!((reader.format(), events.len()), (TraceFormat::Ftrace, 12));
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(text().as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    assert_eq!(from_bytes(packed.repeat(2)).unwrap().read_all().unwrap().len(), 3999 * 2);
    assert_eq!(from_bytes(gzip(&packed)).unwrap().read_all().unwrap().len(), 3999);
    let mut cut = from_bytes(packed[..packed.len() / 2].to_vec()).unwrap();
    let events = cut.read_all().unwrap().len();
    assert!((1000..3000).contains(&events), "{events} events");
    assert_eq!(cut.report().skipped.last().unwrap().reason, "compressed data that is whole");
    assert_eq!(error(&packed[..14]), "(bytes): its compressed data is damaged near the start");
}

/// A false guess is worse than none.
#[test]
fn a_guess_needs_all_lines() {
    for text in [
        "\nwords",
        "8,0 R 2048 C R of it\nand more\n",
        "> 8,0 D R 2048 +\n",
        "Dear all, D W\nsee below\n",
    ] {
        assert!(!error(text.as_bytes()).contains("-f"), "{text}");
    }
    assert!(error(b"> 8,0 D R 2048 +\n> see\n").contains("quoted"));
}

/// What people take for a trace is called by its name, with what makes a trace of it.
#[test]
fn other_files_are_called_by_their_names() {
    for (start, word) in [
        (&b"\x17\x08\x44tracing7\0\0\x08"[..], "trace-cmd report"),
        (b"PERFILE2h\0", "perf script"),
        (b"BZh91AY&SY", "bzip2 -dc"),
        (b"\x04\"M\x18d@", "lz4 -dc"),
        (b"PK\x03\x04\x14\0", "zip"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"\xff\xfe#\0 \0", "UTF-16"),
        (b"{\"traceEvents\": [], \"systemTraceEvents\": \"# tracer: nop\\n\"}", "jq -r"),
        (b"{\n\t\"linux-perf-json-version\": 1,\n", "perf script"),
        (b"    0.054647070   8,0   D WS 86392 8 fio\n", "without -f"),
        (
            b"     0.000 fio/7168 block:block_bio_queue(dev: 266338304, sector: 20594664)\n",
            "perf script",
        ),
    ] {
        let message = error(start);
        assert!(message.contains(word) && !message.contains("begins with"), "{message}");
    }
    let mut archive = b"ali.csv".to_vec();
    archive.resize(257, 0);
    archive.extend(b"ustar  \0");
    archive.resize(512, 0);
    archive.extend(b"3,R,0,4096,1577808000000000\n".repeat(20));
    assert!(error(&gzip(&archive)).contains("tar -xO"), "a tar whose files are a trace");
    assert!(error(b"hello").ends_with("it begins with \"hello\""));
}
