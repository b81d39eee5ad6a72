/* ---- elements: all that a worker says goes into text nodes, never into HTML ---- */

const $ = (id) => document.getElementById(id);

/* What would reorder or break a line, or has no shape, is shown as JSON escapes it: a label is what a stranger chose. */
function shown(text) {
  return text.replace(/[\0-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

function say(element, text, className) {
  const clean = shown(text);
  if (element.textContent !== clean) element.textContent = clean;
  if (className !== undefined && element.className !== className) element.className = className;
}

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children); /* a string becomes a text node */
  return made;
}

function svg(name, className, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  made.setAttribute('class', className);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

/* ---- words ---- */

function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  for (; bytes >= 1024 && i < units.length - 1; i++) bytes /= 1024;
  return (i && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)) + '\u00a0' + units[i];
}

function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + s % 60 + ' s';
  return s < 86400 ? Math.floor(s / 3600) + ' h ' + Math.floor(s / 60) % 60 + ' min'
    : Math.floor(s / 86400) + ' d ' + Math.floor(s / 3600) % 24 + ' h';
}

const counted = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`;
/* With the date where it is of another day. */
const clock = (text) => {
  const at = new Date(text), today = new Date(now()).toDateString() === at.toDateString();
  return today ? at.toLocaleTimeString() : at.toLocaleString();
};
const age = (text) => span(now() - Date.parse(text));
const timeLeft = (text) => text ? span(Date.parse(text) - now()) : 'no limit';
const peerName = (peer) => peer ? peer.worker || 'worker without a name' : '';
const usesText = (o) => o.uses || o.unlimited ? `${o.uses_done} of ${o.uses ?? 'unlimited'}` : '';
const movedText = (o) => `${size(o.bytes_done)} of ${size(o.bytes_total)}` + (usesText(o) && `, use ${usesText(o)}`);
const endText = (o) => o.status === 'COMPLETE' ? 'complete' : o.status === 'ERRORED' ? 'failed: ' + o.error.code : 'cancelled';
const rateText = (o) => o.rate ? size(rateOf(o)) + '/s' : ''; /* of one that the page has not seen move, none */
const meanRate = (o) => o.duration_us ? size(movedBy(o) * 1e6 / o.duration_us) + '/s' : '';

/* ---- tables ---- */

/*
 * A table whose rows are kept: columns make and fill their cell; each [name, class, make(), fill(parts, item)]. While
 * it is held no row comes, goes or moves: what somebody is about to press stays where it is.
 */
function table(id, columns, keyOf) {
  const body = $(id).tBodies[0], rows = new Map();
  const makeCell = (item) => ([name, className, make]) => {
    const cell = element('td', className), parts = make ? make(item) : {};
    if (name) cell.dataset.name = name;
    if (parts.children) cell.append(...parts.children);
    return { cell, ...parts };
  };
  const makeRow = (item) => {
    const row = { tr: element('tr'), parts: columns.map(makeCell(item)) };
    row.tr.append(...row.parts.map((part) => part.cell));
    return row;
  };
  return (items, held) => {
    const left = new Set(rows.keys());
    let at = body.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      if (!rows.has(key) && held) continue;
      if (!rows.has(key)) rows.set(key, makeRow(item));
      const row = rows.get(key);
      left.delete(key);
      row.tr.className = '';
      columns.forEach(([, , , fill], i) => fill(row.parts[i], item));
      if (held) continue;
      if (row.tr !== at) body.insertBefore(row.tr, at);
      else at = at.nextElementSibling;
    }
    for (const key of left) {
      if (held) rows.get(key).tr.className = 'gone';
      else { rows.get(key).tr.remove(); rows.delete(key); }
    }
    $(id).classList.toggle('none', rows.size === 0);
  };
}

/* A column of a text of the item; colour: the class of it. */
const words = (name, className, text, colour = () => '') => [name, className, undefined,
  (part, item) => say(part.cell, text(item), `${className} ${colour(item)}`.trim())];

/* A column with the label and the id, which leads to the JSON at path(item). */
const named = (path, label, id) => ['', 'plain', (item) => {
  const name = element('bdi'), link = element('a', 'id');
  link.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    showJson(link.getAttribute('href'), link.item);
  });
  link.href = path(item);
  return { children: [name, link], name, link };
}, (part, item) => {
  part.link.item = item;
  say(part.name, label(item) || '');
  say(part.link, id(item));
}];
const operationColumn = named((o) => '/v1/operations/' + o.id, (o) => o.label, (o) => o.id);

const progressColumn = ['', 'plain grow', () => {
  const bar = element('progress'), text = element('span', 'id');
  bar.setAttribute('aria-label', 'Progress');
  return { children: [bar, text], bar, text };
}, (part, o) => {
  part.bar.max = o.bytes_total;
  part.bar.value = o.bytes_done;
  say(part.text, movedText(o));
}];

/* ---- the graph ---- */

const SECONDS = 300, WAYS = ['received', 'sent'];

/* A second is a unit of x, of which the last whole one is at 300; y is 1 at the top of the scale and 59 at 0. */
function draw() {
  const n = throughput.received.length, peak = Math.max(0, ...throughput.received, ...throughput.sent);
  const top = 2 ** Math.max(10, Math.ceil(Math.log2(peak || 1)));
  const lines = WAYS.map((way) => svg('path', way, { d: throughput[way].map((bytes, i) =>
    `${i ? 'L' : 'M'}${SECONDS - n + 1 + i} ${(59 - 58 * bytes / top).toFixed(1)}`).join('') }));
  const grid = svg('path', 'grid', { d: 'M0 1H300M0 30H300' + [60, 120, 180, 240].map((x) => `M${x} 0V60`).join('') });
  $('graph').replaceChildren(svg('rect', 'unknown', { x: 0, y: 0, width: SECONDS - n, height: 60 }), grid, ...lines);
  $('unknown').hidden = n > SECONDS * 2 / 3; /* there is no room for the words */
  $('unknown').style.width = 100 * (SECONDS - n) / SECONDS + '%';
  say($('scale-top'), size(top) + '/s');
  say($('scale-half'), size(top / 2) + '/s');
  for (const way of WAYS) say($(way), `${way} ${size(throughput[way].at(-1) || 0)}/s`);
  say($('peak'), `peak\u00a0${size(peak)}/s`);
  say($('since'), `known since ${clock(throughput.since)}`);
  $('graph').setAttribute('aria-label', `Bytes a second: ${WAYS.map((way) => $(way).textContent).join(', ')}, ${$('peak').textContent}`);
}
