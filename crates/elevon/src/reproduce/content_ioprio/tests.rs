//! What the experiment must show, on runs made here, one seed and one place each.

use super::*;
use sweep::{ARMS, Bios, Sweep};

/// The first place of a case.
fn first(case: impl for<'a> FnOnce(&Scale<'a>) -> Sweep<'a>) -> Row {
    let parameters = Parameters::parse(PARAMETERS);
    let sweep = case(&Scale { parameters: &parameters, full: false, seeds: 1, places: 1 });
    sweep::run(&Lab::quiet(), &[sweep]).expect("runs").remove(0).remove(0)
}

/// The share of all bios, writeback's too, that became RT.
fn promoted(row: &Row, arm: &str) -> f64 {
    let bios = row.of(arm).bios;
    bios.promoted as f64 / bios.all as f64
}

#[test]
fn pages_touched_in_order_come_back_too_late_to_be_active() {
    let row = first(|scale| cases::case1(scale, "read"));
    let seconds = dd_seconds(row.of("off").mean(2));
    assert!((seconds - 55.0).abs() < 0.03 * 55.0, "calibrated: {seconds}");
    for arm in ["iter-bio", "add-page", "page-exact"] {
        assert!(promoted(&row, arm) < 0.01, "{arm}: {:?}", row.of(arm).bios);
    }
}

#[test]
fn faults_whose_pages_come_back_soon_wait_less_and_chance_does_not_do_that() {
    let row = first(|scale| cases::case1(scale, "randread"));
    let wait = |arm| row.ratio(arm, 0).0;
    assert!(promoted(&row, "iter-bio") > 0.01, "{:?}", row.of("iter-bio").bios);
    assert!(wait("oracle") < wait("random") && wait("iter-bio") < wait("random"), "{:?}", ARMS.map(wait));
}

#[test]
fn a_launch_is_fitted_on_mainline_and_under_mq_deadline_not_even_the_oracle_helps_it() {
    let row = first(|scale| cases::case3(scale, 0));
    let launch = 10.0 * row.of("off").mean(0);
    assert!((launch - 2267.0).abs() < 0.03 * 2267.0, "calibrated: {launch}");
    assert!(row.of("iter-bio").bios.promoted > 0);
    assert!((row.ratio("oracle", 0).0 - 1.0).abs() < 0.05, "{:?}", row.ratio("oracle", 0));
}

#[test]
fn where_every_page_is_read_once_no_form_changes_anything() {
    let row = first(cases::storage);
    for arm in ["iter-bio", "add-page", "page-exact", "random"] {
        let cell = row.of(arm);
        assert!(cell.bios.all > 1000, "{:?}", cell.bios);
        assert_eq!(cell.bios, Bios { all: cell.bios.all, ..Bios::default() }, "{arm}");
        assert_eq!(cell.figures, row.of("off").figures, "{arm}");
    }
    assert!(row.of("oracle").bios.promoted > 1000);
}

#[test]
fn a_range_that_fits_is_read_once_and_its_rate_is_the_fitted_one() {
    let row = first(|scale| cases::case2(scale, false));
    let rate = row.of("off").mean(0);
    assert!((rate - 513.3).abs() < 0.02 * 513.3, "calibrated: {rate}");
    assert_eq!(row.cells.len(), ARMS.len());
    for arm in ["iter-bio", "add-page", "page-exact"] {
        assert_eq!(row.of(arm).bios.promoted, 0);
        assert_eq!(row.of(arm).figures, row.of("off").figures);
    }
}

#[test]
fn where_memory_is_short_order_among_equals_gains_nothing() {
    let deadline = first(|scale| cases::case2(scale, true));
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
