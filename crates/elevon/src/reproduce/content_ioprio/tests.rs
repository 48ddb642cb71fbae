//! What the experiment must show, on runs made here, one seed and one place each.

use super::*;
use sweep::{ARMS, Bios, interval};

fn with<T>(run: impl FnOnce(&Lab, &Scale<'_>) -> T) -> T {
    let parameters = Parameters::parse(PARAMETERS);
    run(&Lab::quiet(), &Scale { parameters: &parameters, full: false, seeds: 1, places: 1 })
}

#[test]
fn where_every_page_is_read_once_no_form_changes_anything() {
    let rows = with(cases::storage).expect("runs");
    for row in &rows {
        for arm in ["iter-bio", "add-page", "page-exact", "random"] {
            let cell = row.of(arm);
            assert!(cell.bios.all > 1000, "{:?}", cell.bios);
            assert_eq!(cell.bios, Bios { all: cell.bios.all, ..Bios::default() }, "{arm}");
            assert_eq!(cell.figures, row.of("off").figures, "{arm}");
        }
        assert!(row.of("oracle").bios.promoted > 1000);
    }
}

#[test]
fn a_range_that_fits_is_read_once_and_its_rate_is_the_fitted_one() {
    let rows = with(|lab, scale| cases::case2(lab, scale, false)).expect("runs");
    let rate = rows[0].of("off").mean(0);
    assert!((rate - 513.3).abs() < 0.02 * 513.3, "calibrated: {rate}");
    for row in &rows {
        assert_eq!(row.cells.len(), ARMS.len());
        for arm in ["iter-bio", "add-page", "page-exact"] {
            assert_eq!(row.of(arm).bios.promoted, 0);
            assert_eq!(row.of(arm).figures, row.of("off").figures);
        }
    }
}

#[test]
fn where_memory_is_short_order_among_equals_gains_nothing() {
    let rows = with(|lab, scale| cases::case2(lab, scale, true)).expect("runs");
    let deadline = &rows[0];
    let rate = deadline.of("off").mean(0);
    assert!((rate - 513.3).abs() < 0.04 * 513.3, "calibrated: {rate}");
    assert!(deadline.of("iter-bio").bios.promoted > 1000);
    for arm in ["iter-bio", "random"] {
        assert!(deadline.ratio(arm, 0).0 < 1.02, "{arm}: {:?}", deadline.ratio(arm, 0));
    }
    let oracle = deadline.ratio("oracle", 0).0;
    assert!((oracle - 1.0).abs() < 0.02, "all are RT: {oracle}");
}

#[test]
fn intervals_are_students() {
    let (mean, half) = interval(&[1.0, 2.0, 3.0]);
    assert!((mean - 2.0).abs() < 1e-12 && (half - 4.30 / 3f64.sqrt()).abs() < 1e-9, "{mean} {half}");
    assert_eq!(interval(&[5.0]), (5.0, 0.0));
}
