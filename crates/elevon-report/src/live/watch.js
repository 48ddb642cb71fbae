'use strict';
(() => {
  const dataset = document.body.dataset, ROWS = 24, FIRST = 4096;
  // What each disk did in each of the last seconds.
  const history = new Map();
  let disk = '', last = -1;

  const row = ns => ns < FIRST ? 0 : Math.min(ROWS - 1, Math.floor(Math.log2(ns / FIRST)) + 1);
  const pair = of => time(of.p50) + ' / ' + time(of.p99);
  function drawHeat(samples) {
    const columns = samples.map(sample => {
      const counts = new Float64Array(ROWS);
      for (const [floor, count] of sample.latency_last_second || []) counts[row(floor)] += count;
      return counts;
    });
    dataset.cells = drawHeatMap(columns, row, 'requests');
  }
  function drawRows(now) {
    by('rows').replaceChildren(...now.rows.map(one => cells([one.name, rate(one.read.requests), rate(one.write.requests),
      bytes(one.read.bytes), bytes(one.write.bytes), pair(one.waiting_ns), pair(one.in_device_ns), one.depth.toFixed(1), one.prio,
      one.unit && one.unit.name !== one.name ? one.unit.name : '-'])));
  }
  function paragraph(text, bold) {
    const line = document.createElement('p'), word = document.createElement(bold ? 'strong' : 'span');
    word.textContent = text;
    line.append(word);
    return line;
  }
  function drawFindings(now) {
    const lines = now.findings.flatMap(one => [paragraph(one.title + ' (for ' + (one.held_ns / 1e9).toFixed(0) + ' s)', true),
      ...one.evidence.map(text => paragraph(text)), ...one.advice.map(text => paragraph('Try: ' + text))]);
    by('findings').replaceChildren(...(lines.length ? lines : [paragraph('no problem found')]));
  }
  function draw() {
    const samples = history.get(disk) || [], sample = samples[samples.length - 1];
    if (!sample) return;
    by('iops').textContent = rate(sample.iops);
    by('bandwidth').textContent = bytes(sample.read + sample.write) + '/s';
    by('utilisation').textContent = (sample.utilisation * 100).toFixed(1) + ' %';
    by('kernel-util').textContent = sample.kernel_util === null ? '-' : (sample.kernel_util * 100).toFixed(1) + ' %';
    by('depth').textContent = sample.depth.toPrecision(3);
    by('waits').textContent = pair(sample.waiting_ns);
    by('in-device').textContent = pair(sample.in_device_ns);
    by('scheduler').textContent = sample.scheduler || '-';
    drawThroughput(samples);
    drawBusy(samples);
    drawHeat(samples);
    drawRows(sample);
    drawFindings(sample);
    dataset.samples = samples.length;
  }
  function take(now) {
    if (now.at_ns === last) return;
    if (now.at_ns < last) history.clear();
    last = now.at_ns;
    const names = now.disks.map(one => one.name), select = by('device');
    if ([...select.options].map(option => option.value).join('\n') !== names.join('\n')) {
      select.replaceChildren(...names.map(name => new Option(name, name)));
      if (!names.includes(disk)) disk = now.disks.reduce((most, one) => one.busy > most.busy ? one : most, now.disks[0] || { name: '' }).name;
      select.value = disk;
    }
    for (const one of now.disks) {
      const samples = history.get(one.name) || [], read = one.read.bytes, write = one.write.bytes;
      samples.push({ ...one, read, write, utilisation: one.busy, iops: one.read.requests + one.write.requests + one.discards });
      if (samples.length > KEPT) samples.shift();
      history.set(one.name, samples);
    }
    const words = [now.lost_events ? now.lost_events + ' events were lost: all figures are too small' : '', now.sampled || ''];
    by('failure').textContent = words.filter(text => text).join('; ');
    by('failure').hidden = !by('failure').textContent;
  }
  async function look() {
    try {
      const answer = await fetch('api/now?by=' + by('by').value, { cache: 'no-store' });
      if (!answer.ok) throw new Error(answer.status + ' ' + answer.statusText);
      const now = await answer.json();
      if (now) take(now);
      by('state').textContent = now ? '' : 'waiting for the first second';
      draw();
    } catch (error) {
      by('state').textContent = 'elevon watch does not answer: ' + error.message;
      dataset.error = error.message;
    }
    setTimeout(look, 1000);
  }
  by('device').onchange = event => { disk = event.target.value; draw(); };
  window.addEventListener('resize', draw);
  look();
})();
