//! The screen of `elevon top`: devices with their tenants, and why the chosen one has its rate.

use elevon_plan::failure::printable;
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};

use super::cache::CacheUse;
use super::rates::{DeviceRates, HEADS, TenantRates};

/// Lines for the chosen tenant.
const DETAILS: u16 = 8;

/// Widths of the columns after the name; the last takes what is left.
const WIDTHS: [u16; 11] = [10, 7, 8, 9, 9, 9, 10, 10, 10, 10, 12];

/// Columns in the order in which they give way where the terminal is too narrow for all: a number
/// that is cut would read as another. What held the chosen tenant stands below the table, too.
const GIVE_WAY: [usize; 10] = [6, 5, 9, 7, 10, 11, 2, 8, 4, 3];

/// What is on the screen.
#[derive(Debug)]
pub(super) struct Screen {
    socket: String,
    devices: Vec<DeviceRates>,
    /// Device and path of the chosen tenant.
    chosen: Option<(String, String)>,
}

impl Screen {
    pub(super) fn new(socket: String) -> Self {
        Self { socket, devices: Vec::new(), chosen: None }
    }

    /// Takes new rates.
    pub(super) fn take(&mut self, devices: Vec<DeviceRates>) {
        self.devices = devices;
    }

    /// Returns all tenants, with their devices.
    fn tenants(&self) -> Vec<(&DeviceRates, &TenantRates)> {
        self.devices
            .iter()
            .flat_map(|device| device.tenants.iter().map(move |tenant| (device, tenant)))
            .collect()
    }

    /// Returns the index of the chosen tenant: the first, unless another was chosen and is there.
    fn index(&self) -> usize {
        let is_chosen = |(device, tenant): &(&DeviceRates, &TenantRates)| {
            self.chosen
                .as_ref()
                .is_some_and(|(name, path)| *name == device.name && *path == tenant.path)
        };
        self.tenants().iter().position(is_chosen).unwrap_or(0)
    }

    /// Chooses another tenant by the keys of a list.
    pub(super) fn on_key(&mut self, key: KeyCode) {
        let (tenants, index) = (self.tenants(), self.index());
        let next = match key {
            KeyCode::Down | KeyCode::Char('j') => (index + 1).min(tenants.len().saturating_sub(1)),
            KeyCode::Up | KeyCode::Char('k') => index.saturating_sub(1),
            KeyCode::Home => 0,
            KeyCode::End => tenants.len().saturating_sub(1),
            _ => return,
        };
        self.chosen =
            tenants.get(next).map(|(device, tenant)| (device.name.clone(), tenant.path.clone()));
    }
}

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let rows = [Constraint::Length(1), Constraint::Min(3), Constraint::Length(DETAILS)];
    let [head, list, details] = Layout::vertical(rows).areas(frame.area());
    let title = format!("elevon top: {}   arrows choose a tenant, q ends", screen.socket);
    frame.render_widget(Line::from(printable(&title).into_owned()), head);
    if screen.devices.is_empty() {
        frame.render_widget(Paragraph::new("waiting for the first interval"), list);
        return;
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let (mut lines, mut chosen, mut at) = (Vec::new(), 0, 0);
    for device in &screen.devices {
        // A line of a device is wider than the column of names: it stands above as a title.
        lines.extend(device.lines().map(|line| (Some(printable(&line).into_owned()), Vec::new())));
        for tenant in &device.tenants {
            if at == screen.index() {
                chosen = lines.len();
            }
            at += 1;
            lines.push((None, tenant.row()));
        }
    }
    let name_width =
        lines.iter().filter_map(|(_, row)| row.first()).map(|name| name.chars().count()).max();
    let columns = columns(name_width.unwrap_or(0).max(HEADS[0].len()) as u16, list.width);
    let table_rows = lines.iter().map(|(device, row)| match device {
        Some(_) => Row::new([Cell::from("")]),
        None => cells(row, &columns),
    });
    let widths = columns.iter().map(|&(_, width)| width);
    let table = Table::new(table_rows, widths).header(cells(&HEADS, &columns).style(bold));
    let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(chosen));
    frame.render_stateful_widget(table, list, &mut state);
    // The lines of devices go over the cells that were left empty for them.
    for (index, (device, _)) in lines.iter().enumerate() {
        let Some(row) = index.checked_sub(state.offset()) else { continue };
        let y = list.y + 1 + row as u16;
        if let (Some(line), true) = (device, y < list.bottom()) {
            frame.buffer_mut().set_stringn(list.x, y, line, list.width.into(), bold);
        }
    }
    if let Some((device, tenant)) = screen.tenants().get(screen.index()) {
        frame.render_widget(explained(device, tenant), details);
    }
}

/// Returns a row: numbers are aligned at the right, the first and the last column are words.
fn cells<T: AsRef<str>>(texts: &[T], columns: &[(usize, Constraint)]) -> Row<'static> {
    let cell = |&(at, _): &(usize, Constraint)| {
        let line = Line::from(printable(texts[at].as_ref()).into_owned());
        if at == 0 || at + 1 == texts.len() { line } else { line.right_aligned() }
    };
    Row::new(columns.iter().map(cell).map(Cell::from).collect::<Vec<_>>())
}

/// Returns the columns of [`HEADS`] for which there is room, and their widths. A longer name is
/// cut.
fn columns(name: u16, room: u16) -> Vec<(usize, Constraint)> {
    let name = name.min((room / 2).max(HEADS[0].len() as u16));
    let width = |at: usize| if at == 0 { name } else { WIDTHS[at - 1] };
    let mut columns: Vec<usize> = (0..HEADS.len()).collect();
    for least in GIVE_WAY {
        // A blank stands between two.
        if columns.iter().map(|&at| width(at) + 1).sum::<u16>() <= room + 1 {
            break;
        }
        columns.retain(|&at| at != least);
    }
    let constraint = |at| {
        if at + 1 == HEADS.len() {
            Constraint::Min(width(at))
        } else {
            Constraint::Length(width(at))
        }
    };
    columns.into_iter().map(|at| (at, constraint(at))).collect()
}

/// Returns what is in force for a tenant, and what its I/O waited for.
fn explained(device: &DeviceRates, tenant: &TenantRates) -> Paragraph<'static> {
    let mut lines: Vec<String> =
        tenant.causes.iter().map(|(words, share)| format!("{share:>5.1} % {words}")).collect();
    lines
        .splice(0..0, tenant.cache.iter().filter_map(CacheUse::line).chain(tenant.waiting.clone()));
    if lines.is_empty() {
        let words =
            if tenant.requests > 0.0 { "its requests needed no I/O" } else { "it had no request" };
        lines.push(format!("nothing of it waited: {words}"));
    }
    if !tenant.settings.is_empty() {
        lines.insert(0, format!("in force: {}", tenant.settings.join("; ")));
    }
    let lines: Vec<Line<'_>> =
        lines.iter().map(|line| Line::from(printable(line).into_owned())).collect();
    let title = format!(" {} on device {} ", tenant.path, device.name);
    Paragraph::new(lines).block(Block::bordered().title(printable(&title).into_owned()))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::rates::{
        rates,
        tests::{answers, cached_answers},
    };
    use super::*;

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, screen)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn a_page_cache_stands_below_its_device() {
        let mut screen = Screen::new("ctl".to_owned());
        let [before, now] = cached_answers();
        screen.take(rates(&before, &now));
        insta::assert_snapshot!(drawn(&screen, 132, 14), @r#"
        "elevon top: ctl   arrows choose a tenant, q ends                                                                                    "
        "tenant requests/s    IOPS   read/s written/s in flight at device client p50 client p99 device p50 device p99 what held it           "
        "device fast: 25.0 % busy, 1.50 in flight, 1000 IOPS, 4096kB/s                                                                       "
        "page cache, write-back: 4194kB of 67.1MB, 1049kB dirty, 1049kB/s written back, 100.0 % of 524kB/s read was there                    "
        "db           3000    1000   4096kB        0B         3     0.500     9.00us     9.00us     5.00us     5.00us 1.50 held by its dirty "
        "batch           0       0       0B        0B         3         0          -          -          -          - -                      "
        "┌ db on device fast ───────────────────────────────────────────────────────────────────────────────────────────────────────────────┐"
        "│in force: io.weight = default 300                                                                                                 │"
        "│page cache: 50.0 % of its reads were there, 1.50 held by its dirty pages                                                          │"
        "│ 75.0 % own limit iops=1000                                                                                                       │"
        "│ 25.0 % device                                                                                                                    │"
        "│                                                                                                                                  │"
        "│                                                                                                                                  │"
        "└──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘"
        "#);
    }

    #[test]
    fn the_screen_has_tenants_and_why_the_chosen_one_has_its_rate() {
        let mut screen = Screen::new("ctl".to_owned());
        assert!(drawn(&screen, 60, 12).contains("waiting for the first interval"));
        let [before, now] = answers();
        screen.take(rates(&before, &now));
        insta::assert_snapshot!(drawn(&screen, 112, 14), @r#"
        "elevon top: ctl   arrows choose a tenant, q ends                                                                "
        "tenant requests/s    IOPS   read/s written/s in flight client p50 client p99 device p50 device p99 what held it "
        "device fast: 25.0 % busy, 1.50 in flight, 1000 IOPS, 4096kB/s                                                   "
        "db           3000    1000   4096kB        0B         3     9.00us     9.00us     5.00us     5.00us 75.0 % own li"
        "batch           0       0       0B        0B         3          -          -          -          - -            "
        "                                                                                                                "
        "┌ db on device fast ───────────────────────────────────────────────────────────────────────────────────────────┐"
        "│in force: io.weight = default 300                                                                             │"
        "│ 75.0 % own limit iops=1000                                                                                   │"
        "│ 25.0 % device                                                                                                │"
        "│                                                                                                              │"
        "│                                                                                                              │"
        "│                                                                                                              │"
        "└──────────────────────────────────────────────────────────────────────────────────────────────────────────────┘"
        "#);
        // Where not all columns have room, some are left out, and none is cut.
        for (width, shown) in [
            (80, "tenant requests/s    IOPS   read/s written/s client p99 device p99 what held it"),
            (60, "tenant requests/s    IOPS   read/s written/s client p99"),
            (40, "tenant requests/s   read/s written/s"),
            (20, "tenant requests/s"),
        ] {
            let text = drawn(&screen, width, 14);
            let lines: Vec<&str> =
                text.lines().map(|line| line.trim_matches('"').trim_end()).collect();
            assert_eq!(lines[1], shown);
            assert!(lines[3].starts_with("db           3000"), "{text}");
        }
        screen.on_key(KeyCode::Down);
        screen.on_key(KeyCode::Down);
        assert_eq!(screen.chosen, Some(("fast".to_owned(), "batch".to_owned())));
        assert!(drawn(&screen, 112, 14).contains("nothing of it waited"));
        screen.on_key(KeyCode::Home);
        assert_eq!(screen.index(), 0);
        // A terminal of any size, a tenant that is gone.
        for (width, height) in [(1, 1), (3, 40), (20, 5), (200, 3)] {
            drawn(&screen, width, height);
        }
        screen.chosen = Some(("fast".to_owned(), "gone".to_owned()));
        assert_eq!(screen.index(), 0);
    }
}
