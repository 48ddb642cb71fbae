'use strict';
(async () => {
  const by = id => document.getElementById(id);
  const about = JSON.parse(by('about').textContent), names = JSON.parse(by('names').textContent);
  const n = about.count, GROUPS = ['read', 'write', 'discard', 'flush', 'other'];

  // Columns: base 64, deflated, seven bits a byte.
  async function column(name, make) {
    const element = by('data-' + name), text = atob(element.textContent);
    element.remove();
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const out = new make(n);
    for (let i = 0, at = 0; i < n; i++) {
      let value = 0, scale = 1, byte;
      do { byte = bytes[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127);
      out[i] = value;
    }
    return out;
  }
  if (!n) { document.body.dataset.requests = 0; document.body.dataset.ready = 'yes'; return; }
  const [start, queue, device, sector, bytes, process, group] = await Promise.all([
    column('start', Float64Array), column('queue', Float64Array), column('device', Float64Array),
    column('sector', Float64Array), column('bytes', Float64Array), column('process', Uint32Array),
    column('group', Uint8Array)]);
  const hasQueue = new Uint8Array(n), total = new Float64Array(n);
  let at = 0, end = 0, longest = 0, lastEnd = 1, maxSector = 1, minSector = Infinity;
  for (let i = 0; i < n; i++) {
    start[i] = at += start[i];
    hasQueue[i] = queue[i] > 0 ? 1 : 0;
    queue[i] = Math.max(0, queue[i] - 1);
    total[i] = queue[i] + device[i];
    longest = Math.max(longest, total[i]);
    lastEnd = Math.max(lastEnd, start[i] + total[i]);
    const zigzag = sector[i], distance = zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
    sector[i] = end + distance;
    end = sector[i] + Math.floor(bytes[i] / 512);
    maxSector = Math.max(maxSector, end);
    minSector = Math.min(minSector, sector[i]);
  }
  // An I/O that is one record, at its beginning, may end after the last record.
  const duration = Math.max(about.duration, lastEnd);

  // The first request that starts at a time or later.
  function from(time) {
    let low = 0, high = n;
    while (low < high) { const middle = (low + high) >> 1; if (start[middle] < time) low = middle + 1; else high = middle; }
    return low;
  }
  // For each block of requests the latest end of any up to it, so that long ones before the view are found.
  const BLOCK = 1024, latest = new Float64Array(Math.ceil(n / BLOCK) + 1);
  for (let i = 0, max = 0; i < n; i++) { max = Math.max(max, start[i] + total[i]); latest[Math.floor(i / BLOCK)] = max; }
  function firstIn(time) {
    let low = 0, high = latest.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (latest[middle] < time) low = middle + 1; else high = middle; }
    return Math.min(low * BLOCK, n);
  }

  // Heat maps: rows by value, columns by time. Finest level first; each further one has half as many columns.
  const ROWS = 64, FINEST = 8192, DIRECT = 100000;
  const log = (value, low, high) => Math.min(ROWS - 1, Math.max(0, Math.floor(ROWS * (Math.log2(Math.max(value, low) / low) / Math.log2(high / low)))));
  const spread = Math.max(1, maxSector - minSector);
  const maps = {
    latency: { row: i => log(total[i], 1024, Math.max(2048, longest * 1.01)), atEnd: true, low: 1024, high: Math.max(2048, longest * 1.01), show: ns },
    sector: { row: i => Math.min(ROWS - 1, Math.floor(ROWS * (sector[i] - minSector) / spread)), show: size },
    size: { row: i => log(bytes[i], 512, 1 << 25), low: 512, high: 1 << 25, show: size },
  };
  // The row of each request, once: logarithms of a hundred thousand requests would take most of a frame.
  for (const map of Object.values(maps)) {
    map.rows = new Uint8Array(n);
    for (let i = 0; i < n; i++) map.rows[i] = map.row(i);
    map.buffer = document.createElement('canvas');
  }
  function level(map, t0, t1, columns, first, last) {
    const counts = new Uint32Array(columns * ROWS), scale = columns / (t1 - t0), rows = map.rows;
    for (let i = first; i < last; i++) {
      const x = Math.floor(((map.atEnd ? start[i] + total[i] : start[i]) - t0) * scale);
      if (x >= 0 && x < columns) counts[x * ROWS + rows[i]]++;
    }
    return counts;
  }
  if (n > DIRECT) for (const map of Object.values(maps)) {
    map.levels = [level(map, 0, duration * (1 + 1e-9), FINEST, 0, n)];
    for (let columns = FINEST / 2; columns >= 512; columns /= 2) {
      const fine = map.levels[map.levels.length - 1], coarse = new Uint32Array(columns * ROWS);
      for (let x = 0; x < columns; x++) for (let y = 0; y < ROWS; y++) coarse[x * ROWS + y] = fine[2 * x * ROWS + y] + fine[(2 * x + 1) * ROWS + y];
      map.levels.push(coarse);
    }
  }
  // Depth over time: mean requests in the device, for each of FINEST columns.
  const depth = new Float32Array(FINEST + 1);
  {
    const scale = FINEST / duration, edge = new Float64Array(FINEST + 2);
    const ramp = (time, sign) => {
      const x = Math.min(Math.max(time * scale, 0), FINEST), whole = Math.min(Math.floor(x), FINEST - 1);
      // A step at x, as its mean over the column and one for all after it.
      edge[whole] += sign * (whole + 1 - x); edge[whole + 1] += sign * (x - whole);
    };
    for (let i = 0; i < n; i++) { ramp(start[i] + queue[i], 1); ramp(start[i] + total[i], -1); }
    for (let x = 0, sum = 0; x < FINEST; x++) depth[x] = sum += edge[x];
  }

  // What is seen.
  let t0 = 0, t1 = duration, picked = -1, bars = [], pending = false, colours = {};
  const CLOSE = 4000;
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of [...GROUPS, 'text', 'soft', 'line', 'card', 'map']) colours[name] = style.getPropertyValue('--' + name).trim();
  }
  function prepare(canvas) {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 800, height = canvas.clientHeight || 180;
    if (canvas.width !== Math.round(width * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = '11px system-ui,sans-serif';
    return [context, width, height];
  }
  function ns(value) {
    const units = [[1e9, 's'], [1e6, 'ms'], [1e3, 'us'], [1, 'ns']];
    const [scale, unit] = units.find(([scale]) => value >= scale) || units[3];
    return (value / scale).toPrecision(3).replace(/\.?0+$/, match => match.startsWith('.') ? '' : match) + ' ' + unit;
  }
  // An instant, to be told from others that are `apart` nanoseconds away.
  function moment(value, apart) {
    const [scale, unit] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'us'], [1, 'ns']].find(([scale]) => t1 >= scale) || [1, 'ns'];
    return (value / scale).toFixed(Math.min(9, Math.max(0, Math.ceil(Math.log10(scale / apart) - 1e-9)))) + ' ' + unit;
  }
  function size(value) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let unit = 0;
    while (value >= 1024 && unit < 4) { value /= 1024; unit++; }
    return +value.toFixed(1) + ' ' + units[unit];
  }
  function heat(name) {
    const map = maps[name], [context, width, height] = prepare(by(name));
    const first = firstIn(t0), last = from(t1);
    let counts, columns, u0 = t0, u1 = t1;
    if (last - first <= DIRECT || !map.levels) {
      columns = Math.min(512, Math.max(64, Math.round(width / 2)));
      counts = level(map, t0, t1, columns, first, last);
    } else {
      let chosen = 0;
      const seen = (t1 - t0) / duration;
      while (chosen + 1 < map.levels.length && (FINEST >> (chosen + 1)) * seen >= width / 2) chosen++;
      const all = FINEST >> chosen, left = Math.floor(t0 / duration * all), right = Math.min(all, Math.ceil(t1 / duration * all));
      counts = map.levels[chosen].subarray(left * ROWS, right * ROWS);
      columns = right - left;
      u0 = left / all * duration; u1 = right / all * duration;
    }
    let most = 1;
    for (const count of counts) most = Math.max(most, count);
    // A pixel is a word of alpha, blue, green and red; small counts, nearly all, have theirs in a table.
    const image = new ImageData(Math.max(columns, 1), ROWS), pixels = new Uint32Array(image.data.buffer);
    const norm = 1 / Math.max(1, Math.log2(most));
    const pixel = count => { const [r, g, b] = heatColour(norm * Math.log2(count)); return (255 << 24 | b << 16 | g << 8 | r) >>> 0; };
    const small = new Uint32Array(Math.min(most + 1, 1024));
    for (let count = 1; count < small.length; count++) small[count] = pixel(count);
    for (let x = 0; x < columns; x++) for (let y = 0; y < ROWS; y++) {
      const count = counts[x * ROWS + y];
      if (count) pixels[(ROWS - 1 - y) * columns + x] = count < small.length ? small[count] : pixel(count);
    }
    const buffer = map.buffer;
    buffer.width = image.width; buffer.height = ROWS;
    buffer.getContext('2d').putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    const scale = width / (t1 - t0);
    context.drawImage(buffer, (u0 - t0) * scale, 14, (u1 - u0) * scale, height - 28);
    axis(context, width, height);
    context.fillStyle = colours.soft;
    const labels = name === 'sector' ? [size(minSector * 512), size(maxSector * 512)] : [map.show(map.low), map.show(map.high)];
    context.fillText(labels[1], 2, 11);
    heatScale(context, width, colours.soft, ['1', most.toLocaleString('en'), most > 1 ? 'requests' : 'request']);
    // The lower label lies in the map: nothing is drawn behind it.
    context.clearRect(0, height - 27, context.measureText(labels[0]).width + 4, 13);
    context.fillText(labels[0], 2, height - 16);
  }
  function axis(context, width, height) {
    context.strokeStyle = colours.line; context.fillStyle = colours.soft;
    context.beginPath(); context.moveTo(0, height - 13.5); context.lineTo(width, height - 13.5); context.stroke();
    const step = 10 ** Math.floor(Math.log10((t1 - t0) / 4)), wide = [1, 2, 5].map(k => k * step).find(k => (t1 - t0) / k <= 8) || step * 10;
    for (let t = Math.ceil(t0 / wide) * wide; t < t1; t += wide) {
      const label = moment(t, wide), x = (t - t0) / (t1 - t0) * width + 2;
      if (x + context.measureText(label).width <= width) context.fillText(label, x, height - 3);
    }
  }
  function timeline() {
    const [context, width, height] = prepare(by('timeline')), scale = width / (t1 - t0);
    const first = firstIn(t0), last = from(t1);
    bars = [];
    if (last - first > CLOSE) { far(context, width, height, scale); return last - first; }
    // Each in the first lane that is free.
    const lanes = [];
    for (let i = first; i < last; i++) {
      if (start[i] + total[i] < t0) continue;
      let lane = lanes.findIndex(free => free <= start[i]);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = start[i] + total[i];
      bars.push([i, lane]);
    }
    const high = Math.min(18, (height - 28) / Math.max(lanes.length, 1));
    for (const bar of bars) {
      const [i, lane] = bar, x = (start[i] - t0) * scale, y = 14 + lane * high;
      const colour = colours[GROUPS[group[i]]];
      context.fillStyle = colour;
      context.globalAlpha = 0.35;
      context.fillRect(x, y, Math.max(queue[i] * scale, 0), Math.max(high - 1, 1));
      context.globalAlpha = 1;
      const wide = Math.max(device[i] * scale, 1);
      context.fillRect(x + queue[i] * scale, y, wide, Math.max(high - 1, 1));
      if (i === picked) { context.strokeStyle = colours.text; context.lineWidth = 2; context.strokeRect(x, y, Math.max(total[i] * scale, 2), Math.max(high - 1, 2)); context.lineWidth = 1; }
      bar.push(x, y, Math.max(total[i] * scale, 3), high);
    }
    axis(context, width, height);
    return bars.length;
  }
  function far(context, width, height, scale) {
    const a = Math.max(0, Math.floor(t0 / duration * FINEST)), b = Math.min(FINEST - 1, Math.ceil(t1 / duration * FINEST));
    // A bar for each pixel at most, of the mean of its columns. One path with thousands of edges took
    // a browser without a graphics card several frames to fill.
    const step = Math.max(1, Math.ceil((b - a + 1) / width)), means = [];
    let most = 1;
    for (let x = a - a % step; x <= b; x += step) {
      let sum = 0, columns = Math.min(step, FINEST - x);
      for (let at = x; at < x + columns; at++) sum += depth[at];
      means.push(sum / columns);
      most = Math.max(most, sum / columns);
    }
    context.fillStyle = colours.map;
    const pixel = bar => Math.round(((a - a % step + bar * step) * duration / FINEST - t0) * scale);
    for (let bar = 0; bar < means.length; bar++) {
      const high = means[bar] / most * (height - 30);
      context.fillRect(pixel(bar), height - 14 - high, pixel(bar + 1) - pixel(bar), high);
    }
    context.fillStyle = colours.soft;
    context.fillText(most.toFixed(1) + ' in the device', 2, 11);
    axis(context, width, height);
  }
  function describe(i) {
    const parts = [`request ${i}: ${GROUPS[group[i]]} of ${size(bytes[i])} at sector ${sector[i]}`, names[process[i]],
      `begins ${moment(start[i], 1).replace(/(\.\d*?)0+ /, '$1 ').replace('. ', ' ')} into the trace`];
    if (hasQueue[i]) parts.push(`waits ${ns(queue[i])}`);
    parts.push(`${ns(device[i])} in the device`);
    return parts.join(', ');
  }
  function draw() {
    pending = false;
    const before = performance.now();
    const seen = timeline();
    heat('latency'); heat('sector'); heat('size');
    by('where').textContent = `${moment(t0, (t1 - t0) / 100)} to ${moment(t1, (t1 - t0) / 100)}, ${(from(t1) - from(t0)).toLocaleString('en')} requests begin here`;
    showWindow();
    const body = document.body.dataset;
    body.drawMs = (performance.now() - before).toFixed(1);
    body.seen = seen; body.bars = bars.length;
  }
  // The window as numbers, in the unit of the whole trace. A field that is being edited is left alone.
  const [UNIT, UNIT_NAME] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'us'], [1, 'ns']].find(([unit]) => duration >= unit) || [1, 'ns'];
  by('window-unit').textContent = UNIT_NAME;
  function showWindow() {
    const digits = Math.min(9, Math.max(0, Math.ceil(Math.log10(UNIT / Math.max((t1 - t0) / 1000, 1)))));
    for (const [id, value] of [['window-from', t0], ['window-to', t1]]) {
      if (document.activeElement !== by(id)) by(id).value = +(value / UNIT).toFixed(digits);
    }
  }
  function takeWindow() {
    const a = +by('window-from').value * UNIT, b = +by('window-to').value * UNIT;
    if (b > a) look(a, b);
  }
  function redraw() { if (!pending) { pending = true; requestAnimationFrame(draw); } }
  function look(a, b) {
    const width = Math.min(Math.max(b - a, 50), duration);
    a = Math.min(Math.max(a, 0), duration - width);
    t0 = a; t1 = a + width;
    redraw();
  }
  function zoom(factor, at) { const t = t0 + at * (t1 - t0); look(t - at * (t1 - t0) * factor, t + (1 - at) * (t1 - t0) * factor); }
  function pick(i, move) {
    picked = i;
    by('picked').hidden = i < 0;
    if (i >= 0) {
      by('picked').textContent = describe(i);
      const width = Math.max(total[i] * 4, 1000);
      if (move) look(start[i] - width / 2 + total[i] / 2, start[i] + width / 2 + total[i] / 2);
    }
    redraw();
  }
  for (const id of ['timeline', 'latency', 'sector', 'size']) {
    const canvas = by(id);
    let drag = null;
    // The fingers on the canvas, by the number of their pointer. Two of them zoom: the times below
    // them stay below them.
    const fingers = new Map();
    let pinch = null;
    const spot = x => (x - canvas.getBoundingClientRect().left) / canvas.clientWidth;
    function beginPinch() {
      const [a, b] = [...fingers.values()].map(spot);
      pinch = Math.abs(b - a) > 0.01 ? [t0 + a * (t1 - t0), t0 + b * (t1 - t0)] : null;
    }
    function movePinch() {
      const [a, b] = [...fingers.values()].map(spot);
      if (!pinch || Math.abs(b - a) < 0.01) return;
      const wide = Math.abs((pinch[1] - pinch[0]) / (b - a)), begin = (pinch[0] + pinch[1]) / 2 - (a + b) / 2 * wide;
      look(begin, begin + wide);
    }
    function lift(event) {
      fingers.delete(event.pointerId);
      // The finger that stays does not move the view: it is no drag and no click.
      if (pinch) { pinch = null; drag = null; }
    }
    const share = event => spot(event.clientX);
    canvas.addEventListener('wheel', event => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, share(event)); }, { passive: false });
    canvas.addEventListener('pointerdown', event => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, event.clientX);
      if (fingers.size === 2) { drag = null; beginPinch(); } else if (fingers.size === 1) drag = [event.clientX, t0, t1, false];
    });
    canvas.addEventListener('pointercancel', event => { lift(event); drag = null; });
    canvas.addEventListener('pointermove', event => {
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event.clientX);
      if (fingers.size === 2) movePinch();
      else if (drag) {
        const moved = event.clientX - drag[0];
        drag[3] = drag[3] || Math.abs(moved) > 3;
        const by = moved / canvas.clientWidth * (drag[2] - drag[1]);
        if (drag[3]) look(drag[1] - by, drag[2] - by);
      }
    });
    canvas.addEventListener('pointerup', event => {
      lift(event);
      if (drag && !drag[3] && id === 'timeline') {
        const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
        const hit = bars.find(([, , bx, by, w, h]) => x >= bx - 1 && x <= bx + w + 1 && y >= by && y <= by + h);
        pick(hit ? hit[0] : -1, false);
        if (hit) history.replaceState(null, '', '#request=' + hit[0]);
      }
      drag = null;
    });
    canvas.addEventListener('dblclick', () => look(0, duration));
    canvas.addEventListener('keydown', event => {
      const step = (t1 - t0) / 8;
      const keys = { '+': () => zoom(0.5, 0.5), '=': () => zoom(0.5, 0.5), '-': () => zoom(2, 0.5), '0': () => look(0, duration), ArrowLeft: () => look(t0 - step, t1 - step), ArrowRight: () => look(t0 + step, t1 + step) };
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
  }
  const step = share => look(t0 + share * (t1 - t0), t1 + share * (t1 - t0));
  const buttons = { closer: () => zoom(0.5, 0.5), farther: () => zoom(2, 0.5), earlier: () => step(-0.25), later: () => step(0.25), whole: () => look(0, duration) };
  for (const [id, act] of Object.entries(buttons)) by(id).addEventListener('click', act);
  for (const id of ['window-from', 'window-to']) by(id).addEventListener('change', takeWindow);
  function hash() {
    const match = /^#request=(\d+)$/.exec(location.hash);
    if (match && +match[1] < n) pick(+match[1], true);
  }
  readColours();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); redraw(); });
  addEventListener('resize', redraw);
  addEventListener('hashchange', hash);
  hash();
  draw();
  document.body.dataset.requests = n;
  document.body.dataset.ready = 'yes';
})().catch(error => { document.body.dataset.error = String(error && error.stack || error); });
