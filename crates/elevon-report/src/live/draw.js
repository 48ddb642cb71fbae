// What the pages of a server and of a watch draw with.
const by = id => document.getElementById(id);
// Seconds that are drawn.
const KEPT = 180;
const scaled = (value, units, step) => {
  let at = 0;
  while (value >= 9999.5 && at < units.length - 1) { value /= step; at++; }
  return (value >= 100 || value === 0 ? value.toFixed(0) : value.toPrecision(3)) + units[at];
};
const rate = value => scaled(value, ['', 'k', 'M'], 1000);
const bytes = value => scaled(value, ['B', 'kB', 'MB', 'GB', 'TB'], 1000);
const time = ns => ns === null ? '-' : ns < 1e3 ? ns + 'ns' : ns < 1e6 ? (ns / 1e3).toPrecision(3) + 'us'
  : ns < 1e9 ? (ns / 1e6).toPrecision(3) + 'ms' : (ns / 1e9).toPrecision(3) + 's';

function canvas(id) {
  const element = by(id), ratio = window.devicePixelRatio || 1;
  const width = element.clientWidth, height = element.clientHeight;
  element.width = width * ratio;
  element.height = height * ratio;
  const context = element.getContext('2d');
  context.scale(ratio, ratio);
  context.font = '11px system-ui, sans-serif';
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name);
  return { context, width, height, colour };
}
function label(to, text, y) {
  to.context.fillStyle = to.colour('--soft');
  to.context.fillText(text, 4, y);
}
// Columns of a stacked plot: one for each second, the newest at the right.
function columns(to, samples, parts, most, top, height) {
  const step = to.width / KEPT;
  samples.forEach((sample, at) => {
    let base = top + height;
    for (const [key, colour] of parts) {
      const tall = most > 0 ? sample[key] / most * height : 0;
      to.context.fillStyle = to.colour(colour);
      to.context.fillRect((KEPT - samples.length + at) * step, base - tall, Math.max(step - 0.5, 1), tall);
      base -= tall;
    }
  });
}
function drawThroughput(samples) {
  const to = canvas('throughput'), most = Math.max(1, ...samples.map(sample => sample.read + sample.write));
  columns(to, samples, [['read', '--read'], ['write', '--write']], most, 16, to.height - 16);
  label(to, bytes(most) + '/s', 11);
}
function drawBusy(samples) {
  const to = canvas('busy'), most = Math.max(1, ...samples.map(sample => sample.depth)), half = to.height / 2;
  columns(to, samples, [['depth', '--read']], most, 16, half - 20);
  columns(to, samples, [['utilisation', '--write']], 1, half + 16, half - 16);
  label(to, most.toPrecision(3) + ' in flight', 11);
  label(to, '100 % utilisation', half + 11);
}
// A heat map: counts by second and by row; `row` is that of a time. Returns its cells.
function drawHeatMap(columns, row, what) {
  const to = canvas('heat'), step = to.width / KEPT, tall = (to.height - 16) / Math.max(1, ...columns.map(counts => counts.length));
  const most = Math.max(1, ...columns.map(counts => Math.max(...counts)));
  let cells = 0;
  columns.forEach((counts, at) => counts.forEach((count, at_row) => {
    if (!count) return;
    cells++;
    to.context.fillStyle = `rgb(${heatColour(Math.log2(count) / Math.max(1, Math.log2(most))).join()})`;
    to.context.fillRect((KEPT - columns.length + at) * step, to.height - (at_row + 1) * tall, Math.max(step, 1), tall);
  }));
  heatScale(to.context, to.width, to.colour('--soft'), ['1', rate(most), what]);
  for (const ns of [1e9, 1e6, 1e3]) label(to, time(ns), to.height - row(ns) * tall - 2);
  return cells;
}
function cells(texts) {
  const row = document.createElement('tr');
  texts.forEach((text, at) => {
    const cell = document.createElement(at ? 'td' : 'th');
    cell.textContent = text;
    row.append(cell);
  });
  return row;
}
