//! What must hold for any bytes given as a blktrace file. The fuzz target and an ordinary test over the corpus share it.

use elevon_formats::trace::blktrace::Reader;

/// Reads to the end or to one error, after which nothing follows; no record claims more than there is.
pub(crate) fn blktrace(data: &[u8]) {
    let mut reader = Reader::new(data);
    let (mut bytes, mut records) = (0, 0);
    while let Some(record) = reader.next() {
        match record {
            Ok(record) => {
                bytes += record.payload.len();
                records += 1;
                let _ = (record.letter(), record.number());
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(reader.next().is_none(), "records after an error");
                break;
            }
        }
    }
    assert!(bytes <= data.len() && records <= data.len(), "more than the file holds");
}
