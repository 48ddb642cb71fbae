//! Checks the expected results of the experiment on runs made by the test.

use super::*;
use crate::reproduce::conclusions::text_of;

fn near(ours: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((ours / wanted - 1.0).abs() <= tolerance, "{what}: {ours}, not {wanted} within {tolerance}");
}

#[test]
fn the_counter_spares_the_lookups_and_classes_survive() {
    let parameters = Parameters::parse(PARAMETERS);
    let measured = measure(&Lab::quiet(), &parameters).expect("runs");
    let of = |mode| mean(&measured.of(mode).runs);
    let published = |mode: Mode, who: &str| parameters.number(&format!("published.{}_{who}", mode.key()));
    let [plain, hooks, counter] = Mode::ALL.map(of);
    near(plain[0], published(Mode::Plain, "rt"), 0.003, "calibrated: RT");
    near(plain[1], published(Mode::Plain, "be"), 0.003, "calibrated: BE");
    near(hooks[0], published(Mode::Hooks, "rt"), 0.003, "a lookup's cost by construction");
    assert_eq!(measured.of(Mode::Plain).runs, measured.of(Mode::Counter).runs, "without lookups, without their time");
    near(counter[0], published(Mode::Counter, "rt"), 0.03, "RT does not move");
    near(hooks[1], published(Mode::Hooks, "be"), 0.05, "predicted: BE with hooks");
    // One published figure has no known explanation; the model does not reproduce it.
    assert!(counter[1] > 1.1 * published(Mode::Counter, "be"));
    let lookups = Mode::ALL.map(|mode| measured.of(mode).lookups);
    assert_eq!(lookups, [0, 2 * CHUNKS, 0]);
    for arm in &measured.arms {
        assert_eq!(arm.runs.len(), 4);
        assert!(arm.runs.iter().all(|[rt, be]| rt < be), "{:?}: RT ends after BE", arm.mode);
    }
    // Two strict classes on a disk of 20.5 MB/s are served one after the other, whatever the hook
    // costs.
    let alone = 245_366_784.0 / 20.5e6;
    near(measured.medium[0][0], alone, 0.003, "medium: RT");
    near(measured.medium[0][1], 2.0 * alone, 0.003, "medium: BE");
    assert_eq!(measured.medium[0], measured.medium[1], "read-ahead hides the hook");
    let [rt, be] = measured.injecting;
    assert!(rt > be, "injection regards classes now: {rt} {be}");
    let [fifo, by_class] = measured.limited;
    near(fifo[0], 55.83, 0.005, "FIFO: RT");
    near(fifo[1], 55.83, 0.005, "FIFO: BE");
    near(by_class[0], 27.92, 0.005, "by class: RT");
    near(by_class[1], 55.83, 0.005, "by class: BE");

    let text = document(&measured, &parameters).text();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "Lookups: 0 plain, 3744 with the hooks, 0 with the counter",
        "its runs are those of the plain kernel",
        "BE with hooks ends -3.1 %",
        "18.7 s, is 15 % earlier than",
        "The 4 runs of each kernel",
        "RT is then 4.2 % slower",
        "RT ends first in every run",
        "(inject=limit, the last row)",
        "27.91 s instead of 55.80",
    ] {
        assert!(flat.contains(sentence), "{sentence}: {flat}");
    }
    conclusions_follow_the_figures(&measured.summary(&parameters));
    a_kernel_that_looks_up_pays_whatever_it_is_called(&parameters);
}

/// Sentences change or disappear if the figures do.
fn conclusions_follow_the_figures(summary: &Summary) {
    let with = |change: &dyn Fn(&mut Summary)| {
        let mut altered = summary.clone();
        change(&mut altered);
        [&summary::UNRULED[..], &summary::WAYS, &summary::CLASSES, &summary::LIMITED]
            .map(|conclusions| text_of(&altered, conclusions))
            .join(" ")
    };
    let usual = with(&|_| ());
    for (sentence, changed) in [
        ("its runs are those", with(&|s| s.lookups[2] = 7)),
        ("its runs are those", with(&|s| s.runs[2][0][0] += 0.5)),
        ("differ from its first", with(&|s| s.runs[1][3][1] += 0.02)),
        ("BE with hooks ends", with(&|s| s.ends[1][1] = s.published[1][1])),
        ("nothing in these runs explains", with(&|s| s.ends[2][1] = s.published[2][1])),
        ("do not show", with(&|s| s.medium[1][0] += 1.0)),
        ("RT ends first in every run", with(&|s| s.runs[2][1] = [9.0, 8.0])),
        ("injects without regard", with(&|s| s.injecting = [9.0, 10.0])),
        ("In one FIFO both end", with(&|s| s.limited[0][0] = 40.0)),
        ("With queues by class", with(&|s| s.limited[1][0] = 40.0)),
    ] {
        assert!(usual.contains(sentence), "{sentence}: {usual}");
        assert!(!changed.contains(sentence), "{sentence}: {changed}");
    }
    assert!(with(&|s| s.medium[1][0] *= 1.1).contains("lookups make RT +10.0 % and BE +0.0 % later"));
}

/// The CPU time follows from the stack's lookups: with twice the cost of a lookup RT is delayed
/// twice as much.
fn a_kernel_that_looks_up_pays_whatever_it_is_called(parameters: &Parameters) {
    let chunk = [parameters.text("stack.rt_host"), parameters.text("stack.be_host")];
    let rt = |mode, lookup| {
        let host = Host { mode, chunk, lookup, cpu: parameters.text("stack.cpu") };
        let (run, work) = two_readers(&Lab::quiet(), host, parameters.text("stack.stack")).expect("runs");
        (ends(&run)[0], work.lookups)
    };
    let (free, lookups) = rt(Mode::Hooks, 0.0);
    assert_eq!(lookups, 2 * CHUNKS);
    let later = rt(Mode::Hooks, 540.0).0 - free;
    near(later, CHUNKS as f64 * 540e-6, 0.01, "a lookup a chunk");
    assert_eq!(rt(Mode::Counter, 540.0), (free, 0));
}
