//! Plots as SVG inside HTML: lines, steps, bars and points, with round ticks that never overlap.
//!
//! A plot is a value; drawing it is a pure function. Colours are CSS variables (see `CSS`), so
//! one drawing serves light and dark mode. The drawing is 400 units wide, so that its text is
//! readable on a phone and not too large on a wide screen.
//!
//! The HTML around a drawing is a `maud` template. The drawing itself is written as text, because
//! `maud` cannot close an SVG element within its tag. Every string in it is escaped by
//! `markup::escape`.

mod axis;
mod coincide;
pub(crate) mod colours;
mod heat;
mod picture;

use std::fmt::Write as _;

use axis::Ticks;
pub use axis::{Axis, Scale, Unit};
pub use heat::HeatMap;
use maud::{Markup, PreEscaped, html};
pub use picture::picture;

use crate::markup::{escape, text};

/// How a plot's values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line connects the points.
    Line,
    /// A line connects the points, each with a dot and the interval around it.
    Curve,
    /// A level holds until the next point.
    Step,
    /// The level of a point holds from the previous point on.
    StepBefore,
    /// Bars side by side, one slot for each x. The x values are categories, not positions.
    Bars,
    /// A dot for each point, with its label beside it.
    Points,
}

/// The colour of a line that is no value: an upright line at an event.
pub(crate) const NEUTRAL: usize = usize::MAX;

/// The points of one variant.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Colour: 0 to 7, or `usize::MAX` for grey. A number stands for the same variant in every plot
    /// of a page.
    pub colour: usize,
    /// Points, in ascending order of x, except for [`Mark::Points`].
    pub points: Vec<(f64, f64)>,
    /// A label for each point, or empty.
    pub labels: Vec<String>,
    /// Half of the interval around each point's y, in its unit, for [`Mark::Curve`] and
    /// [`Mark::Points`]; 0 is none. Empty if no point has one.
    pub half_widths: Vec<f64>,
    /// A line connects the dots of [`Mark::Points`].
    pub is_joined: bool,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Heading.
    pub title: String,
    /// What the plot shows, in one sentence.
    pub description: String,
    /// How the values are drawn.
    pub mark: Mark,
    /// The axis along the bottom.
    pub x: Axis,
    /// The axis up the left side.
    pub y: Axis,
    /// The series to draw.
    pub series: Vec<Series>,
}

/// Style sheet of plots: colours and shapes. The eight colours can be told apart by colour-blind
/// readers; dashes distinguish lines without any colour.
pub(crate) const CSS: &str = "\
:root{--c0:#0b62c4;--c1:#c2500a;--c2:#0f7d52;--c3:#9a35a6;--c4:#b3262e;--c5:#6b6400;--c6:#007583;--c7:#5f46c9;--grid:#e3e5e8;--axis:#868d96}
@media(prefers-color-scheme:dark){:root{--c0:#6cb2ff;--c1:#ffa15c;--c2:#4fd19a;--c3:#e08be8;--c4:#ff8087;--c5:#d8cf55;--c6:#4fd3e0;--c7:#ac9bff;--grid:#2b3138;--axis:#7d8792}}
figure{margin:0}
figure svg{display:block;width:100%;height:auto;overflow:visible}
figure .note{font-size:.85rem;margin:.1rem 0 .3rem}
svg text{font:11px system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif;fill:currentColor}
@media(max-width:560px){svg text{font-size:12px}}
svg .grid{stroke:var(--grid);stroke-width:1}
svg .axis{stroke:var(--axis);stroke-width:1}
svg .line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
svg .interval{fill:none;stroke-width:1}
.k0{color:var(--c0)}.k1{color:var(--c1)}.k2{color:var(--c2)}.k3{color:var(--c3)}.k4{color:var(--c4)}.k5{color:var(--c5)}.k6{color:var(--c6)}.k7{color:var(--c7)}
svg .line.k1{stroke-dasharray:7 3}svg .line.k2{stroke-dasharray:2 3}svg .line.k3{stroke-dasharray:8 3 2 3}
svg .line.k8{stroke-width:1}
svg .line.k5{stroke-dasharray:7 3}svg .line.k6{stroke-dasharray:2 3}svg .line.k7{stroke-dasharray:8 3 2 3}
svg .ink{stroke:currentColor}svg .fill{fill:currentColor}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;margin:.3rem 0;padding:0;font-size:.85rem}
.legend li{display:flex;align-items:baseline}
.legend svg{flex:none;display:inline-block;width:26px;height:10px;margin-right:.35rem;vertical-align:middle}
.legend span{color:var(--text,inherit)}
";

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 250.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 42.0;
/// Characters of a dot's label for which there is room right of the axes.
const LABEL: usize = 10;
/// Space left of the y labels for the axis title.
const TITLE_ROOM: f64 = 22.0;
/// Upper bound of a character's width at the larger of the two text sizes (that of narrow screens).
const CHARACTER: f64 = 6.9;
/// Maximum number of rows in a plot's table; longer series are thinned.
const TABLE_ROWS: usize = 40;

impl Plot {
    /// Returns the plot with heading, legend and its values as a table that unfolds. `id` must be
    /// unique on the page.
    pub(crate) fn figure(&self, id: &str) -> Markup {
        let (svg, coinciding) = self.draw(id);
        html! {
            figure class="plot" {
                figcaption { h3 { (text(&self.title)) } p { (text(&self.description)) } }
                @if self.series.len() > 1 { (self.legend()) }
                @if !coinciding.is_empty() { p class="note" { (text(&coinciding)) } }
                (PreEscaped(svg))
                details { summary { "Numbers" } (self.table()) }
            }
        }
    }

    fn legend(&self) -> Markup {
        let swatch = |class: String| match self.mark {
            Mark::Line | Mark::Curve | Mark::Step | Mark::StepBefore => {
                format!("<path class=\"line ink {class}\" d=\"M1 5H25\"/>")
            }
            Mark::Bars => {
                format!("<rect class=\"fill {class}\" x=\"8\" width=\"10\" height=\"10\"/>")
            }
            Mark::Points => format!("<circle class=\"fill {class}\" cx=\"13\" cy=\"5\" r=\"4\"/>"),
        };
        html! {
            ul class="legend" {
                @for series in &self.series {
                    li {
                        svg viewBox="0 0 26 10" aria-hidden="true" {
                            (PreEscaped(swatch(colour_class(series.colour))))
                        }
                        span { (text(&series.name)) }
                    }
                }
            }
        }
    }

    /// Returns the drawing as an SVG file, with its own style sheet.
    pub fn svg_file(&self) -> String {
        const STYLE: &str =
            "svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}";
        let drawing = self.draw("plot").0;
        let inside = drawing.strip_prefix("<svg ").and_then(|rest| rest.split_once('>'));
        let (attributes, content) = inside.expect("a drawing is one svg element");
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" {attributes}><style>{STYLE}{CSS}</style>{content}\n"
        )
    }

    /// Returns the drawing alone.
    #[cfg(test)]
    fn svg(&self, id: &str) -> String {
        self.draw(id).0
    }

    /// Returns the drawing, and the note about curves that coincide.
    fn draw(&self, id: &str) -> (String, String) {
        let categories = self.categories();
        let points = || self.series.iter().flat_map(|s| s.points.iter());
        let plot_height = HEIGHT - TOP - BOTTOM;
        let tops = self
            .series
            .iter()
            .flat_map(|s| s.points.iter().zip(&s.half_widths).map(|(p, half)| p.1 + half));
        let y_ticks =
            Ticks::new(&self.y, points().map(|p| p.1).chain(tops), plot_height, 18.0, true);
        let label_width =
            y_ticks.labels().map(|l| l.chars().count()).max().unwrap_or(1) as f64 * CHARACTER;
        let left = TITLE_ROOM + label_width + 6.0;
        let plot_width = WIDTH - left - self.right_room();
        let x_ticks = match self.mark {
            Mark::Bars => Ticks::categories(&self.x, &categories, plot_width),
            Mark::Curve => Ticks::at_values(&self.x, &categories, plot_width, CHARACTER),
            Mark::Line | Mark::Step | Mark::StepBefore | Mark::Points => {
                Ticks::new(&self.x, points().map(|p| p.0), plot_width, CHARACTER, false)
            }
        };
        let frame = Frame { left, plot_width, plot_height, x: &x_ticks, y: &y_ticks };
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
             <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            escape(&self.title),
            escape(&self.description)
        );
        frame.axes(&mut out);
        let groups = coincide::groups(self, |x, y| frame.at(x, y));
        for (slot, series) in self.series.iter().enumerate() {
            let style = coincide::style(&groups, slot);
            match self.mark {
                Mark::Line | Mark::Step | Mark::StepBefore => {
                    frame.line(&mut out, series, self.mark, &style);
                }
                Mark::Curve => {
                    frame.line(&mut out, series, self.mark, &style);
                    frame.intervals(&mut out, series);
                }
                Mark::Bars => frame.bars(&mut out, series, &categories, slot, self.series.len()),
                Mark::Points => {
                    if series.is_joined {
                        frame.line(&mut out, series, self.mark, &style);
                    }
                    if !series.half_widths.is_empty() {
                        frame.intervals(&mut out, series);
                    }
                    frame.dots(&mut out, series);
                }
            }
        }
        if self.mark == Mark::Points {
            frame.names(&mut out, &self.series);
        }
        (out + "</svg>", coincide::note(&groups, &self.series))
    }

    /// Returns the space right of the axes: labels of dots at the right edge go there, unless they
    /// are long.
    fn right_room(&self) -> f64 {
        let labels = self
            .series
            .iter()
            .flat_map(|series| &series.labels)
            .filter(|_| self.mark == Mark::Points);
        let longest = labels.map(|label| label.chars().count()).max().unwrap_or(0);
        RIGHT.max((longest.min(LABEL) as f64).mul_add(CHARACTER, 8.0))
    }

    /// Returns every x of any series, in ascending order.
    fn categories(&self) -> Vec<f64> {
        let mut all: Vec<f64> =
            self.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    /// Returns the values of the plot as an HTML table.
    fn table(&self) -> Markup {
        let name = |series: &Series, at: usize| match series.labels.get(at) {
            Some(label) => format!("{}: {label}", series.name),
            None => series.name.clone(),
        };
        let half = |series: &Series, at: usize| match series.half_widths.get(at) {
            Some(half) if *half > 0.0 => format!(" ± {}", self.y.unit.exact(*half)),
            _ => String::new(),
        };
        let step = |series: &Series| series.points.len().div_ceil(TABLE_ROWS).max(1);
        let thinned = |series: &&Series| step(series) > 1;
        html! {
            @for series in self.series.iter().filter(thinned) {
                p class="soft" { (text(&format!("{}: one in {} of {} points.", series.name, step(series), series.points.len()))) }
            }
            div class="scroll" {
                table {
                    thead { tr { th { "series" } th { (text(&self.x.title)) } th { (text(&self.y.title)) } } }
                    tbody {
                        @for series in &self.series {
                            @for (at, (x, y)) in series.points.iter().enumerate().step_by(step(series)) {
                                tr {
                                    th { (text(&name(series, at))) }
                                    td { (text(&self.x.unit.exact(*x))) }
                                    td { (text(&self.y.unit.exact(*y))) (half(series, at)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn colour_class(colour: usize) -> String {
    if colour == NEUTRAL { "k8".to_owned() } else { format!("k{}", colour % 8) }
}

/// Maps a plot's values to positions in its drawing.
struct Frame<'a> {
    left: f64,
    plot_width: f64,
    plot_height: f64,
    x: &'a Ticks,
    y: &'a Ticks,
}

impl Frame<'_> {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (
            self.left + self.x.fraction(x) * self.plot_width,
            TOP + (1.0 - self.y.fraction(y)) * self.plot_height,
        )
    }

    fn axes(&self, out: &mut String) {
        let (right, bottom) = (self.left + self.plot_width, TOP + self.plot_height);
        for (fraction, label) in self.y.iter() {
            let y = bottom - fraction * self.plot_height;
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{:.1} {y:.1}H{right:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                self.left,
                self.left - 6.0,
                y + 3.8,
                escape(label)
            );
        }
        for (fraction, label) in self.x.iter() {
            let x = self.left + fraction * self.plot_width;
            let _ = write!(
                out,
                "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                escape(label)
            );
        }
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{:.1} {bottom:.1}H{right:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(12 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            self.left,
            (self.left + right) / 2.0,
            HEIGHT - 6.0,
            escape(self.x.title()),
            TOP + self.plot_height / 2.0,
            escape(self.y.title())
        );
    }

    fn line(&self, out: &mut String, series: &Series, mark: Mark, style: &str) {
        let mut path = String::new();
        for (at, &(x, y)) in series.points.iter().enumerate() {
            let (px, py) = self.at(x, y);
            let _ = match (at, mark) {
                (0, _) => write!(path, "M{px:.1} {py:.1}"),
                (_, Mark::Step) => write!(path, "H{px:.1}V{py:.1}"),
                (_, Mark::StepBefore) => write!(path, "V{py:.1}H{px:.1}"),
                _ => write!(path, "L{px:.1} {py:.1}"),
            };
        }
        if let [(x, y)] = series.points[..] {
            // A line through a single point is invisible, so a dot is drawn.
            let (px, py) = self.at(x, y);
            let class = colour_class(series.colour);
            let _ = write!(
                out,
                "<circle class=\"fill {class}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\"/>"
            );
        } else if !path.is_empty() {
            let _ = write!(
                out,
                "<path class=\"line ink {}\"{style} d=\"{path}\"/>",
                colour_class(series.colour)
            );
        }
    }

    /// Draws a dot for each point, and the interval around it.
    fn intervals(&self, out: &mut String, series: &Series) {
        let class = colour_class(series.colour);
        for (at, &(x, y)) in series.points.iter().enumerate() {
            let (px, py) = self.at(x, y);
            let half = series.half_widths.get(at).copied().unwrap_or(0.0);
            if half > 0.0 {
                let (low, high) = (self.at(x, y - half).1, self.at(x, y + half).1);
                let left = px - 3.0;
                let _ = write!(
                    out,
                    "<path class=\"interval ink {class}\" d=\"M{left:.1} {low:.1}h6M{px:.1} {low:.1}V{high:.1}M{left:.1} {high:.1}h6\"/>"
                );
            }
            let _ = write!(
                out,
                "<circle class=\"fill {class}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"2.5\"/>"
            );
        }
    }

    fn bars(
        &self,
        out: &mut String,
        series: &Series,
        categories: &[f64],
        slot: usize,
        slots: usize,
    ) {
        let room = self.plot_width / categories.len().max(1) as f64;
        let width = (room * 0.8 / slots as f64).min(26.0);
        let bottom = TOP + self.plot_height;
        for &(x, y) in &series.points {
            let Some(category) = categories.iter().position(|&c| c == x) else { continue };
            let centre = self.left + (category as f64 + 0.5) * room;
            let start = centre + (slot as f64 - slots as f64 / 2.0) * width;
            let height = self.y.fraction(y) * self.plot_height;
            let _ = write!(
                out,
                "<rect class=\"fill {}\" x=\"{start:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                colour_class(series.colour),
                bottom - height,
                (width - 1.0).max(1.0)
            );
        }
    }

    fn dots(&self, out: &mut String, series: &Series) {
        for (at, &(x, y)) in series.points.iter().enumerate() {
            let (px, py) = self.at(x, y);
            let label = escape(series.labels.get(at).map_or("", String::as_str));
            let class = colour_class(series.colour);
            let _ = write!(
                out,
                "<circle class=\"fill {class}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"4\"><title>{label}</title></circle>"
            );
        }
    }

    /// Draws the labels of dots. Dots that touch share one label. Each label is right or left of
    /// its dot, as near to it as it can be without covering a dot or a label that was drawn before.
    /// Those on the right are drawn first: they have the least room.
    fn names(&self, out: &mut String, series: &[Series]) {
        let mut names: Vec<(f64, f64, String)> = Vec::new();
        let dots =
            Vec::from_iter(series.iter().flat_map(|one| &one.points).map(|&(x, y)| self.at(x, y)));
        let labelled = |series: &'_ Series| {
            Vec::from_iter(series.points.iter().copied().zip(series.labels.clone()))
        };
        for ((x, y), label) in
            series.iter().flat_map(labelled).filter(|(_, label)| !label.is_empty())
        {
            let (px, py) = self.at(x, y);
            match names
                .iter_mut()
                .find(|(nx, ny, _)| (px - nx).abs() < 8.0 && (py - ny).abs() < 8.0)
            {
                Some((_, _, name)) => *name = format!("{name}, {label}"),
                None => names.push((px, py, label)),
            }
        }
        names.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut set: Vec<(f64, f64, f64)> = Vec::new();
        for (px, py, name) in names {
            let name = cut_to_fit(name, (WIDTH - px).max(px - self.left) - 7.0);
            let width = name.chars().count() as f64 * CHARACTER;
            let is_free = |from: f64, y: f64| {
                let (to, covers) = (from + width, |l: f64, r: f64| from < r && from + width > l);
                let covers_dot = dots
                    .iter()
                    .any(|(x, at)| covers(x - 5.0, x + 5.0) && (y - 3.5 - at).abs() < 9.0);
                let covers_label =
                    set.iter().any(|(l, r, at)| covers(*l, *r) && (y - at).abs() < 11.0);
                from >= self.left && to <= WIDTH && !covers_dot && !covers_label
            };
            let rows = [3.5, -7.5, 14.5, -18.5, 25.5, -29.5, 36.5].map(|below| py + below);
            let places = rows
                .into_iter()
                .flat_map(|y| [(px + 7.0, y, "start"), (px - 7.0 - width, y, "end")]);
            let free = places.clone().find(|(from, y, _)| is_free(*from, *y));
            let (from, y, anchor) = free.or_else(|| places.clone().next()).expect("there are rows");
            set.push((from, from + width, y));
            let x = if anchor == "end" { from + width } else { from };
            let _ = write!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                escape(&name)
            );
        }
    }
}

/// Cuts a dot's label to `room` units of the drawing. The table of the plot has the whole label.
fn cut_to_fit(label: String, room: f64) -> String {
    let most = (room / CHARACTER) as usize;
    if label.chars().count() <= most {
        return label;
    }
    label.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
