//! Checks the expected results of the experiment on runs made by the test.

use super::findings::{Disk, HalfDuty};
use super::small::Phase;
use super::*;
use crate::reproduce::conclusions::text_of;

fn near(ours: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((ours - wanted).abs() <= tolerance, "{what}: {ours}, not {wanted} +- {tolerance}");
}

#[test]
fn the_timeline_is_what_the_rules_say_by_hand() {
    let timeline = small::timeline(&Lab::quiet()).expect("runs");
    assert_eq!(timeline.by_hand, [55.0, 91.0, 90.0, 90.0]);
    // A transfer takes a nanosecond.
    timeline.jiffies[0].into_iter().zip(timeline.by_hand).for_each(|(ours, hand)| near(ours, hand, 1e-6, "jiffies"));
    // The proposal's form has no effect on a device with two hardware queues.
    assert_eq!(timeline.jiffies[1][..3], [55.0, 55.0, 90.0]);
    // Five starts of one jiffy each and five completions of 40 ms each.
    assert_eq!(timeline.at_rate.map(|busy| busy[0]), [250.0, 220.0, 205.0]);
    timeline.at_rate.into_iter().for_each(|busy| near(busy[3], 360.0, 1e-5, "exact"));
}

#[test]
fn a_busy_disk_shows_69_percent_only_with_somebody_else_on_it() {
    let lun = lun::measure(&Lab::quiet()).expect("runs");
    near(lun.rhythm.sampled(6.0), 69.4, 0.1, "closed form");
    assert_eq!(lun.starts, 6);
    near(utilisation(&lun.alone)[0], 100.0, 0.2, "alone");
    let [sampled, inflight, precise, exact] = utilisation(&lun.both[0]);
    near(sampled, 69.0, 3.0, "sampled");
    for form in [inflight, precise, exact] {
        near(form, 100.0, 0.1, "always busy");
    }
    // The forms only change what is shown.
    for (form, run) in IoTicksForm::ALL.into_iter().zip(&lun.both) {
        assert_eq!(run.jobs[0].stats, lun.both[0].jobs[0].stats, "{}", form.name());
        near(delta(run).io_ticks_percent(), utilisation(&lun.both[0])[form as usize], 0.01, form.name());
    }
    let delta = delta(&lun.both[0]);
    near(delta.fields[0] as f64 / delta.seconds, 4001.0, 40.0, "requests a second");
    near(delta.mean_in_flight, 104.8, 2.5, "in flight");
    for &(rate, ours) in &lun.sweep {
        near(ours, lun.rhythm.sampled(rate as f64), 4.0, "closed form");
    }
    for (rate, run) in &lun.independent {
        near(utilisation(run)[0], lun::sampled_independent(*rate as f64, 1000.0), 2.5, "independent starts");
    }
    // A coarser tick hides part of the loss.
    assert!(lun.tick_rates.windows(2).all(|w| utilisation(&w[0].1)[0] > utilisation(&w[1].1)[0]));

    let mut document = Document::new("io-ticks");
    lun::report(&mut document, &lun);
    let (text, page) = (document.text(), document.html("simulated"));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains("NaN") && !page.contains("NaN") && page.matches("<figure").count() == 2);
}

#[test]
fn a_thinking_writer_is_idle_and_a_jiffy_is_coarse() {
    let rest = small::rest(&Lab::quiet()).expect("runs");
    let [sampled, inflight, precise, exact] = utilisation(&rest.thinking);
    assert!(sampled > 80.0 && inflight > 80.0, "{sampled} {inflight}");
    assert!(precise < 5.0 && exact < 2.0, "{precise} {exact}");

    let case = &rest.half_duty;
    assert_eq!((case.phases.len(), case.kernel_ms.len()), (40, 3));
    near(case.phases[0].busy[2], 2000.0, 4.0, "on the tick");
    for Phase { busy, .. } in &case.phases {
        near(busy[3], 500.0 * 5.0512, 0.6, "exact does not depend on the phase");
        assert!((busy[2] - 2000.0).abs() <= 4.0 || (busy[2] - 3000.0).abs() <= 8.0, "{busy:?}");
    }
    // Each measurement of the kernel equals the rule's result at some phase, and there are two
    // groups of them.
    for &ms in &case.kernel_ms {
        near(case.nearest(ms).busy[2], ms, 12.0, "as the kernel counted");
    }
    assert_ne!(case.nearest(2000.0).delay_us, case.nearest(3012.0).delay_us);

    let mut document = Document::new("io-ticks");
    small::report_rest(&mut document, &rest);
    let text = document.text();
    assert!(text.lines().all(|line| line.chars().count() <= 100) && !text.contains("NaN"), "{text}");
    assert!(text.contains("2000, 2004 and 3012 ms"), "{text}");
    half_duty_follows(case);
}

/// Sentences change or disappear if the figures do.
fn half_duty_follows(case: &HalfDuty) {
    let with = |change: &dyn Fn(&mut HalfDuty)| {
        let mut altered = case.clone();
        change(&mut altered);
        text_of(&altered, &findings::HALF_DUTY)
    };
    let usual = with(&|_| ());
    let all: &dyn Fn(usize, f64) -> String =
        &|form, ms| with(&|case| case.phases.iter_mut().for_each(|phase| phase.busy[form] = ms));
    for (sentence, changed) in [
        ("the rule explains them", with(&|case| case.kernel_ms[1] = 2500.0)),
        ("of 40 phases", all(2, 2000.0).to_lowercase()),
        ("right in the mean", all(2, 2000.0)),
        ("right in the mean", all(3, 2000.0)),
        ("does not depend on the phase", with(&|case| case.phases[3].busy[3] += 5.0)),
    ] {
        assert!(usual.to_lowercase().contains(&sentence.to_lowercase()), "{sentence}: {usual}");
        assert!(!changed.contains(sentence), "{sentence}: {changed}");
    }
    assert!(with(&|case| case.kernel_ms[1] = 2500.0).contains("No phase here gives the 2500 ms"));
}

#[test]
fn conclusions_of_the_disk_follow_its_figures() {
    let disk = Disk {
        depth: 120.0,
        alone: [100.0; 4],
        both: [69.0, 100.0, 100.0, 100.0],
        published_util: 69.0,
        seeds: vec![68.0, 70.0],
        rate: [4000.0, 4000.0],
        mean_ms: [26.3, 30.0],
        await_ms: 26.5,
        most_ms: [295.0, 250.0],
        forms_alike: true,
        other: [63.3, 78.0, 78.5],
    };
    let with = |change: &dyn Fn(&mut Disk)| {
        let mut altered = disk.clone();
        change(&mut altered);
        [&findings::ALONE[..], &findings::DISK, &findings::FORMS, &findings::OTHER]
            .map(|conclusions| text_of(&altered, conclusions))
            .join(" ")
    };
    let usual = with(&|_| ());
    for (sentence, changed) in [
        ("job alone does not do it here", with(&|disk| disk.alone[0] = 80.0)),
        ("between 68.0 and 70.0 %; the published 69 lies inside of that", with(&|disk| disk.seeds = vec![70.0, 72.0])),
        ("the sampled form shows 69.0 %, and every other form 100 %", with(&|disk| disk.both[1] = 70.0)),
        ("120 in flight at 4000 a second, 30.0 ms", with(&|disk| disk.mean_ms[0] = 30.0)),
        ("for 12 % of its round", with(&|disk| disk.mean_ms[0] = 25.0)),
        ("has not reaped yet: its mean is 30.0 ms, the disk's 26.5", with(&|disk| disk.await_ms = 30.0)),
        ("too low, 250 ms of 295", with(&|disk| disk.most_ms[1] = 300.0)),
        ("not what is done. Four runs", with(&|disk| disk.forms_alike = false)),
        ("less than both, 63.3 %", with(&|disk| disk.other[2] = 60.0)),
    ] {
        assert!(usual.contains(sentence), "{sentence}: {usual}");
        assert!(!changed.contains(sentence), "{sentence}: {changed}");
    }
    assert!(with(&|disk| disk.seeds = vec![70.0, 72.0]).contains("lies OUTSIDE of that"));
    assert_eq!(text_of(&[[250.0; 4]; 3], &findings::TICKS), "");
    assert!(
        text_of(&[90.0, 80.0, 0.4, 0.5], &findings::THINKING).contains("90 and 80 % on a disk that is busy for 0.50 %")
    );
    assert_eq!(text_of(&[1.0, 1.0, 9.0, 0.5], &findings::THINKING), "");
}
