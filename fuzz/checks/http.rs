//! Properties that must hold for any bytes that a client of HTTP sends. A module of the server has
//! this check.

use crate::admin::http::{SPANS, asked};
use crate::web::{HEAD, Request, head};

/// Checks that a head is the same however its bytes are cut, and asks for something that there is
/// or is refused with a reason.
pub(crate) fn http(data: &[u8]) {
    let whole = found(data, 1024);
    // Whether a head at the limit fits depends on how much comes at once.
    for piece in [1, 7].into_iter().filter(|_| data.len() <= HEAD) {
        // What came with the end of the head belongs to the piece.
        let head = found(data, piece);
        assert_eq!(head.as_deref().map(end_of), whole.as_deref().map(end_of), "pieces of {piece}");
    }
    let Some(head) = whole else { return };
    assert!(head.len() < HEAD + 1024 && data.starts_with(&head));
    match Request::of_head(&head) {
        Err(refusal) => {
            let refusal = format!("{refusal:?}");
            assert!(
                refusal.contains("status: \"4") || refusal.contains("status: \"50"),
                "{refusal}"
            );
        }
        Ok(request) => {
            if let Ok((_, span)) = asked(&request.query) {
                assert!(SPANS.contains(&span));
            }
        }
    }
}

/// Returns the head of what comes in pieces of this size at most.
fn found(data: &[u8], piece: usize) -> Option<Vec<u8>> {
    let mut rest = data;
    head(|buffer| {
        let taken = rest.len().min(piece).min(buffer.len());
        let (now, later) = rest.split_at(taken);
        buffer[..taken].copy_from_slice(now);
        rest = later;
        Ok(taken)
    })
    .expect("memory has no errors")
}

/// Returns a head up to its end.
fn end_of(head: &[u8]) -> &[u8] {
    let end = head.windows(4).position(|end| end == b"\r\n\r\n").expect("it is whole");
    &head[..end]
}
