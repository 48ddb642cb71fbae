//! The screen of `elevon watch`: disks, who uses the chosen one, its latency over time, and what
//! is wrong.

use elevon_plan::failure::printable;
use elevon_result::number;
use elevon_trace::DeviceNumber;
use elevon_watch::text::{finding_lines, flow_line, headline, latency_line, rate, span};
use elevon_watch::{DiskNow, GroupBy, Now, RowNow};
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::heat;

/// Seconds of an interval that a key goes through.
const INTERVALS: [usize; 3] = [1, 10, 60];
/// Lines of the heat map, its title included.
const HEAT_LINES: u16 = 8;
/// Lines for problems.
const FINDING_LINES: u16 = 5;
/// Heights of the terminal from which on the heat map, and the problems, have room.
const ROOM_FOR_HEAT: u16 = 28;
/// The keys, and what they do.
const KEYS: [(&str, &str); 13] = [
    ("q", "end"),
    ("Tab", "next disk (Shift-Tab: the one before)"),
    ("Up Down", "choose a row"),
    ("s", "sort by the next column"),
    ("g", "a row for each process, or for each service, container or pod"),
    ("i", "interval of 1, 10 or 60 seconds"),
    ("/", "show rows with a text only (Enter: done, Esc: all)"),
    ("p", "pause, go on"),
    ("f", "the problems with evidence and what to try"),
    ("w", "what if: replay the last minutes under other settings"),
    ("S", "save the last minutes as a trace"),
    ("?", "these keys"),
    ("", "waits: from queue to issue. device: from issue to completion. p50, p99"),
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
const GIVE_WAY: [usize; 8] = [11, 5, 7, 10, 9, 2, 1, 6];
/// The least width of a name.
const NAME: u16 = 14;

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Bytes,
    Requests,
    Waiting,
    Device,
    Depth,
    Name,
}

impl Sort {
    const ALL: [Self; 6] =
        [Self::Bytes, Self::Requests, Self::Waiting, Self::Device, Self::Depth, Self::Name];

    const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bandwidth",
            Self::Requests => "requests",
            Self::Waiting => "wait p99",
            Self::Device => "device p99",
            Self::Depth => "depth",
            Self::Name => "name",
        }
    }

    fn sort(self, rows: &mut [&RowNow]) {
        let by = |value: fn(&RowNow) -> f64| {
            move |a: &&RowNow, b: &&RowNow| {
                value(b).total_cmp(&value(a)).then_with(|| a.name.cmp(&b.name))
            }
        };
        match self {
            Self::Bytes => rows.sort_by(by(RowNow::bytes)),
            Self::Requests => rows.sort_by(by(RowNow::requests)),
            Self::Waiting => rows.sort_by(by(|row| row.waiting[1].unwrap_or(0) as f64)),
            Self::Device => rows.sort_by(by(|row| row.in_device[1].unwrap_or(0) as f64)),
            Self::Depth => rows.sort_by(by(|row| row.depth)),
            Self::Name => rows.sort_by(|a, b| a.name.cmp(&b.name)),
        }
    }
}

/// What stands over the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Over {
    Nothing,
    Keys,
    Findings,
    /// A message of several lines.
    Words(Vec<String>),
}

/// What is on the screen.
#[derive(Debug)]
pub(super) struct Screen {
    now: Now,
    /// Index of the chosen disk, and of the chosen row.
    disk: usize,
    row: usize,
    seconds: usize,
    by: GroupBy,
    sort: Sort,
    filter: String,
    is_typing: bool,
    is_paused: bool,
    over: Over,
}

impl Screen {
    pub(super) fn new(seconds: usize, by: GroupBy) -> Self {
        Self {
            now: Now::default(),
            disk: 0,
            row: 0,
            seconds,
            by,
            sort: Sort::Bytes,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            over: Over::Nothing,
        }
    }

    pub(super) const fn seconds(&self) -> usize {
        self.seconds
    }

    pub(super) const fn by(&self) -> GroupBy {
        self.by
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns true while a text to look for is typed.
    pub(super) const fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// Takes new figures.
    pub(super) fn take(&mut self, now: Now) {
        self.now = now;
        self.disk = self.disk.min(self.now.disks.len().saturating_sub(1));
    }

    /// Returns the name and the numbers of the chosen disk.
    pub(super) fn device(&self) -> Option<(&str, DeviceNumber)> {
        self.chosen().map(|disk| (disk.name.as_str(), disk.device))
    }

    /// Shows a message.
    pub(super) fn tell(&mut self, lines: Vec<String>) {
        self.over = Over::Words(lines);
    }

    fn chosen(&self) -> Option<&DiskNow> {
        self.now.disks.get(self.disk)
    }

    /// Returns the rows of the chosen disk that are to be seen, sorted.
    fn rows(&self) -> Vec<&RowNow> {
        let has_text = |row: &&RowNow| {
            let unit = row.unit.as_ref().map_or("", |(_, name)| name.as_str());
            row.name.contains(&self.filter) || unit.contains(&self.filter)
        };
        let mut rows: Vec<&RowNow> =
            self.chosen().into_iter().flat_map(|disk| &disk.rows).filter(has_text).collect();
        self.sort.sort(&mut rows);
        rows
    }

    pub(super) fn on_key(&mut self, key: KeyCode) {
        if self.is_typing {
            return self.type_filter(key);
        }
        if self.over != Over::Nothing {
            self.over = Over::Nothing;
            return;
        }
        let disks = self.now.disks.len().max(1);
        let last = self.rows().len().saturating_sub(1);
        match key {
            KeyCode::Tab | KeyCode::Right => (self.disk, self.row) = ((self.disk + 1) % disks, 0),
            KeyCode::BackTab | KeyCode::Left => {
                (self.disk, self.row) = ((self.disk + disks - 1) % disks, 0);
            }
            KeyCode::Down | KeyCode::Char('j') => self.row = (self.row + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.row = self.row.saturating_sub(1),
            KeyCode::Home => self.row = 0,
            KeyCode::End => self.row = last,
            KeyCode::Char('s') => self.sort = next(&Sort::ALL, self.sort),
            KeyCode::Char('i') => self.seconds = next(&INTERVALS, self.seconds),
            KeyCode::Char('g') => {
                self.by = next(&[GroupBy::Process, GroupBy::Unit], self.by);
                self.row = 0;
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('f') => self.over = Over::Findings,
            KeyCode::Char('?' | 'h') => self.over = Over::Keys,
            _ => {}
        }
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        self.row = 0;
    }
}

/// Returns the value after another one in a list; the first if it is not there.
fn next<T: Copy + PartialEq>(all: &[T], present: T) -> T {
    let at = all.iter().position(|value| *value == present).map_or(0, |at| at + 1);
    all[at % all.len()]
}

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let area = frame.area();
    let Some(disk) = screen.chosen() else {
        let words = if screen.now.at == 0 { "waiting for the first second" } else { "no disk" };
        frame.render_widget(Paragraph::new(words), area);
        return;
    };
    let has_heat = area.height >= ROOM_FOR_HEAT;
    let disks = (screen.now.disks.len() as u16 + 1).min(area.height / 4).max(2);
    let findings = (disk.findings.len() as u16 * 2).clamp(1, FINDING_LINES);
    let parts = [
        Constraint::Length(1),
        Constraint::Length(if screen.now.disks.len() > 1 { disks } else { 0 }),
        Constraint::Length(3),
        Constraint::Length(findings),
        Constraint::Length(if has_heat { HEAT_LINES } else { 0 }),
        Constraint::Min(2),
    ];
    let [head, list, about, problems, heat, rows] = Layout::vertical(parts).areas(area);
    frame.render_widget(title(screen), head);
    draw_disks(frame, screen, list);
    let lines = [headline(disk), flow_line(disk), latency_line(disk)];
    let lines = lines.map(|line| Line::from(printable(&line).into_owned()));
    frame.render_widget(Paragraph::new(lines.to_vec()), about);
    frame.render_widget(findings_of(disk, screen.now.at), problems);
    if has_heat {
        heat::draw(frame, disk, heat);
    }
    draw_rows(frame, screen, rows);
    match &screen.over {
        Over::Nothing => {}
        Over::Keys => draw_over(frame, "keys", &keys()),
        Over::Findings => draw_over(frame, "problems", &evidence(disk, screen.now.at)),
        Over::Words(lines) => draw_over(frame, "what if", lines),
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn title(screen: &Screen) -> Line<'static> {
    let mut words = format!("elevon watch: {} s, sorted by {}", screen.seconds, screen.sort.name());
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
    words.push_str("   ? keys, q ends");
    Line::from(printable(&words).into_owned()).style(bold())
}

fn draw_disks(frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
    if area.height == 0 {
        return;
    }
    let heads = ["disk", "busy %", "%util", "reads/s", "writes/s", "read/s", "write/s", "depth"];
    let row = |disk: &DiskNow| {
        let util = disk.kernel_util.map_or_else(|| "-".to_owned(), |util| number::percent(util, 1));
        let mark = if disk.findings.is_empty() { "" } else { " !" };
        Row::new([
            Cell::from(format!("{}{mark}", printable(&disk.name))),
            right(number::percent(disk.busy, 1)),
            right(util),
            right(rate(disk.read.requests)),
            right(rate(disk.write.requests)),
            right(number::bytes_decimal(disk.read.bytes)),
            right(number::bytes_decimal(disk.write.bytes)),
            right(format!("{:.1}", disk.depth)),
        ])
    };
    let mut widths = vec![Constraint::Min(8)];
    widths.extend([6, 6, 8, 8, 8, 8, 6].map(Constraint::Length));
    let head = heads
        .iter()
        .enumerate()
        .map(|(at, head)| if at == 0 { Cell::from(*head) } else { right((*head).to_owned()) });
    let table = Table::new(screen.now.disks.iter().map(row), widths)
        .header(Row::new(head).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(screen.disk));
    frame.render_stateful_widget(table, area, &mut state);
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// Returns the columns for which there is room.
fn columns(room: u16) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..COLUMNS.len()).collect();
    for least in GIVE_WAY {
        let width: u16 =
            columns.iter().map(|&at| COLUMNS[at].1.max(if at == 0 { NAME } else { 0 }) + 1).sum();
        if width <= room + 1 {
            break;
        }
        columns.retain(|&at| at != least);
    }
    columns
}

fn draw_rows(frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
    let columns = columns(area.width);
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

fn findings_of(disk: &DiskNow, at: u64) -> Paragraph<'static> {
    if disk.findings.is_empty() {
        return Paragraph::new("no problem found");
    }
    let style = bold().fg(Color::Yellow);
    let lines = disk.findings.iter().flat_map(|standing| finding_lines(standing, at));
    let lines: Vec<Line<'_>> = lines
        .map(|line| {
            let is_title = line.starts_with('!');
            let line = Line::from(printable(&line).into_owned());
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

fn draw_over(frame: &mut Frame<'_>, name: &str, lines: &[String]) {
    let area = frame.area();
    let inner = Rect {
        x: area.x + area.width / 16,
        y: area.y + 1,
        width: area.width - area.width / 8,
        height: (lines.len() as u16 * 2 + 2).min(area.height.saturating_sub(2)),
    };
    let lines: Vec<Line<'_>> =
        lines.iter().map(|line| Line::from(printable(line).into_owned())).collect();
    let block = ratatui::widgets::Block::bordered().title(format!(" {name}, any key closes "));
    frame.render_widget(Clear, inner);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), inner);
}

#[cfg(test)]
mod tests {
    use elevon_watch::{Calls, HEAT_ROWS, UnitKind};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

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
        screen.take(Now { at: 5, disks, lost: 0 });
        screen
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, screen)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn rows_are_sorted_filtered_and_never_cut() {
        let mut screen = screen(1);
        let text = drawn(&screen, 80, 24);
        assert!(text.contains("busy 43.0 % (the kernel's %util: 61.0)"), "{text}");
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
}
