//! What the experiment must show, on runs made here.

use super::*;

fn near(ours: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((ours - wanted).abs() <= tolerance, "{what}: {ours}, not {wanted} +- {tolerance}");
}

#[test]
fn the_timeline_is_what_the_rules_say_by_hand() {
    let timeline = small::timeline(&Lab::quiet()).expect("runs");
    assert_eq!(timeline.by_hand, [55.0, 91.0, 90.0, 90.0]);
    // A transfer takes a nanosecond.
    timeline.jiffies[0].into_iter().zip(timeline.by_hand).for_each(|(ours, hand)| near(ours, hand, 1e-6, "jiffies"));
    // The seed's form does nothing for a device with two hardware queues.
    assert_eq!(timeline.jiffies[1][..3], [55.0, 55.0, 90.0]);
    // Five starts of one jiffy and five ends of 40 ms.
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
    // The forms differ in what they show and in nothing else.
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
    // A coarser tick hides some of the loss.
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

    let busy: Vec<[f64; 4]> = rest.half_duty.iter().map(|(_, run)| busy_ms(run)).collect();
    near(busy[0][2], rest.kernel_ms, 4.0, "as the kernel counted");
    for busy in &busy {
        near(busy[3], 500.0 * 5.0512, 0.6, "exact does not depend on the phase");
        assert!((busy[2] - 2000.0).abs() <= 4.0 || (busy[2] - 3000.0).abs() <= 8.0, "{busy:?}");
    }
    assert!(busy.iter().any(|b| b[2] > 2900.0), "another phase shows more");
}
