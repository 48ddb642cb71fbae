//! Properties that must hold for any bytes given as a server's configuration. The fuzz target and
//! tests share this check.

use elevon_formats::serve::{NAME_MAX, parse};

/// Checks that the text gives errors of one line with a place, or a configuration whose exports are
/// on devices that it has.
pub(crate) fn serve(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse("c.toml", &text) {
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(
                    error.line > 0 && error.column > 0 && !error.message.is_empty(),
                    "{error:?}"
                );
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
        Ok(file) => {
            assert!(!file.devices.is_empty() && !file.exports.is_empty());
            for export in &file.exports {
                assert!(
                    export.device < file.devices.len() && export.name.len() <= NAME_MAX,
                    "{export:?}"
                );
                assert!(export.size != Some(0) && !export.tenant.starts_with('/'), "{export:?}");
            }
        }
    }
}
