'use strict';
(() => {
  const dataset = document.body.dataset;
  // No tenant is called so: a path has no spaces at its ends.
  const ALL = ' all';
  const ROWS = 32, FASTEST = 1e3, SLOWEST = 1e10;
  // What each device did in each of the last seconds, and the answer before the last one.
  const history = new Map();
  let before = null, device = '', tenant = ALL, stats = null;

  const sum = object => Object.values(object).reduce((all, value) => all + value, 0);

  // The latencies that came since the answer before: pairs of a value and how many.
  function newBins(now, old) {
    const counts = new Map(old ? old.latency_bins : []);
    return now.latency_bins.map(([value, count]) => [value, count - (counts.get(value) || 0)]).filter(bin => bin[1] > 0);
  }
  function percentile(bins, share) {
    const total = bins.reduce((all, bin) => all + bin[1], 0);
    let seen = 0;
    for (const [value, count] of bins) if ((seen += count) >= total * share) return value;
    return null;
  }
  // What held the I/O that ended since the answer before, the longest first, in percent.
  function causes(now, old) {
    const past = new Map((old ? old.explain : []).map(cause => [cause.words, cause.ns]));
    const waits = now.explain.map(cause => [cause.words, Math.max(0, cause.ns - (past.get(cause.words) || 0))]);
    const total = waits.reduce((all, wait) => all + wait[1], 0);
    return waits.filter(wait => wait[1] > 0).sort((a, b) => b[1] - a[1]).map(([words, ns]) => [words, ns * 100 / total]);
  }
  // Everything that is shown of a device, from two answers.
  function change(now, old) {
    const seconds = Math.max((now.at_ns - old.at_ns) / 1e9, 1e-9);
    const group = (key, of) => (now.requests[of][key] - old.requests[of][key]) / seconds;
    // The root has only what no tenant pays for, which is nothing, most often.
    const shown = now.tenants.filter(one => one.depth > 0 || now.tenants.length === 1 || sum(one.ios) > 0);
    const tenants = shown.map(one => {
      const past = old.tenants.find(other => other.path === one.path), bins = newBins(one, past);
      const since = key => Object.fromEntries(
        Object.entries(one[key]).map(([of, value]) => [of, (value - (past ? past[key][of] : 0)) / seconds]));
      // The mean number of writes that were held because of the tenant's dirty pages, and of I/Os
      // for lack of memory.
      const used = key => past && past.cache && one.cache ? (one.cache[key] - past.cache[key]) / seconds : 0;
      const held = [[used('paused_ns') / 1e9, 'held by its dirty pages'], [used('starved_ns') / 1e9, 'held until memory is free']]
        .filter(one => one[0] > 0).map(([count, words]) => count.toPrecision(3) + ' ' + words);
      // Of a tenant whose I/O all waits none has ended that could say why.
      const waits = one.waiting, oldest = time(waits.oldest_ns);
      const waiting = waits.held_by ? [waits.requests + (waits.requests === 1 ? ' request waits, for ' + oldest : ' requests wait, the oldest for ' + oldest) + ', held by ' + waits.held_by] : [];
      return { path: one.path, depth: one.depth, held, waiting, reads: used('reads'), hits: used('hits'), ios: since('ios'), bytes: since('bytes'), in_flight: one.in_flight, bins,
        causes: causes(one, past), settings: Object.entries(one.settings).map(([name, text]) => name + ' = ' + text).join('; ') };
    });
    return {
      read: group('bytes', 'read'), write: group('bytes', 'write'),
      iops: ['read', 'write', 'discard'].reduce((all, of) => all + group('ios', of), 0),
      utilisation: Math.min(1, (now.busy_ns - old.busy_ns) / seconds / 1e9),
      depth: (now.depth_ns - old.depth_ns) / seconds / 1e9,
      waiting: now.clients.reduce((all, client) => all + client.requests, 0), tenants, ...cacheChange(now.cache, old.cache, seconds),
    };
  }
  // What its page cache did; nothing of a device without one.
  function cacheChange(now, old, seconds) {
    if (!now || !old) return {};
    const since = key => now[key] - old[key], read = since('hit_bytes') + since('missed_bytes');
    return { dirty: now.dirty_bytes, writing: now.writeback_bytes, written: since('written_bytes') / seconds,
      hits: read > 0 ? since('hit_bytes') / read : null };
  }

  function drawCache(samples, cache) {
    const to = canvas('cache'), most = Math.max(1, ...samples.map(sample => sample.dirty + sample.writing)), half = to.height / 2;
    columns(to, samples, [['writing', '--read'], ['dirty', '--write']], most, 16, half - 20);
    columns(to, samples, [['hits', '--read']], 1, half + 16, half - 16);
    label(to, bytes(most) + ' dirty or being written', 11);
    label(to, '100 % of what was read was there', half + 11);
    const sample = samples[samples.length - 1], told = { cached: bytes(cache.cached_bytes) + ' of ' + bytes(cache.bytes), dirty: bytes(sample.dirty),
      writing: bytes(sample.writing), written: bytes(sample.written) + '/s', hits: sample.hits === null ? '-' : (sample.hits * 100).toFixed(1) + ' %' };
    for (const [id, text] of Object.entries(told)) by(id).textContent = text;
    by('cache-mode').textContent = cache.mode;
    by('cache-lost').hidden = !cache.lost;
    by('cache-lost').textContent = cache.lost ? 'a write-back or a flush failed (' + cache.lost + '): no flush succeeds' : '';
  }
  function drawHeat(samples) {
    const row = value => Math.min(ROWS - 1, Math.max(0, Math.floor(ROWS * Math.log(Math.max(value, FASTEST) / FASTEST) / Math.log(SLOWEST / FASTEST))));
    const columns = samples.map(sample => {
      // The root has its own I/O, and every other tenant that of those below it, too.
      const found = sample.tenants.filter(one => tenant === ALL ? one.depth < 2 : one.path === tenant);
      const counts = new Float64Array(ROWS);
      for (const one of found) for (const [value, count] of one.bins) counts[row(value)] += count;
      return counts;
    });
    dataset.cells = drawHeatMap(columns, row, 'I/Os');
    by('heat-of').textContent = tenant === ALL ? 'of all tenants' : 'of ' + tenant;
  }

  function drawTenants(sample) {
    by('tenants').replaceChildren(...sample.tenants.map(one => {
      const ended = [...one.held, ...one.causes.slice(0, 3).map(([words, share]) => share.toFixed(1) + ' % ' + words)];
      const held = (ended.length > 0 ? ended : one.waiting).join(', ');
      const row = cells([one.path, rate(sum(one.ios)), bytes(one.bytes.read), bytes(one.bytes.write), one.in_flight,
        time(percentile(one.bins, 0.5)), time(percentile(one.bins, 0.99)), one.reads > 0 ? (one.hits * 100 / one.reads).toFixed(1) + ' %' : '-', held || '-']);
      row.firstChild.style.paddingLeft = one.depth * 0.9 + 'rem';
      row.title = one.settings;
      row.className = one.path === tenant ? 'chosen' : '';
      row.dataset.path = one.path;
      row.onclick = () => { tenant = tenant === one.path ? ALL : one.path; draw(); };
      return row;
    }));
  }
  function drawExports() {
    by('exports').replaceChildren(...stats.exports.filter(one => one.device === device).map(one => cells([one.name, one.tenant,
      one.size.toLocaleString('en'), one.clients.length, one.drained ? 'drained' : one.read_only ? 'read-only' : 'open'])));
  }
  function draw() {
    const samples = history.get(device) || [], sample = samples[samples.length - 1];
    if (!sample) return;
    if (!sample.tenants.some(one => one.path === tenant)) tenant = ALL;
    by('iops').textContent = rate(sample.iops);
    by('bandwidth').textContent = bytes(sample.read + sample.write) + '/s';
    by('utilisation').textContent = (sample.utilisation * 100).toFixed(1) + ' %';
    by('depth').textContent = sample.depth.toPrecision(3);
    by('waiting').textContent = sample.waiting;
    by('connections').textContent = stats.exports.reduce((all, one) => all + one.clients.length, 0);
    drawThroughput(samples);
    drawBusy(samples);
    drawHeat(samples);
    const cache = stats.devices.find(one => one.name === device).cache;
    document.body.classList.toggle('cached', !!cache);
    if (cache) drawCache(samples, cache);
    drawTenants(sample);
    drawExports();
    const failure = stats.devices.find(one => one.name === device).failure;
    by('failure').hidden = !failure;
    by('failure').textContent = failure || '';
    dataset.samples = samples.length;
  }

  function take(next) {
    stats = next;
    const names = next.devices.map(one => one.name), select = by('device');
    if ([...select.options].map(option => option.value).join('\n') !== names.join('\n')) {
      select.replaceChildren(...names.map(name => new Option(name, name)));
      if (!names.includes(device)) device = names[0] || '';
      select.value = device;
    }
    for (const now of next.devices) {
      const old = before && before.devices.find(one => one.name === now.name);
      // A server that was started again counts from 0.
      if (!old || now.at_ns < old.at_ns) { history.set(now.name, []); continue; }
      if (now.at_ns === old.at_ns) continue;
      const samples = history.get(now.name);
      samples.push(change(now, old));
      if (samples.length > KEPT) samples.shift();
    }
    before = next;
  }
  async function look() {
    try {
      const answer = await fetch('api/stats', { cache: 'no-store' });
      if (!answer.ok) throw new Error(answer.status + ' ' + answer.statusText);
      take(await answer.json());
      by('state').textContent = '';
      draw();
    } catch (error) {
      by('state').textContent = 'The server does not answer: ' + error.message;
      dataset.error = error.message;
    }
    setTimeout(look, 1000);
  }
  by('device').onchange = event => { device = event.target.value; draw(); };
  window.addEventListener('resize', draw);
  look();
})();
