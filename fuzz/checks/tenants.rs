//! Properties that must hold for any bytes given as a tenants file. The fuzz target and tests share
//! this check.

use elevon_core::kernel::Kernel;
use elevon_formats::tenants::parse;
use elevon_render::tenants as render;

/// Checks that the text gives errors of one line with a place, or tenants that are the same after
/// formatting and parsing.
pub(crate) fn tenants(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let rules = Kernel::V6_18.rules();
    match parse("t.toml", &text, &rules) {
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
            let written = render(&file);
            let again = parse("t.toml", &written, &rules)
                .unwrap_or_else(|errors| panic!("{written}: {errors:?}"));
            let paths = |file: &elevon_formats::tenants::TenantsFile| {
                file.tenants.iter().map(|t| (t.path.clone(), t.settings.len())).collect::<Vec<_>>()
            };
            assert_eq!(
                (paths(&again), again.changes.len()),
                (paths(&file), file.changes.len()),
                "{written}"
            );
            assert_eq!(render(&again), written);
        }
    }
}
