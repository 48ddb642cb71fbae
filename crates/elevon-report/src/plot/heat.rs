//! A heat map: a value for each pair of two axes' values.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::{CHARACTER, Unit, WIDTH, escape};
use crate::html::text;

/// Height of a row of cells.
const ROW: f64 = 22.0;
/// Space below the cells for labels and title.
const BELOW: f64 = 40.0;
/// Maximum number of columns whose cells have room for their values.
const WITH_VALUES: usize = 8;

/// A heat map. Rows are drawn from the bottom up, as in a plot.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Heading.
    pub title: String,
    /// What the map shows, in one sentence.
    pub description: String,
    /// Title and labels of the columns.
    pub x: (String, Vec<String>),
    /// Title and labels of the rows.
    pub y: (String, Vec<String>),
    /// Values by row and column; `None` for a pair without one.
    pub cells: Vec<Vec<Option<f64>>>,
    /// The unit of the values.
    pub unit: Unit,
}

impl HeatMap {
    /// Returns the map with heading and its values as a table that unfolds. `id` must be unique on
    /// the page.
    pub(crate) fn figure(&self, id: &str) -> Markup {
        html! {
            figure class="plot" {
                figcaption { h3 { (text(&self.title)) } p { (text(&self.description)) } }
                (PreEscaped(self.svg(id)))
                details { summary { "Numbers" } (self.table()) }
            }
        }
    }

    fn svg(&self, id: &str) -> String {
        let longest = self.y.1.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let left = 22.0 + longest as f64 * CHARACTER + 6.0;
        let columns = self.x.1.len().max(1);
        let width = (WIDTH - left - 8.0) / columns as f64;
        let bottom = 6.0 + ROW * self.y.1.len() as f64;
        let height = bottom + BELOW;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
             <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            escape(&self.title),
            escape(&self.description)
        );
        let (least, most) = self.ends();
        for (row, cells) in self.cells.iter().enumerate() {
            let y = bottom - ROW * (row + 1) as f64;
            for (column, value) in cells.iter().enumerate() {
                let Some(value) = value else { continue };
                let x = left + width * column as f64;
                // The smallest value is faint and not invisible.
                let share = if most > least { (value - least) / (most - least) } else { 1.0 };
                let _ = write!(
                    out,
                    "<rect class=\"fill k0\" fill-opacity=\"{:.2}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    0.08 + 0.72 * share,
                    width - 1.0,
                    ROW - 1.0
                );
                if columns <= WITH_VALUES {
                    let middle = (x + width / 2.0, y + ROW / 2.0 + 4.0);
                    label(&mut out, middle, "middle", &self.unit.exact(*value));
                }
            }
            label(&mut out, (left - 6.0, y + ROW / 2.0 + 4.0), "end", &self.y.1[row]);
        }
        // Labels that would overlap are left out.
        let longest = self.x.1.iter().map(|label| label.chars().count()).max().unwrap_or(1);
        let every = ((longest + 1) as f64 * CHARACTER / width).ceil().max(1.0) as usize;
        for (column, name) in self.x.1.iter().enumerate().step_by(every) {
            label(&mut out, (left + width * (column as f64 + 0.5), bottom + 16.0), "middle", name);
        }
        label(&mut out, ((left + WIDTH) / 2.0, height - 4.0), "middle", &self.x.0);
        let _ = write!(
            out,
            "<text transform=\"translate(12 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text></svg>",
            bottom / 2.0,
            escape(&self.y.0)
        );
        out
    }

    /// Returns the smallest and the largest value.
    fn ends(&self) -> (f64, f64) {
        let values = self.cells.iter().flatten().flatten();
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &value| (least.min(value), most.max(value)))
    }

    fn table(&self) -> Markup {
        let shown = |value: &Option<f64>| value.map_or_else(String::new, |value| self.unit.exact(value));
        html! {
            div class="scroll" {
                table {
                    thead { tr { th { (text(&self.y.0)) } @for name in &self.x.1 { th { (text(name)) } } } }
                    tbody {
                        @for (name, cells) in self.y.1.iter().zip(&self.cells) {
                            tr { th { (text(name)) } @for value in cells { td { (text(&shown(value))) } } }
                        }
                    }
                }
            }
        }
    }
}

fn label(out: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(words));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> HeatMap {
        HeatMap {
            title: "a < b".to_owned(),
            description: "a map".to_owned(),
            x: ("iodepth".to_owned(), vec!["1".to_owned(), "2".to_owned()]),
            y: ("bs".to_owned(), vec!["4k".to_owned(), "8k".to_owned()]),
            cells: vec![vec![Some(1.0), Some(3.0)], vec![None, Some(2.0)]],
            unit: Unit::Count,
        }
    }

    #[test]
    fn a_cell_is_as_dark_as_its_value_is_large() {
        let svg = map().svg("m");
        let opacity: Vec<&str> =
            svg.split("fill-opacity=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(opacity, ["0.08", "0.80", "0.44"], "none for the pair without a value");
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>"));
    }

    #[test]
    fn equal_values_are_drawn() {
        let svg = HeatMap { cells: vec![vec![Some(5.0), Some(5.0)], vec![]], ..map() }.svg("m");
        assert_eq!(svg.matches("fill-opacity=\"0.80\"").count(), 2);
    }
}
