//! Properties that must hold for any bytes written to a control file, `FILE LINE`. The fuzz target
//! and tests share this check.

use elevon_core::kernel::Kernel;
use elevon_formats::cgroup::parse;

/// Checks that the text gives an error of one line at existing bytes, or a value that is the same
/// after formatting and parsing.
pub(crate) fn cgroup(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (file, line) = text.split_once(' ').unwrap_or((&text, ""));
    let rules = Kernel::V6_18.rules();
    match parse(file, line, &rules) {
        Err(error) => {
            assert!(line.get(error.span.clone()).is_some(), "{:?} of {line:?}", error.span);
            let message = error.to_string();
            assert!(
                !message.is_empty() && (!message.contains('\n') || file.contains('\n')),
                "{message}"
            );
        }
        Ok(taken) => {
            assert!(taken.device.is_none_or(|device| line.contains(device)));
            let again = taken.setting.text(taken.device);
            let read = parse(taken.setting.name(), &again, &rules)
                .unwrap_or_else(|error| panic!("{again}: {error}"));
            assert_eq!(read.setting, taken.setting, "{line} is {again}");
        }
    }
}
