//! Properties that must hold for any bytes given as a fault. The fuzz target and a test over the
//! corpus share this check.

use elevon_sim::device::fault::Rule;

/// Checks that the text gives an error with a message, or the rule of that name.
pub(crate) fn fault(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Rule::parse(&text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(rule) => assert!(text.starts_with(rule.name()), "{text}: {rule:?}"),
    }
}
