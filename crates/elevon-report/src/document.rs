//! A report that is rendered as text or as an HTML page: headings, paragraphs, tables, figures
//! beside published ones, plots.
//!
//! Text is at most [`WIDTH`] columns wide, unless a table is wider. Only the page has plots.

use std::fmt::Write as _;

use comfy_table::CellAlignment;
use maud::{Markup, html};

use crate::html;
use crate::markup::text;
use crate::plot::{HeatMap, Plot};
use crate::text::{Figure, align_right, difference, figures, plain_table, push_table, shown};
use crate::wrap::wrap_at;

/// Columns at which paragraphs and commands are wrapped.
pub const WIDTH: usize = 100;

/// A report.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Title.
    pub title: String,
    /// Content, in order.
    pub blocks: Vec<Block>,
}

/// A part of a [`Document`].
#[derive(Clone, Debug)]
pub enum Block {
    /// Heading of a section.
    Heading(String),
    /// Text of a paragraph.
    Paragraph(String),
    /// A command line that reproduces a run.
    Command(String),
    /// A table.
    Table(Table),
    /// Measured figures beside the figures of others.
    Figures {
        /// Title of the figures.
        title: String,
        /// Source of the figures of others (`published`, `closed form`).
        expected: String,
        /// The rows.
        rows: Vec<Figure>,
    },
    /// A plot; the text report omits it.
    Plot(Plot),
    /// A heat map; the text report omits it.
    HeatMap(HeatMap),
}

impl Block {
    const fn is_drawing(&self) -> bool {
        matches!(self, Self::Plot(_) | Self::HeatMap(_))
    }
}

/// A table of words and numbers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Column heads; the first is the head of the row names.
    pub header: Vec<String>,
    /// Columns that hold words, which are aligned left. The first column always is.
    pub words: Vec<usize>,
    /// Rows; each has as many cells as the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows.
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { header: header.map(str::to_owned).to_vec(), ..Self::default() }
    }
    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) {
        debug_assert_eq!(N, self.header.len());
        self.rows.push(cells.map(str::to_owned).to_vec());
    }
}

impl Document {
    /// Creates an empty report.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), blocks: Vec::new() }
    }
    /// Adds a heading, which starts a section.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }
    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Paragraph(text.into()));
    }
    /// Adds a command line.
    pub fn command(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Command(text.into()));
    }
    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }
    /// Adds figures beside the figures of others; `expected` is their source.
    pub fn figures(&mut self, title: &str, expected: &str, rows: Vec<Figure>) {
        self.blocks.push(Block::Figures {
            title: title.to_owned(),
            expected: expected.to_owned(),
            rows,
        });
    }
    /// Adds a heat map.
    pub fn heat_map(&mut self, map: HeatMap) {
        self.blocks.push(Block::HeatMap(map));
    }
    /// Adds a plot.
    pub fn plot(&mut self, plot: Plot) {
        self.blocks.push(Block::Plot(plot));
    }

    /// Renders the report as text for a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}\n", self.title, "=".repeat(self.title.chars().count()));
        let mut was_command = false;
        for block in self.blocks.iter().filter(|block| !block.is_drawing()) {
            // There is no empty line between commands.
            let is_command = matches!(block, Block::Command(_));
            if !(was_command && is_command) {
                out.push('\n');
            }
            match block {
                Block::Heading(text) => {
                    let _ = writeln!(out, "{text}\n{}", "-".repeat(text.chars().count()));
                }
                Block::Paragraph(text) => wrap(&mut out, text.split_whitespace(), "", "", ""),
                Block::Command(text) => wrap(&mut out, options(text), "  $ ", "      ", " \\"),
                Block::Table(table) => text_table(&mut out, table),
                Block::Figures { title, expected, rows } => {
                    out.push_str(&figures(title, expected, rows));
                }
                Block::Plot(_) | Block::HeatMap(_) => unreachable!("left out above"),
            }
            was_command = is_command;
        }
        out
    }

    /// Renders the report as one self-contained HTML page. `note`, such as "simulated", is shown
    /// under the title.
    pub fn html(&self, note: &str) -> String {
        let are_plots = |a: &Block, b: &Block| a.is_drawing() && b.is_drawing();
        let drawings = self.blocks.iter().filter(|block| block.is_drawing()).enumerate();
        let mut figures = drawings.filter_map(|(at, block)| match block {
            Block::Plot(plot) => Some(plot.figure(&format!("plot{at}"))),
            Block::HeatMap(map) => Some(map.figure(&format!("plot{at}"))),
            _ => None,
        });
        let body = html! {
            header {
                h1 { (text(&self.title)) }
                p { span class="badge" { (text(note)) } }
            }
            "\n"
            @for part in self.blocks.chunk_by(are_plots) {
                @if part[0].is_drawing() {
                    div class="plots" {
                        "\n"
                        @for figure in figures.by_ref().take(part.len()) { (figure) }
                    }
                    "\n"
                } @else {
                    @for block in part { (html_block(block)) }
                }
            }
        };
        html::shell(&self.title, &body)
    }
}

fn html_block(block: &Block) -> Markup {
    match block {
        Block::Heading(words) => html! { h2 { (text(words)) } "\n" },
        Block::Paragraph(words) => html! { p { (text(words)) } "\n" },
        Block::Command(words) => html! { p { code { (text(words)) } } "\n" },
        Block::Table(table) => html_table(&table.header, &table.rows),
        Block::Figures { title, expected, rows } => {
            let header = [title, "unit", expected, "ours", "difference", ""].map(str::to_owned);
            html_table(&header, &rows.iter().map(cells).collect::<Vec<_>>())
        }
        Block::Plot(_) | Block::HeatMap(_) => unreachable!("drawings are grouped"),
    }
}

fn cells(row: &Figure) -> Vec<String> {
    let expected = row.expected.map_or_else(|| "-".into(), shown);
    vec![
        row.name.clone(),
        row.unit.clone(),
        expected,
        shown(row.ours),
        difference(row),
        row.note.clone(),
    ]
}

fn html_table(header: &[String], rows: &[Vec<String>]) -> Markup {
    let rows = html! { @for row in rows { (html::plain_row(&row[0], &row[1..])) } };
    html::table(None, header, &rows)
}

fn text_table(out: &mut String, table: &Table) {
    let mut drawn = plain_table();
    drawn.set_header(&table.header);
    for row in &table.rows {
        drawn.add_row(row);
    }
    align_right(&mut drawn);
    for &at in &table.words {
        if let Some(column) = drawn.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    push_table(out, &drawn);
}

/// Splits a command into the parts between which a line may end: an option stays with its value.
fn options(command: &str) -> impl Iterator<Item = &str> {
    let mut starts: Vec<usize> = vec![0];
    starts.extend(command.match_indices(" --").map(|(at, _)| at + 1));
    starts.push(command.len());
    let ranges: Vec<(usize, usize)> = starts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    ranges.into_iter().map(|(from, to)| command[from..to].trim_end())
}

/// Writes words on lines of [`WIDTH`] columns.
fn wrap<'a>(
    out: &mut String,
    words: impl Iterator<Item = &'a str>,
    first: &str,
    later: &str,
    carry: &str,
) {
    wrap_at(WIDTH, out, words, first, later, carry);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Mark, Scale, Series, Unit};

    fn sample() -> Document {
        let mut document = Document::new("title <of> it");
        document.heading("Part");
        document.paragraph("word ".repeat(30));
        document.command(
            "elevon run job.fio --device 'ufs-4.0:read_link=4640MB/s' --seed 1 --kernel 6.1 --set a=b --set c=d",
        );
        document.command("elevon devices");
        let mut table = Table { words: vec![1], ..Table::new(["name", "words", "number"]) };
        table.row(["a", "to the left", "1"]);
        table.row(["b", "x", "12345"]);
        document.table(table);
        let figure = |name: &str, expected, ours| Figure {
            name: name.into(),
            unit: "MB/s".into(),
            expected,
            ours,
            note: "n & m".into(),
        };
        document.figures(
            "figures",
            "published",
            vec![figure("a", Some(100.0), 95.0), figure("b", None, 1.0)],
        );
        let axis =
            |title: &str| Axis { title: title.into(), scale: Scale::Linear, unit: Unit::Count };
        document.plot(Plot {
            title: "plot".into(),
            description: "of it".into(),
            mark: Mark::Line,
            x: axis("x"),
            y: axis("y"),
            series: vec![Series { points: vec![(0.0, 1.0), (1.0, 2.0)], ..Series::default() }],
        });
        document
    }

    #[test]
    fn text_is_wrapped_and_has_no_plots() {
        let text = sample().text();
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH && line.trim_end() == line),
            "{text}"
        );
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_page_has_everything_once_and_escaped() {
        let page = sample().html("simulated");
        assert_eq!((page.matches("<table").count(), page.matches("<figure").count()), (3, 1));
        assert!(
            page.contains("title &lt;of&gt; it")
                && page.contains("n &amp; m")
                && !page.contains("<of>")
        );
        assert!(page.contains("-5.0 %") && page.contains("simulated"));
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    }
}
