//! What the experiment must show, on runs made here.

use super::*;

fn near(ours: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((ours / wanted - 1.0).abs() <= tolerance, "{what}: {ours}, not {wanted} within {tolerance}");
}

#[test]
fn the_counter_restores_the_plain_kernel_and_classes_survive() {
    let parameters = Parameters::parse(PARAMETERS);
    let measured = measure(&Lab::quiet(), &parameters).expect("runs");
    let of = |mode| mean(&measured.of(mode).runs);
    let published = |mode: Mode, who: &str| parameters.number(&format!("published.{}_{who}", mode.key()));
    let [plain, hooks, counter] = Mode::ALL.map(of);
    near(plain[0], published(Mode::Plain, "rt"), 0.003, "calibrated: RT");
    near(plain[1], published(Mode::Plain, "be"), 0.003, "calibrated: BE");
    near(hooks[0], published(Mode::Hooks, "rt"), 0.003, "the hook's cost by construction");
    assert_eq!(measured.of(Mode::Plain).runs, measured.of(Mode::Counter).runs, "the counter takes everything back");
    near(counter[0], published(Mode::Counter, "rt"), 0.03, "RT does not move");
    near(hooks[1], published(Mode::Hooks, "be"), 0.05, "predicted: BE with hooks");
    // What nobody can explain is not shown.
    assert!(counter[1] > 1.1 * published(Mode::Counter, "be"));
    let lookups = Mode::ALL.map(|mode| measured.of(mode).lookups);
    assert_eq!(lookups, [0, 2 * CHUNKS, 0]);
    for arm in &measured.arms {
        assert_eq!(arm.runs.len(), 4);
        assert!(arm.runs.iter().all(|[rt, be]| rt < be), "{:?}: RT ends after BE", arm.mode);
    }
    // Two strict classes on a disk of 20.5 MB/s: one after the other, whatever the hook costs.
    let alone = 245_366_784.0 / 20.5e6;
    near(measured.medium[0][0], alone, 0.003, "medium: RT");
    near(measured.medium[0][1], 2.0 * alone, 0.003, "medium: BE");
    assert_eq!(measured.medium[0], measured.medium[1], "read-ahead hides the hook");
    let [rt, be] = measured.injecting;
    assert!(rt > be, "injection regards classes now: {rt} {be}; the report says otherwise");
    let [fifo, by_class] = measured.limited;
    near(fifo[0], 55.83, 0.005, "FIFO: RT");
    near(fifo[1], 55.83, 0.005, "FIFO: BE");
    near(by_class[0], 27.92, 0.005, "by class: RT");
    near(by_class[1], 55.83, 0.005, "by class: BE");
}
