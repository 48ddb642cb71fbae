//! Properties that must hold for any bytes that a control socket gets. A module of the server has
//! this check.

use elevon_core::kernel::Kernel;
use serde_json::{Value, json};

use crate::admin::commands::{Command, LONGEST_SPAN, lines};

/// Checks that each line has an answer of one line of JSON, and that what is carried out is whole.
pub(crate) fn command(data: &[u8]) {
    let (rules, mut answers, mut asked) = (Kernel::V6_18.rules(), Vec::new(), 0);
    lines(data, &mut answers, |line| {
        asked += 1;
        let command =
            Command::of(line, &rules).inspect_err(|error| assert!(!error.is_empty(), "{line}"))?;
        match &command {
            Command::Explain { span, .. } => {
                assert!((1..=LONGEST_SPAN).contains(span), "{command:?}");
            }
            Command::Set { tenant, settings, .. } => {
                assert!(
                    !settings.is_empty() && !tenant.is_empty() && !tenant.starts_with('/'),
                    "{command:?}"
                );
            }
            _ => {}
        }
        Ok(json!({}))
    });
    let answers = String::from_utf8(answers).expect("JSON is text");
    assert_eq!(
        answers.lines().count(),
        data.split_inclusive(|&byte| byte == b'\n').count(),
        "{answers}"
    );
    for answer in answers.lines() {
        let answer: Value = serde_json::from_str(answer).expect("a line of JSON");
        assert!(
            answer == json!({}) || answer["error"].as_str().is_some_and(|error| !error.is_empty()),
            "{answer}"
        );
    }
    assert!(asked <= answers.lines().count());
}
