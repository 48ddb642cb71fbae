//! Conclusions of a report: sentences that are functions of the results. A sentence that the
//! results do not support is not printed, and every number in one is formatted from the results.

use elevon_report::document::Document;

/// A sentence about results of type `R`; `None` if the results do not support it.
pub(super) type Conclusion<R> = fn(&R) -> Option<String>;

/// Returns the sentences that the results support, in order, as one text.
pub(super) fn text_of<R>(results: &R, conclusions: &[Conclusion<R>]) -> String {
    conclusions.iter().filter_map(|conclusion| conclusion(results)).collect::<Vec<_>>().join(" ")
}

/// Adds a paragraph of the sentences that the results support; none if there is no such sentence.
pub(super) fn conclude<R>(document: &mut Document, results: &R, conclusions: &[Conclusion<R>]) {
    let text = text_of(results, conclusions);
    if !text.is_empty() {
        document.paragraph(text);
    }
}

/// Joins a list as in prose: `a`, `a and b`, `a, b and c`.
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the smallest and the largest value.
pub(super) fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
}

/// Returns by how many percent `value` is above (`+`) or below (`-`) `of`.
pub(super) fn percent_off(value: f64, of: f64) -> f64 {
    100.0 * (value / of - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_that_does_not_hold_is_not_printed() {
        let conclusions: [Conclusion<f64>; 2] =
            [|x| (*x > 1.0).then(|| format!("{x} is more than 1.")), |x| (*x < 5.0).then(|| "Less than 5.".to_owned())];
        assert_eq!(text_of(&2.5, &conclusions), "2.5 is more than 1. Less than 5.");
        assert_eq!(text_of(&7.0, &conclusions), "7 is more than 1.");
        let mut document = Document::new("");
        conclude(&mut document, &0.0, &conclusions[..1]);
        assert!(document.blocks.is_empty());
    }

    #[test]
    fn lists_ranges_and_percents() {
        assert_eq!(listed(&["a".to_owned(), "b".to_owned(), "c".to_owned()]), "a, b and c");
        assert_eq!((listed(&["a".to_owned()]), listed(&[])), ("a".to_owned(), String::new()));
        assert_eq!(range([2.0, -1.0, 3.0]), (-1.0, 3.0));
        assert!((percent_off(90.0, 100.0) + 10.0).abs() < 1e-9);
    }
}
