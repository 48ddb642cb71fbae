//! What must hold for any bytes given as a fault. The fuzz target and an ordinary test over the
//! corpus share it.

use elevon_sim::device::fault::Rule;

/// Complains in words, or gives the rule of that name.
pub(crate) fn fault(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Rule::parse(&text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(rule) => assert!(text.starts_with(rule.name()), "{text}: {rule:?}"),
    }
}
