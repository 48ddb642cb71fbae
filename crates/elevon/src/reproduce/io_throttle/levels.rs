//! The report that the thread quotes: BE 7 beside BE 0 without the patch, RT beside BE 7 with it.

use elevon_report::document::Document;
use elevon_report::text::Figure;

use super::ends;
use super::summary::Ends;
use crate::failure::Failure;
use crate::reproduce::conclusions::{Conclusion, conclude, listed};
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const LEVELS: Job = job!("io-throttle/two-levels.fio");

/// Seconds after which the two readers had finished: the more urgent one, and BE 7.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    /// BE 0 beside BE 7: published without the patch, and Elevon's.
    pub(super) published_be: Ends,
    pub(super) be: Ends,
    /// RT beside BE 7: four published runs with the patch and no limit, and Elevon's.
    pub(super) published_rt: [Ends; 4],
    pub(super) rt: Ends,
    pub(super) command: String,
}

pub(super) fn measure(lab: &Lab, parameters: &Parameters) -> Result<Levels, Failure> {
    let stack = parameters.text("levels.stack");
    let run = |class, level| lab.run(LEVELS, &[("FIRST_CLASS", class), ("FIRST_LEVEL", level)], stack);
    let (be, rt) = (run("2", "0")?, run("1", "0")?);
    let number = |key: String| parameters.number(&format!("levels.{key}"));
    Ok(Levels {
        published_be: ["be0", "be7"].map(|who| number(who.to_owned())),
        be: ends(&be),
        published_rt: [1, 2, 3, 4].map(|run| ["rt", "be"].map(|who| number(format!("{who}_{run}")))),
        rt: ends(&rt),
        command: be.command,
    })
}

const LEVELS_SHOWN: [Conclusion<Levels>; 3] = [
    |case| {
        let share = |ends: Ends| ends[1] / ends[0];
        (case.be[0] < case.be[1]).then(|| {
            format!(
                "BE 7 ends {:.2} times as late as BE 0 here, {:.2} times as published. BFQ's weights are 80 and 10; CFQ divided \
                 time by slices, which is not modelled.",
                share(case.be),
                share(case.published_be),
            )
        })
    },
    |case| {
        let reversed: Vec<String> = (1..)
            .zip(case.published_rt)
            .filter(|(_, [rt, be])| rt > &(0.8 * be))
            .map(|(run, _)| run.to_string())
            .collect();
        (!reversed.is_empty() && case.rt[0] < 0.6 * case.rt[1]).then(|| {
            format!(
                "In the published runs {} RT ended about when BE did. No run here shows that: RT ends after {:.2} of BE's time.",
                listed(&reversed),
                case.rt[0] / case.rt[1],
            )
        })
    },
    |_| {
        Some(
            "The quoted mail adds that with the patch there was \"no service differentiation\" between BE 0 and BE 7. It has no \
             figure of that, so there is no row of it."
                .to_owned(),
        )
    },
];

pub(super) fn report(document: &mut Document, case: &Levels) {
    document.heading("4. The quoted report: BE 7 beside BE 0, RT beside BE 7");
    document.paragraph(
        "Vivek Goyal's runs, quoted in the thread: two readers of 234,179,072 bytes. The disk's rate is fitted to the end of BE 7 \
         beside BE 0, so that row is calibrated.",
    );
    let row = |name: &str, published: f64, ours: f64, note: &str| Figure {
        name: name.into(),
        unit: "s".into(),
        expected: Some(published),
        ours,
        note: note.into(),
    };
    let mut rows = vec![
        row("without the patch, BE 0", case.published_be[0], case.be[0], "predicted"),
        row("without the patch, BE 7", case.published_be[1], case.be[1], "calibrated: the disk's rate"),
    ];
    for (run, [rt, be]) in (1..).zip(case.published_rt) {
        rows.push(row(&format!("with it, run {run}, RT"), rt, case.rt[0], "predicted"));
        rows.push(row(&format!("with it, run {run}, BE 7"), be, case.rt[1], "predicted"));
    }
    document.figures("the quoted report", "published", rows);
    document.command(&case.command);
    conclude(document, case, &LEVELS_SHOWN);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::conclusions::text_of;

    #[test]
    fn the_quoted_report_has_its_rows() {
        let parameters = Parameters::parse(super::super::PARAMETERS);
        let case = measure(&Lab::quiet(), &parameters).expect("runs");
        assert!((case.be[1] / 5.36023 - 1.0).abs() < 0.01, "calibrated: {case:?}");
        assert!(case.be[0] < case.be[1] && case.rt[0] < case.be[0], "{case:?}");
        let mut document = Document::new("");
        report(&mut document, &case);
        let text = document.text();
        for figure in ["4.1207", "5.3602", "2.7460", "4.5442", "5.1773", "2.7414"] {
            assert!(text.contains(figure), "{figure}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let usual = text_of(&case, &LEVELS_SHOWN);
        assert!(usual.contains("In the published runs 2 and 3 RT ended about when BE did"), "{usual}");
        let late = Levels { rt: [5.0, 5.2], be: [5.0, 4.0], ..case };
        assert!(!text_of(&late, &LEVELS_SHOWN).contains("ends"), "{late:?}");
    }
}
