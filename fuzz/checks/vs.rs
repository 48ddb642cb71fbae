//! Properties that must hold for any text of `--vs`. A module of elevon-plan has this
//! check.

use crate::options::StackOptions;

/// Checks that the text gives an error of one line that names the option, or options that do not
/// change if the text is applied again.
pub(crate) fn vs(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let base = StackOptions::of_text("").expect("the defaults");
    match base.with(&text) {
        Err(error) => {
            let said = error.to_string();
            assert!(
                said.contains("--vs") && (said.lines().count() == 1 || text.contains(['\n', '\r'])),
                "{said}"
            );
        }
        Ok(options) => {
            let again = options.with(&text).expect("the same text");
            assert_eq!(
                (again.device, again.queue.scheduler),
                (options.device, options.queue.scheduler)
            );
        }
    }
}
