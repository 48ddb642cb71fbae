//! The screen of `elevon watch`: disks, who uses the chosen one, its latency over time, and what
//! is wrong.

use elevon_plan::failure::printable;
use elevon_result::number;
use elevon_watch::text::{finding_lines, flow_line, headline, latency_line, rate, sampled, span};
use elevon_watch::{DiskNow, GroupBy, RowNow};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState};

use super::heat;
use super::screen::{Over, Screen};

/// Lines of the heat map, its title included.
const HEAT_LINES: u16 = 8;
/// Lines for problems.
const FINDING_LINES: u16 = 5;
/// The fewest lines of the heat map, and the most rows that may keep it from the screen.
const LEAST_HEAT: u16 = 4;
const MOST_ROWS: u16 = 12;
/// The keys, and what they do.
const KEYS: [(&str, &str); 15] = [
    ("q", "end"),
    ("Tab", "next disk (Shift-Tab: the one before)"),
    ("Up Down", "choose a row"),
    ("Enter", "the longest single requests of the row"),
    ("z", "zoom into a second; Left, Right: before, after; Esc: leave"),
    ("s", "sort by the next column"),
    ("g", "rows by process, or by service, container or pod"),
    ("i", "interval of 1, 10 or 60 seconds"),
    ("/", "show rows with a text only (Enter: done, Esc: all)"),
    ("p", "pause, go on"),
    ("f", "the problems with evidence and what to try"),
    ("w", "what if: replay the last minutes under other settings"),
    ("S", "save the last minutes as a trace"),
    ("?", "these keys"),
    ("", "waits: from queue to issue. device: from there to completion"),
];

/// Columns of the table of rows: head and width. The first takes what is left.
const COLUMNS: [(&str, u16); 12] = [
    ("process", 0),
    ("reads/s", 7),
    ("writes/s", 8),
    ("read/s", 7),
    ("write/s", 7),
    ("wait p50", 8),
    ("wait p99", 8),
    ("dev p50", 7),
    ("dev p99", 7),
    ("depth", 5),
    ("prio", 5),
    ("in", 16),
];
/// Columns in the order in which they give way where the terminal is too narrow.
const GIVE_WAY: [usize; 11] = [11, 5, 7, 10, 9, 2, 1, 6, 8, 3, 4];
/// Likewise of the table of disks.
const DISK_COLUMNS: [(&str, u16); 8] = [
    ("disk", 0),
    ("busy %", 6),
    ("%util", 6),
    ("reads/s", 8),
    ("writes/s", 8),
    ("read/s", 8),
    ("write/s", 8),
    ("depth", 6),
];
const DISKS_GIVE_WAY: [usize; 7] = [2, 7, 3, 4, 5, 6, 1];
/// The least width of a name.
const NAME: u16 = 14;

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let area = frame.area();
    let Some(disk) = screen.chosen() else {
        let words = if screen.now.at == 0 { "waiting for the first second" } else { "no disk" };
        frame.render_widget(Paragraph::new(words), area);
        return;
    };
    let disks = (screen.now.disks.len() as u16 + 1).min(area.height / 4).max(2);
    let findings = (disk.findings.len() as u16 * 2).clamp(1, FINDING_LINES);
    let list = if screen.now.disks.len() > 1 { disks } else { 0 };
    // Few rows leave room for the heat map in a small terminal, too.
    let rows = u16::try_from(screen.rows().len()).unwrap_or(u16::MAX).min(MOST_ROWS);
    let room = area.height.saturating_sub(1 + list + 3 + findings + 1 + rows);
    let has_heat = room >= LEAST_HEAT;
    let parts = [
        Constraint::Length(1),
        Constraint::Length(list),
        Constraint::Length(3),
        Constraint::Length(findings),
        Constraint::Length(if has_heat { room.min(HEAT_LINES) } else { 0 }),
        Constraint::Min(2),
    ];
    let [head, disks, about, problems, heat, rows] = Layout::vertical(parts).areas(area);
    frame.render_widget(title(screen), head);
    draw_disks(frame, screen, disks);
    let lines = [headline(disk), flow_line(disk), latency_line(disk)];
    let lines = lines.map(|line| Line::from(printable(&line).into_owned()));
    frame.render_widget(Paragraph::new(lines.to_vec()), about);
    frame.render_widget(findings_of(disk, screen.now.at, area.width), problems);
    if has_heat {
        heat::draw(frame, disk, screen.zoom, heat);
    }
    draw_rows(frame, screen, rows);
    match &screen.over {
        Over::Nothing => {}
        Over::Keys => draw_over(frame, "keys", &keys(), screen.scrolled),
        Over::Findings => {
            draw_over(frame, "problems", &evidence(disk, screen.now.at), screen.scrolled);
        }
        Over::Words(title, lines) => draw_over(frame, title, lines, screen.scrolled),
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn title(screen: &Screen) -> Line<'static> {
    let time = screen.zoom.map_or_else(
        || format!("{} s", screen.seconds),
        |back| format!("the second {} s ago", back + 1),
    );
    let mut words = format!("elevon watch: {time}, sorted by {}", screen.sort.name());
    if screen.is_paused {
        words.push_str(", paused");
    }
    if screen.is_typing || !screen.filter.is_empty() {
        words.push_str(&format!(", rows with {:?}", screen.filter));
    }
    if screen.now.lost > 0 {
        words.push_str(&format!(
            ", {} lost: figures are too small",
            number::counted(screen.now.lost, "event")
        ));
    }
    if sampled(&screen.now).is_some() {
        words.push_str(&format!(", follows {} %", number::percent(screen.now.followed, 1)));
    }
    words.push_str("   ? keys, q ends");
    Line::from(printable(&words).into_owned()).style(bold())
}

fn draw_disks(frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
    if area.height == 0 {
        return;
    }
    let columns = columns(&DISK_COLUMNS, &DISKS_GIVE_WAY, area.width);
    let row = |disk: &DiskNow| {
        let util = disk.kernel_util.map_or_else(|| "-".to_owned(), |util| number::percent(util, 1));
        let mark = if disk.findings.is_empty() { "" } else { " !" };
        let texts = [
            format!("{}{mark}", printable(&disk.name)),
            number::percent(disk.busy, 1),
            util,
            rate(disk.read.requests),
            rate(disk.write.requests),
            number::bytes_decimal(disk.read.bytes),
            number::bytes_decimal(disk.write.bytes),
            format!("{:.1}", disk.depth),
        ];
        let cell = |&at: &usize| match at {
            0 => Cell::from(texts[0].clone()),
            _ => right(texts[at].clone()),
        };
        Row::new(columns.iter().map(cell).collect::<Vec<_>>())
    };
    let (shown, all) = (usize::from(area.height - 1), screen.now.disks.len());
    let head = columns.iter().map(|&at| match at {
        0 if shown < all => Cell::from(format!("disk ({shown} of {all})")),
        0 => Cell::from(DISK_COLUMNS[0].0),
        _ => right(DISK_COLUMNS[at].0.to_owned()),
    });
    let widths = columns.iter().map(|&at| match at {
        0 => Constraint::Min(NAME),
        _ => Constraint::Length(DISK_COLUMNS[at].1),
    });
    let table = Table::new(screen.now.disks.iter().map(row), widths)
        .header(Row::new(head.collect::<Vec<_>>()).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(screen.disk));
    frame.render_stateful_widget(table, area, &mut state);
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// Returns the columns for which there is room: a figure whose first digits are cut would be wrong.
fn columns(all: &[(&str, u16)], give_way: &[usize], room: u16) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..all.len()).collect();
    for &least in give_way {
        let width: u16 =
            columns.iter().map(|&at| all[at].1.max(if at == 0 { NAME } else { 0 }) + 1).sum();
        if width <= room + 1 {
            break;
        }
        columns.retain(|&at| at != least);
    }
    columns
}

fn draw_rows(frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
    let columns = columns(&COLUMNS, &GIVE_WAY, area.width);
    let is_text = |at: usize| matches!(at, 0 | 10 | 11);
    let cell = |at: usize, text: String| {
        let text = printable(&text).into_owned();
        if is_text(at) { Cell::from(text) } else { right(text) }
    };
    let row = |row: &&RowNow| {
        let texts = texts(row);
        Row::new(columns.iter().map(|&at| cell(at, texts[at].clone())).collect::<Vec<_>>())
    };
    let head = columns.iter().map(|&at| {
        let name = match (at, screen.by) {
            (0, GroupBy::Unit) => "service, container or pod",
            _ => COLUMNS[at].0,
        };
        cell(at, name.to_owned())
    });
    let widths = columns.iter().map(|&at| match at {
        0 => Constraint::Min(NAME),
        _ => Constraint::Length(COLUMNS[at].1),
    });
    let rows = screen.rows();
    let table = Table::new(rows.iter().map(row), widths)
        .header(Row::new(head.collect::<Vec<_>>()).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let chosen = screen.row.min(rows.len().saturating_sub(1));
    let mut state = TableState::new().with_selected((!rows.is_empty()).then_some(chosen));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Returns the texts of all columns of a row.
fn texts(row: &RowNow) -> [String; COLUMNS.len()] {
    let unit = row.unit.as_ref().map_or_else(String::new, |(kind, name)| {
        if *name == row.name { kind.name().to_owned() } else { name.clone() }
    });
    [
        row.name.clone(),
        rate(row.read.requests),
        rate(row.write.requests),
        number::bytes_decimal(row.read.bytes),
        number::bytes_decimal(row.write.bytes),
        span(row.waiting[0]),
        span(row.waiting[1]),
        span(row.in_device[0]),
        span(row.in_device[1]),
        format!("{:.1}", row.depth),
        row.prio.clone(),
        unit,
    ]
}

fn findings_of(disk: &DiskNow, at: u64, width: u16) -> Paragraph<'static> {
    if disk.findings.is_empty() {
        return Paragraph::new("no problem found");
    }
    let style = bold().fg(Color::Yellow);
    let lines = disk.findings.iter().flat_map(|standing| finding_lines(standing, at));
    let lines: Vec<Line<'_>> = lines
        .map(|line| {
            let is_title = line.starts_with('!');
            let line = Line::from(cut_with_key(&printable(&line), width.into()));
            if is_title { line.style(style) } else { line }
        })
        .collect();
    Paragraph::new(lines)
}

fn keys() -> Vec<String> {
    KEYS.iter().map(|(key, words)| format!("{key:<8} {words}")).collect()
}

fn evidence(disk: &DiskNow, at: u64) -> Vec<String> {
    if disk.findings.is_empty() {
        return vec!["no problem found".to_owned()];
    }
    let lines = disk.findings.iter().flat_map(|standing| {
        let of = &standing.finding;
        let mut lines = finding_lines(standing, at);
        lines.truncate(1);
        lines.extend(of.evidence.iter().map(|text| format!("  {text}")));
        lines.extend(of.advice.iter().map(|text| format!("  try: {text}")));
        lines
    });
    lines.collect()
}

/// Draws lines over the screen: as many as there is room for, from one on. It has no border at the
/// sides, so that a line can be copied.
fn draw_over(frame: &mut Frame<'_>, name: &str, lines: &[String], scrolled: u16) {
    let area = frame.area();
    let lines: Vec<String> =
        lines.iter().flat_map(|line| folded(&printable(line), area.width.into())).collect();
    let inner = Rect {
        y: area.y + 1,
        height: u16::try_from(lines.len() + 2)
            .unwrap_or(u16::MAX)
            .min(area.height.saturating_sub(2)),
        ..area
    };
    let hidden = lines.len().saturating_sub(usize::from(inner.height.saturating_sub(2)));
    let scrolled = usize::from(scrolled).min(hidden);
    let keys = if hidden > 0 {
        let more = number::counted((hidden - scrolled) as u64, "more line");
        format!("Up and Down scroll, {more}, another key closes")
    } else {
        "any key closes".to_owned()
    };
    let lines: Vec<Line<'_>> = lines.into_iter().skip(scrolled).map(Line::from).collect();
    let block = Block::new().borders(Borders::TOP | Borders::BOTTOM).title(format!(
        " {} ",
        cut(&format!("{name}: {keys}"), usize::from(area.width).saturating_sub(2))
    ));
    frame.render_widget(Clear, inner);
    frame.render_widget(Paragraph::new(lines).block(block), inner);
}

/// Returns a line in pieces of at most so many columns, between words where that is possible. Later
/// pieces are indented like the first one, and two columns more.
fn folded(line: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    if line.chars().count() <= width {
        return vec![line.to_owned()];
    }
    let indent = line.chars().take_while(|&c| c == ' ').count();
    let indent = if (indent + 2) * 2 < width { indent + 2 } else { 0 };
    let (mut pieces, mut rest) = (Vec::new(), line.to_owned());
    while rest.chars().count() > width {
        let at = |column: usize| rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at);
        let head = &rest[..at(width + 1)];
        // A word that is longer than a line is cut.
        let blank = head.rfind(' ').filter(|&blank| !head[..blank].trim().is_empty());
        let end = blank.unwrap_or_else(|| at(width));
        let tail = format!("{:indent$}{}", "", rest[end..].trim_start());
        rest.truncate(end);
        pieces.push(rest.trim_end().to_owned());
        rest = tail;
    }
    pieces.push(rest);
    pieces
}

/// Returns a line of at most so many columns, whose end names the key that shows all of it.
fn cut_with_key(line: &str, width: usize) -> String {
    const KEY: &str = " f: all";
    if line.chars().count() <= width {
        return line.to_owned();
    }
    cut(line, width.saturating_sub(KEY.len())) + KEY
}

/// Returns a line of at most so many columns, whose end says so if it was longer.
fn cut(line: &str, width: usize) -> String {
    const END: &str = "...";
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(END.len())).collect();
    format!("{}{END}", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use elevon_trace::DeviceNumber;
    use elevon_watch::{Calls, HEAT_ROWS, Now, UnitKind};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::super::screen::Wish;
    use super::*;

    fn row(name: &str, bytes: f64, p99: u64) -> RowNow {
        let calls = Calls { requests: bytes / 4096.0, bytes };
        RowNow {
            name: name.to_owned(),
            process: Some(1),
            unit: Some((UnitKind::Unit, format!("{name}.service"))),
            read: calls,
            write: Calls::default(),
            others: 0.0,
            waiting: [Some(10_000), Some(p99)],
            in_device: [Some(90_000), Some(200_000)],
            depth: 1.5,
            prio: "be/4".to_owned(),
            errors: 0,
        }
    }

    fn disk(name: &str, rows: Vec<RowNow>) -> DiskNow {
        let mut heat = [0; HEAT_ROWS];
        (heat[6], heat[7], heat[9]) = (1000, 50, 1);
        DiskNow {
            name: name.to_owned(),
            device: DeviceNumber::new(8, 0),
            scheduler: Some("bfq".to_owned()),
            seconds: 1.0,
            read: Calls { requests: 1000.0, bytes: 4_096_000.0 },
            write: Calls::default(),
            discards: 0.0,
            flushes: 0.0,
            waiting: [Some(10_000), Some(50_000)],
            in_device: [Some(90_000), Some(200_000)],
            depth: 1.2,
            busy: 0.43,
            kernel_util: Some(0.61),
            splits: 0.0,
            merges: 12.0,
            requeues: 0.0,
            errors: 0,
            rows,
            findings: Vec::new(),
            heat: vec![heat; 20],
        }
    }

    fn screen(disks: usize) -> Screen {
        let mut screen = Screen::new(1, GroupBy::Process);
        let rows = || vec![row("db", 3e6, 50_000), row("backup", 9e6, 20_000)];
        let disks = (0..disks).map(|at| disk(&format!("sd{at}"), rows())).collect();
        screen.take(Now { at: 5, disks, ..Now::default() });
        screen
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, screen)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn no_figure_is_cut_in_a_narrow_terminal() {
        let mut screen = screen(2);
        for disk in &mut screen.now.disks {
            disk.write.bytes = 1.541e9;
            disk.rows[0].write.bytes = 1.541e9;
        }
        for width in 16..90 {
            let text = drawn(&screen, width, 24);
            for line in text.lines().filter(|line| line.contains("541MB")) {
                let is_whole = |at: usize| line[..at].ends_with('1');
                assert!(line.match_indices("541MB").all(|(at, _)| is_whole(at)), "{text}");
            }
        }
    }

    #[test]
    fn lines_are_folded_between_words() {
        assert_eq!(folded("  try: one two three", 12), ["  try: one", "    two", "    three"]);
        assert_eq!(folded("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(folded("as it is", 8), ["as it is"]);
        assert_eq!(cut("as it is", 8), "as it is");
        assert_eq!(cut("as it was", 8), "as it...");
    }

    #[test]
    fn the_last_of_many_lines_is_reached() {
        let mut screen = screen(1);
        let long = "a word and ".repeat(30);
        let mut lines = vec![long; 20];
        lines.push("the end".to_owned());
        screen.tell("what if", lines);
        assert!(drawn(&screen, 80, 24).contains("more lines, another key closes"));
        for _ in 0..200 {
            screen.on_key(KeyCode::Down);
        }
        assert!(drawn(&screen, 80, 24).contains("the end"));
        // A terminal of a few columns is no reason to fail.
        for (width, height) in [(1, 1), (3, 2), (20, 5), (500, 3)] {
            drawn(&screen, width, height);
        }
    }

    #[test]
    fn rows_are_sorted_filtered_and_never_cut() {
        let mut screen = screen(1);
        let text = drawn(&screen, 80, 24);
        assert!(text.contains("busy 43.0 % (%util 61.0)"), "{text}");
        let at = |text: &str, word: &str| text.find(word).unwrap_or_else(|| panic!("{text}"));
        assert!(at(&text, "backup") < at(&text, "db "), "{text}");
        screen.on_key(KeyCode::Char('s'));
        screen.on_key(KeyCode::Char('s'));
        let text = drawn(&screen, 80, 24);
        assert!(text.contains("sorted by wait p99"), "{text}");
        assert!(at(&text, "\"db ") < at(&text, "\"backup"), "{text}");
        for key in ['/', 'd', 'b', '.'] {
            screen.on_key(KeyCode::Char(key));
        }
        screen.on_key(KeyCode::Enter);
        let text = drawn(&screen, 120, 40);
        assert!(text.contains("db.service") && !text.contains("backup"), "{text}");
        assert!(text.contains("latency of requests by second"), "{text}");
    }

    #[test]
    fn any_size_and_any_number_of_disks() {
        for disks in [0, 1, 2, 40] {
            let mut screen = screen(disks);
            for (width, height) in [(1, 1), (20, 5), (80, 24), (200, 60)] {
                drawn(&screen, width, height);
                screen.on_key(KeyCode::Tab);
                screen.on_key(KeyCode::Char('?'));
                drawn(&screen, width, height);
                screen.on_key(KeyCode::Esc);
                screen.on_key(KeyCode::Char('f'));
                drawn(&screen, width, height);
                screen.on_key(KeyCode::Esc);
            }
        }
        assert!(drawn(&Screen::new(1, GroupBy::Unit), 40, 5).contains("waiting"));
    }
    #[test]
    fn a_second_can_be_looked_at_and_left() {
        let mut screen = screen(1);
        assert_eq!(screen.on_key(KeyCode::Char('z')), Wish::Figures);
        assert_eq!(screen.on_key(KeyCode::Left), Wish::Figures);
        assert_eq!(screen.zoom(), Some(1));
        screen.has_ended();
        assert!(drawn(&screen, 80, 24).contains("the second 3 s ago"));
        // There are twenty seconds.
        for _ in 0..30 {
            assert_eq!(screen.on_key(KeyCode::Left), Wish::Figures);
        }
        assert_eq!(screen.zoom(), Some(19));
        screen.on_key(KeyCode::Esc);
        assert_eq!(screen.zoom(), None);
        assert_eq!(screen.on_key(KeyCode::Enter), Wish::Requests);
        assert_eq!(screen.process(), Some((Some(1), "backup".to_owned())));
    }

    #[test]
    fn what_is_longer_than_the_screen_scrolls() {
        let mut screen = screen(1);
        screen.tell("saved", (0..100).map(|line| format!("line {line}.")).collect());
        assert!(drawn(&screen, 80, 24).contains("saved: Up and Down scroll"));
        screen.on_key(KeyCode::PageDown);
        let text = drawn(&screen, 80, 24);
        assert!(text.contains("line 10.") && !text.contains("line 9."), "{text}");
        screen.on_key(KeyCode::Char('x'));
        assert!(!drawn(&screen, 80, 24).contains("line 10."));
    }
}
