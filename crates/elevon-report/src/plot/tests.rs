use super::*;

fn plot(mark: Mark, x: (Scale, Unit), y: (Scale, Unit), points: Vec<(f64, f64)>) -> Plot {
    let axis = |(scale, unit), title: &str| Axis { title: title.into(), scale, unit };
    Plot {
        title: "A <plot>".into(),
        description: "x & y".into(),
        mark,
        x: axis(x, "time"),
        y: axis(y, "value"),
        series: vec![Series {
            name: "one".into(),
            points,
            labels: vec!["first".into()],
            ..Series::default()
        }],
    }
}

/// Returns (x position, text anchor, label) of every text at the height of the x labels.
fn x_labels(svg: &str) -> Vec<(f64, String)> {
    let y = format!("y=\"{:.1}\"", HEIGHT - BOTTOM + 16.0);
    svg.split("<text x=\"")
        .skip(1)
        .filter(|text| text.contains(&y))
        .map(|text| {
            let x = text.split('"').next().unwrap().parse().unwrap();
            (x, text.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn x_labels_never_touch() {
    let mut rng = elevon_testkit::Rng(1);
    let mut random = || rng.fraction();
    for round in 0..400 {
        let size = 10f64.powf(random() * 14.0 - 2.0);
        let points = (0..20).map(|_| (random() * size + 1e-3, random() * size)).collect();
        let (scale, unit) = match round % 5 {
            0 => (Scale::Linear, Unit::Nanos),
            1 => (Scale::Linear, Unit::BytesPerSecond),
            2 => (Scale::Log, Unit::Nanos),
            3 => (Scale::Log, Unit::Odds),
            _ => (Scale::Linear, Unit::KiB),
        };
        let mark = if round % 5 == 4 { Mark::Bars } else { Mark::Points };
        let svg = plot(mark, (scale, unit), (Scale::Linear, Unit::Count), points).svg("p");
        let labels = x_labels(&svg);
        for pair in labels.windows(2) {
            let halves =
                (pair[0].1.chars().count() + pair[1].1.chars().count()) as f64 * CHARACTER / 2.0;
            assert!(pair[1].0 - pair[0].0 >= halves, "round {round}, size {size}: {labels:?}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "round {round}: {svg}");
    }
}

#[test]
fn ticks_are_round() {
    let points = vec![(0.0, 0.0), (1e9, 733.0), (2e9, 21.0)];
    let svg = plot(Mark::Line, (Scale::Linear, Unit::Nanos), (Scale::Linear, Unit::Count), points)
        .svg("p");
    let labels: Vec<String> = x_labels(&svg).into_iter().map(|(_, label)| label).collect();
    assert_eq!(labels, ["0.0", "0.5", "1.0", "1.5", "2.0"]);
    for label in ["0", "200", "400", "600", "800"] {
        assert!(svg.contains(&format!(">{label}</text>")), "{label}");
    }
    assert!(svg.contains(">time, s</text>"));
}

#[test]
fn odds_read_as_percentiles() {
    for (odds, text) in [
        (1.0, "0%"),
        (2.0, "50%"),
        (10.0, "90%"),
        (100.0, "99%"),
        (1000.0, "99.9%"),
        (1e5, "99.999%"),
    ] {
        assert_eq!(Unit::Odds.exact(odds), text);
    }
}

#[test]
fn every_mark_draws_and_escapes() {
    for mark in [Mark::Line, Mark::Curve, Mark::Step, Mark::StepBefore, Mark::Bars, Mark::Points] {
        let figure = plot(
            mark,
            (Scale::Linear, Unit::KiB),
            (Scale::Linear, Unit::Percent),
            vec![(4096.0, 10.0), (8192.0, 20.0)],
        )
        .figure("p")
        .into_string();
        assert!(
            figure.contains("A &lt;plot&gt;")
                && figure.contains("x &amp; y")
                && !figure.contains("<plot>")
        );
    }
}

#[test]
fn a_level_holds_after_its_point_or_before_it() {
    let points = vec![(0.0, 0.0), (1.0, 1.0)];
    for (mark, first, second) in [(Mark::Step, 'H', 'V'), (Mark::StepBefore, 'V', 'H')] {
        let svg =
            plot(mark, (Scale::Linear, Unit::Count), (Scale::Linear, Unit::Count), points.clone())
                .svg("p");
        let path = svg
            .split("class=\"line ink k0\" d=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .expect("a path");
        let order: Vec<char> = path.chars().filter(|c| "LHV".contains(*c)).collect();
        assert_eq!(order, [first, second], "{path}");
    }
}

#[test]
fn a_table_of_some_points_says_so() {
    let points: Vec<(f64, f64)> = (0..188).map(|at| (f64::from(at), 1.0)).collect();
    let whole = plot(
        Mark::Line,
        (Scale::Linear, Unit::Count),
        (Scale::Linear, Unit::Count),
        points[..40].to_vec(),
    );
    assert!(!whole.figure("p").into_string().contains("one in"));
    let thinned =
        plot(Mark::Line, (Scale::Linear, Unit::Count), (Scale::Linear, Unit::Count), points);
    assert!(thinned.figure("p").into_string().contains("one in 5 of 188 points"));
}

/// The interval of a point is a bar with ends, which the axis has room for.
#[test]
fn a_curve_has_dots_and_intervals() {
    let points = vec![(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)];
    let mut plot =
        plot(Mark::Curve, (Scale::Linear, Unit::Count), (Scale::Linear, Unit::Count), points);
    assert_eq!(plot.svg("p").matches("<circle").count(), 3);
    plot.series[0].half_widths = vec![5.0, 0.0, 25.0];
    let svg = plot.svg("p");
    assert_eq!(svg.matches("class=\"interval ink k0\"").count(), 2);
    assert!(svg.contains(">50</text>") || svg.contains(">60</text>"), "the axis goes to 55: {svg}");
    assert!(plot.figure("p").into_string().contains("10 ± 5"));
}

/// The values that were tried are the ticks, if they have space.
#[test]
fn a_curve_has_ticks_at_its_values() {
    let labels = |scale: Scale, unit: Unit, values: &[f64]| -> Vec<String> {
        let points = values.iter().map(|&x| (x, 1.0)).collect();
        let svg = plot(Mark::Curve, (scale, unit), (Scale::Linear, Unit::Count), points).svg("p");
        x_labels(&svg).into_iter().map(|(_, label)| label).collect()
    };
    let depths: Vec<f64> = (0..7).map(|power| f64::from(1 << power)).collect();
    assert_eq!(labels(Scale::Log, Unit::Count, &depths), ["1", "2", "4", "8", "16", "32", "64"]);
    let sizes: Vec<f64> = (12..21).map(|power| f64::from(1 << power)).collect();
    assert_eq!(
        labels(Scale::Log, Unit::Bytes, &sizes),
        ["4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"]
    );
    assert_eq!(labels(Scale::Linear, Unit::Count, &[1.0, 3.0, 7.0]), ["1", "3", "7"]);
    let many: Vec<f64> = (1..=64).map(f64::from).collect();
    assert_eq!(labels(Scale::Linear, Unit::Count, &many)[..3], ["0", "10", "20"]);
}

#[test]
fn dots_can_be_joined_and_have_intervals() {
    let mut plot = plot(
        Mark::Points,
        (Scale::Log, Unit::Bytes),
        (Scale::Linear, Unit::Count),
        vec![(5000.0, 1.0), (3e5, 2.0)],
    );
    assert!(!plot.svg("p").contains("class=\"line"));
    plot.series[0].is_joined = true;
    plot.series[0].half_widths = vec![0.5, 0.5];
    let svg = plot.svg("p");
    assert_eq!(
        (svg.matches("class=\"line ink k0\"").count(), svg.matches("class=\"interval").count()),
        (1, 2)
    );
    // Sizes are powers of two.
    assert!(
        x_labels(&svg).iter().all(|(_, label)| ["8", "16", "32", "64", "128", "256"]
            .contains(&label.trim_end_matches(" KiB"))),
        "{svg}"
    );
}

#[test]
fn no_points_still_give_axes() {
    for scale in [Scale::Linear, Scale::Log] {
        let svg = plot(Mark::Line, (scale, Unit::Nanos), (scale, Unit::Count), vec![]).svg("p");
        assert!(svg.contains("</svg>") && !svg.contains("NaN"), "{svg}");
    }
}

#[test]
fn labels_of_near_dots_stand_clear_of_each_other() {
    let points = vec![(10.0, 50.0), (10.1, 50.0), (14.0, 51.0), (20.0, 50.0), (100.0, 100.0)];
    let mut plot =
        plot(Mark::Points, (Scale::Linear, Unit::Percent), (Scale::Linear, Unit::Count), points);
    plot.series[0].labels =
        ["first", "its twin", "a long name beside it", "next", "far"].map(str::to_owned).to_vec();
    let svg = plot.svg("p");
    assert!(svg.contains(">first, its twin</text>"), "{svg}");
    let height = |label: &str| {
        let end = svg.find(&format!(">{label}</text>")).expect("its label");
        let y = svg[..end].rfind("y=\"").expect("a place") + 3;
        svg[y..].split('"').next().expect("a number").parse::<f64>().expect("a number")
    };
    let heights = ["first, its twin", "a long name beside it", "next"].map(height);
    for (at, a) in heights.iter().enumerate() {
        assert!(heights[..at].iter().all(|b| (a - b).abs() >= 11.0), "{heights:?}");
    }
}

/// Labels of dots at the right edge stay beside their dots, inside the drawing, and cover no dot.
#[test]
fn labels_at_the_right_edge_are_beside_their_dots() {
    let points =
        vec![(62.0, 100.0), (60.5, 73.0), (61.9, 85.0), (64.4, 87.0), (64.3, 80.0), (28.0, 105.0)];
    let names = ["none", "bfq off", "bfq seed", "bfq limit", "bfq fair", "aileron"];
    let mut plot =
        plot(Mark::Points, (Scale::Linear, Unit::Percent), (Scale::Linear, Unit::Percent), points);
    plot.series[0].labels = names.map(str::to_owned).to_vec();
    let svg = plot.svg("p");
    let value = |from: &str, name: &str| -> f64 {
        let at = from.find(name).expect("an attribute") + name.len();
        from[at..].split('"').next().expect("its end").parse().expect("a number")
    };
    let elements =
        |kind: &'static str| svg.split('<').filter(move |element| element.starts_with(kind));
    let dots: Vec<(f64, f64)> =
        elements("circle").map(|dot| (value(dot, "cx=\""), value(dot, "cy=\""))).collect();
    for (name, (px, py)) in names.iter().zip(&dots) {
        let label =
            elements("text").find(|text| text.ends_with(&format!(">{name}"))).expect("its label");
        let (x, y, width) =
            (value(label, "x=\""), value(label, "y=\""), name.len() as f64 * CHARACTER);
        let (from, to) = if label.contains("\"end\"") { (x - width, x) } else { (x, x + width) };
        assert!(
            (x - px).abs() < 8.0 && (y - py).abs() < 16.0,
            "{name} at {x} {y}, its dot at {px} {py}"
        );
        assert!(from >= 0.0 && to <= WIDTH, "{name} from {from} to {to}");
        let is_covered =
            |(x, at): &(f64, f64)| *x > from - 4.0 && *x < to + 4.0 && (y - 3.5 - at).abs() < 4.0;
        assert!(!dots.iter().any(is_covered), "{name} covers a dot: {svg}");
    }
}

/// A label too long for the drawing, of one dot or of many at one place, is cut and does not leave
/// it.
#[test]
fn long_labels_of_dots_stay_inside_the_drawing() {
    for (x, label, count) in
        [(0.0, "n".repeat(300), 1), (50.0, "ö".repeat(70), 1), (100.0, "job".to_owned(), 100)]
    {
        let points =
            std::iter::repeat_n((x, 1.0), count).chain([(0.0, 0.0), (100.0, 4.0)]).collect();
        let mut plot = plot(
            Mark::Points,
            (Scale::Linear, Unit::Percent),
            (Scale::Linear, Unit::Count),
            points,
        );
        plot.series[0].labels = vec![label; count];
        let svg = plot.svg("p");
        let drawn =
            svg.split("<text x=\"").find(|text| text.contains('…')).expect("a label that was cut");
        let at: f64 = drawn.split('"').next().and_then(|x| x.parse().ok()).expect("a number");
        let words =
            drawn.split('>').nth(1).and_then(|rest| rest.split('<').next()).expect("its words");
        let width = words.chars().count() as f64 * CHARACTER;
        let (from, to) =
            if drawn.contains("\"end\"") { (at - width, at) } else { (at, at + width) };
        assert!(
            from >= 0.0 && to <= WIDTH && words.chars().count() > 10,
            "{words} from {from} to {to}"
        );
    }
}

#[test]
fn a_scatter_plot_as_drawn() {
    let points = vec![(1.0, 100.0), (40.0, 25.0)];
    insta::assert_snapshot!(
        plot(Mark::Points, (Scale::Linear, Unit::Percent), (Scale::Linear, Unit::Count), points)
            .svg("p")
    );
}

/// Returns the labels of both axes of a line through the given points.
fn tick_labels(x: (Scale, Unit), y: (Scale, Unit), points: Vec<(f64, f64)>) -> [Vec<String>; 2] {
    let plot = plot(Mark::Line, x, y, points);
    let ticks = |axis: &Axis, values: Vec<f64>, room, vertical| {
        let ticks = Ticks::new(axis, values.into_iter(), 300.0, room, vertical);
        assert!(
            ticks.iter().all(|(at, _)| (-1e-6..=1.0 + 1e-6).contains(&at)),
            "a tick lies outside"
        );
        ticks.labels().map(str::to_owned).collect::<Vec<_>>()
    };
    let of = |at: fn(&(f64, f64)) -> f64| plot.series[0].points.iter().map(at).collect();
    [ticks(&plot.x, of(|p| p.0), CHARACTER, false), ticks(&plot.y, of(|p| p.1), 18.0, true)]
}

#[test]
fn a_range_without_a_round_number_has_ticks() {
    let log = (Scale::Log, Unit::Nanos);
    let [x, y] = tick_labels(log, log, vec![(365_000.0, 365_000.0), (395_000.0, 395_000.0)]);
    assert_eq!(x, y);
    assert_eq!(y, ["365 µs", "370 µs", "375 µs", "380 µs", "385 µs", "390 µs", "395 µs"]);
}

#[test]
fn every_range_has_two_ticks_that_differ() {
    let mut rng = elevon_testkit::Rng(7);
    let mut random = || rng.fraction();
    for round in 0..4000 {
        let low = 10f64.powf(random() * 11.0);
        // From a factor of one to many decades; narrow ranges are more frequent.
        let factor = 1.0 + 10f64.powf(random() * 10.0 - 7.0);
        let high = if round % 50 == 0 { low } else { low * factor };
        let unit = [Unit::Nanos, Unit::BytesPerSecond, Unit::Count][round % 3];
        for scale in [Scale::Log, Scale::Linear] {
            for labels in tick_labels((scale, unit), (scale, unit), vec![(low, low), (high, high)])
            {
                let distinct: std::collections::BTreeSet<&String> = labels.iter().collect();
                assert!(labels.len() >= 2, "{scale:?} {unit:?}, {low} to {high}: {labels:?}");
                assert_eq!(
                    distinct.len(),
                    labels.len(),
                    "{scale:?} {unit:?}, {low} to {high}: {labels:?}"
                );
            }
        }
    }
}

#[test]
fn curves_that_coincide_take_turns_and_are_named() {
    let base = plot(Mark::Line, (Scale::Linear, Unit::Nanos), (Scale::Linear, Unit::Count), vec![]);
    let line = |name: &str, rise: f64| Series {
        name: name.into(),
        colour: 0,
        points: (0..20).map(|x| (f64::from(x) * 1e8, f64::from(x) * rise)).collect(),
        ..Series::default()
    };
    let named = |series: Vec<Series>| {
        let figure = Plot { series, ..base.clone() }.figure("p").into_string();
        let note = figure
            .split("<p class=\"note\">")
            .nth(1)
            .map(|at| at.split('<').next().unwrap().to_owned());
        (note, figure.matches("stroke-dasharray:").count())
    };
    let [a, b, c, d] =
        ["A: baseline", "B: --set x=1", "C: --set x=2", "D: other"].map(|name| line(name, 100.0));
    let far = line("E: far", 60.0);
    let says = |text: &str| Some(text.to_owned());
    assert_eq!(named(vec![a.clone(), far.clone()]), (None, 0));
    assert_eq!(
        named(vec![a.clone(), b.clone()]),
        (says("A and B coincide: their dashes take turns."), 2)
    );
    assert_eq!(
        named(vec![a.clone(), b.clone(), c.clone()]).0,
        says("A to C coincide: their dashes take turns.")
    );
    let mixed = vec![a.clone(), far.clone(), c, d];
    assert_eq!(named(mixed).0, says("A, C and D coincide: their dashes take turns."));
    // A curve with fewer points on the same line coincides; half of a curve does not.
    let ends = Series { points: vec![a.points[0], a.points[19]], ..b.clone() };
    assert!(named(vec![a.clone(), ends]).0.is_some());
    let half = Series { points: a.points[..10].to_vec(), ..b };
    assert_eq!(named(vec![a.clone(), half, far.clone()]).0, None);
    // Bars are drawn side by side.
    assert_eq!(
        Plot { mark: Mark::Bars, series: vec![a.clone(), a], ..base.clone() }
            .figure("p")
            .into_string()
            .matches("note")
            .count(),
        0
    );
}

#[test]
fn a_file_is_the_drawing_with_its_own_style() {
    let plot = plot(
        Mark::Points,
        (Scale::Linear, Unit::Count),
        (Scale::Linear, Unit::Count),
        vec![(1.0, 2.0)],
    );
    let file = plot.svg_file();
    assert!(
        file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 400 250\""),
        "{file}"
    );
    assert_eq!(file.matches("<svg ").count(), 1);
    assert!(file.contains("--c0:#0b62c4") && file.contains(">first</text>"), "{file}");
    let drawing = plot.svg("plot");
    assert!(
        file.ends_with(&format!("{}\n", &drawing[drawing.find('>').expect("an element") + 1..]))
    );
}

#[test]
fn a_picture_has_its_plots_side_by_side_and_one_legend() {
    let plot = plot(
        Mark::Line,
        (Scale::Linear, Unit::Count),
        (Scale::Linear, Unit::Count),
        vec![(1.0, 2.0), (2.0, 3.0)],
    );
    let file = picture(&[plot.clone(), plot.clone()]);
    assert!(file.starts_with(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 290\" width=\"960\""
    ));
    assert_eq!(file.matches("<svg ").count(), 3);
    assert_eq!(file.matches("</svg>").count(), 3);
    assert_eq!(file.matches(">one</text>").count(), 1);
    assert_eq!(file.matches("A &lt;plot&gt;</text>").count(), 2);
}
