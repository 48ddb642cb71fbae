//! The heat map of latency over time.

use elevon_result::number;
use elevon_watch::{DiskNow, HEAT_ROWS, heat_floor};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Columns of the latency's scale.
const SCALE: u16 = 8;

/// Marks of the heat map from few requests to many, with their colours in the palette of 256: from
/// dark blue over green to yellow, as viridis has it.
const HEAT: [(char, u8); 7] =
    [('.', 54), (':', 61), ('-', 31), ('=', 36), ('+', 71), ('*', 148), ('#', 226)];

/// Draws requests by latency over the last seconds, the newest at the right. The second that is
/// looked at, if one is, has so many after it.
pub(super) fn draw(frame: &mut Frame<'_>, disk: &DiskNow, zoom: Option<usize>, area: Rect) {
    let width = usize::from(area.width.saturating_sub(SCALE + 1));
    let skipped = disk.heat.len().saturating_sub(width);
    let seconds = &disk.heat[skipped..];
    let used = |row: &usize| seconds.iter().any(|counts| counts[*row] > 0);
    let lines = usize::from(area.height.saturating_sub(1));
    let (first, last) = match ((0..HEAT_ROWS).find(used), (0..HEAT_ROWS).rev().find(used)) {
        (Some(first), Some(last)) => (first, last),
        _ => (0, 0),
    };
    // Several rows share a line if there are more of them.
    let per_line = (last + 1 - first).div_ceil(lines.max(1)).max(1);
    let most = seconds.iter().flatten().copied().max().unwrap_or(0).max(1);
    let marks: String = HEAT.iter().map(|(mark, _)| *mark).collect();
    let mut all =
        vec![Line::from(format!("latency of requests by second; {marks} is 1 to {most}",))];
    for line in (0..lines).rev() {
        let from = first + line * per_line;
        if from > last {
            continue;
        }
        let label = format!("{:>7} ", number::span(heat_floor(from) as f64));
        let mut spans = vec![Span::from(label)];
        let looked_at = zoom.and_then(|back| seconds.len().checked_sub(back + 1));
        for (at, counts) in seconds.iter().enumerate() {
            let count: u64 = counts[from..HEAT_ROWS.min(from + per_line)].iter().sum();
            let span = mark(count, most);
            spans.push(if looked_at == Some(at) { span.reversed() } else { span });
        }
        all.push(Line::from(spans));
    }
    frame.render_widget(Paragraph::new(all), area);
}

/// Returns the mark of a number of requests, by its logarithm.
fn mark(count: u64, most: u64) -> Span<'static> {
    if count == 0 {
        return Span::from(" ");
    }
    let part = libm::log1p(count as f64) / libm::log1p(most as f64);
    let at = ((part * HEAT.len() as f64) as usize).min(HEAT.len() - 1);
    let (mark, colour) = HEAT[at];
    Span::styled(mark.to_string(), Style::new().fg(Color::Indexed(colour)))
}
