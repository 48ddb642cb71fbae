//! Plots as one SVG file, for a page that is not HTML.

use std::fmt::Write as _;

use super::{CHARACTER, CSS, HEIGHT, Mark, Plot, WIDTH, colour_class};
use crate::markup::escape;

/// Colours of text, which the page around an SVG file cannot give.
const STYLE: &str = "svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}";
/// Height of a heading or of a line of the legend.
const ROW: f64 = 20.0;
/// Size of a unit of the drawing on a page, in CSS pixels.
const SCALE: f64 = 1.2;
/// Width of a colour's sample in the legend.
const SAMPLE: f64 = 32.0;

/// Returns an SVG file with plots side by side, each below its title. Below them is one legend: the
/// series of the first plot. The other plots have the same series in the same colours.
///
/// # Panics
/// If there is no plot.
pub fn picture(plots: &[Plot]) -> String {
    let width = WIDTH * plots.len() as f64;
    let (legend, rows) = legend(&plots[0], width);
    let height = ROW * (rows + 1) as f64 + HEIGHT;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{}\" \
         role=\"img\"><style>{STYLE}{CSS}svg .heading{{font-weight:600}}</style>",
        width * SCALE
    );
    for (slot, plot) in plots.iter().enumerate() {
        let left = WIDTH * slot as f64;
        let drawing = plot.draw(&format!("plot{slot}")).0;
        let drawing = drawing.strip_prefix("<svg ").expect("a drawing is one svg element");
        let _ = write!(
            out,
            "\n<text class=\"heading\" x=\"{:.1}\" y=\"14\" text-anchor=\"middle\">{}</text>\
             <svg x=\"{left}\" y=\"{ROW}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" {drawing}",
            left + WIDTH / 2.0,
            escape(&plot.title),
        );
    }
    let _ = write!(out, "\n<g transform=\"translate(0 {})\">{legend}</g></svg>\n", ROW + HEIGHT);
    out
}

/// Returns the legend of a plot, and its number of lines.
fn legend(plot: &Plot, width: f64) -> (String, usize) {
    let mut out = String::new();
    let (mut x, mut row) = (8.0, 0);
    for series in &plot.series {
        let needs = (series.name.chars().count() as f64).mul_add(CHARACTER, SAMPLE + 16.0);
        if x + needs > width && x > 8.0 {
            (x, row) = (8.0, row + 1);
        }
        let class = colour_class(series.colour);
        let y = (row as f64).mul_add(ROW, 9.0);
        let _ = match plot.mark {
            Mark::Bars | Mark::Points => {
                write!(
                    out,
                    "<circle class=\"fill {class}\" cx=\"{:.1}\" cy=\"{y}\" r=\"4\"/>",
                    x + 12.0
                )
            }
            _ => write!(out, "<path class=\"line ink {class}\" d=\"M{x:.1} {y}h24\"/>"),
        };
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + SAMPLE,
            y + 3.8,
            escape(&series.name)
        );
        x += needs;
    }
    (out, row + 1)
}
