/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a worker. It lists once, then follows /v1/events, which fetch reads because an EventSource cannot send a
 * token. All that a worker says goes into text nodes, never into HTML.
 */
'use strict';
const $ = (id) => document.getElementById(id);
const SECONDS = 300, FAILURES = 20, SOON_MS = 60000, REFUSED_MS = 15000, PASSIVE = { readable: true, writable: true };
const RECEIVES = { read: true, writable: true }, WAYS = ['received', 'sent'];

let silentMs = 40000; /* the stream has a beat every 10 s */
let stream = new AbortController(); /* ends with its stream, and all requests with it */
let token = null, skew = 0, dirty = false, about = '', started = 0;
let operations = new Map(), peers = [], failures = [], metrics = new Map(), limits = {};
let throughput = { since: '', received: [], sent: [] }; /* as GET /v1/throughput has it */
const cancelling = new Set(), refusals = new Map(); /* ids; by id, what was refused to cancel, why, and until when it is told */
let asked = null, over = false; /* the operation that the dialog names; whether the pointer is over a table */

/* ---- asking ---- */

class Refused extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

/* body: reads the answer, within the same time; the stream is read without it. */
async function ask(path, options = {}, body = (answer) => answer) {
  const headers = { ...options.headers };
  if (token !== null) headers.Authorization = 'Bearer ' + token;
  const asking = stream, late = setTimeout(() => asking.abort(), silentMs);
  try {
    const answer = await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit', redirect: 'error',
      signal: asking.signal });
    if (answer.ok) return await body(answer);
    let detail = String(answer.status);
    try { detail = (await answer.json()).detail || detail; } catch { /* not one of the worker's answers */ }
    throw new Refused(answer.status, detail);
  } finally {
    clearTimeout(late);
  }
}

const json = (path) => ask(path, {}, (answer) => answer.json());

async function all(path, name) {
  const list = [];
  for (let next = ''; next !== undefined;) {
    const page = await json(path + 'limit=1000' + (next && '&after=' + encodeURIComponent(next)));
    list.push(...page[name]);
    next = page.next;
  }
  return list;
}

/* ---- what is known ---- */

const now = () => Date.now() + skew;

/* Of all uses: bytes_done is that of the furthest. Uses that moved parts may have moved fewer. */
const movedBy = (operation) => operation.bytes_done * Math.max(1, operation.uses_done || 0);

/* Keeps what an operation is now; at: the time of the event, 0 = of a list. */
function take(operation, at) {
  const old = operations.get(operation.id);
  const known = old ? movedBy(old) : at ? 0 : movedBy(operation);
  const more = Math.max(0, movedBy(operation) - known);
  operation.rate = old ? old.rate : 0;
  operation.at = at || now();
  if (old && more && operation.at > old.at) {
    const rate = more * 1000 / (operation.at - old.at);
    operation.rate = old.rate ? old.rate * 0.6 + rate * 0.4 : rate;
  } else if (old && !more) {
    operation.at = old.at;
  }
  if (!operation.done) operations.set(operation.id, operation);
  else operations.delete(operation.id);
  if (at && operation.status === 'ERRORED') /* one that ended at once comes twice */
    failures = [operation, ...failures.filter((o) => o.id !== operation.id)].slice(0, FAILURES);
}

/* Progress that came too soon after the one before has no event of its own. */
async function refresh() {
  for (const operation of await all('/v1/operations?done=false&', 'operations'))
    if (operations.has(operation.id)) take(operation, now());
  await look();
}

async function list() {
  const running = await all('/v1/operations?done=false&', 'operations');
  const failed = await json('/v1/operations?status=ERRORED&order=newest&limit=' + FAILURES);
  operations = new Map();
  for (const operation of running) take(operation, 0);
  failures = failed.operations;
  throughput = await json('/v1/throughput');
  await look();
}

/* What has no event of its own, or none that says how much. */
async function look() {
  peers = await all('/v1/peers?', 'peers');
  const text = await ask('/metrics', {}, (answer) => answer.text());
  metrics = new Map();
  for (const line of text.split('\n')) {
    const at = line.lastIndexOf(' ');
    if (line && line[0] !== '#') metrics.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  dirty = true;
}

const metric = (name) => metrics.get(name) || 0;
let looking = null;
function lookSoon() {
  looking = looking || setTimeout(() => { looking = null; look().catch(() => {}); }, 500);
}

/* ---- following ---- */

function happened(event) {
  if (event.operation) take(event.operation, Date.parse(event.time));
  else lookSoon();
  dirty = true;
}

async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const silent = setTimeout(() => stream.abort(), silentMs);
    const { value, done } = await reader.read().finally(() => clearTimeout(silent));
    if (done) return;
    text += value;
    const parts = text.split('\n\n');
    text = parts.pop();
    for (const part of parts) {
      const line = part.split('\n').find((l) => l.startsWith('data: '));
      if (!line) continue;
      const event = JSON.parse(line.slice(6));
      if (event.type === 'hello') {
        skew = Date.parse(event.time) - Date.now();
        await describe();
        await list(); /* what happens meanwhile comes after it */
        $('login').hidden = true;
        $('main').hidden = false;
        tick(true);
        state('live', 'live');
      } else if (event.type === 'missed') {
        await list();
      } else {
        happened(event);
      }
    }
  }
}

async function follow() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 5000)) {
    stream = new AbortController();
    try {
      const answer = await ask('/v1/events', { headers: { Accept: 'text/event-stream' } });
      wait = 500;
      await read(answer.body);
      state('lost', 'the worker has ended, trying again');
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) return login(error);
      state('lost', error instanceof Refused ? error.message : 'no answer from the worker, trying again');
    } finally {
      stream.abort(); /* a browser has few connections to a host */
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/* ---- showing ---- */

function say(element, text, className) {
  if (element.textContent !== text) element.textContent = text;
  if (className !== undefined && element.className !== className) element.className = className;
}

function state(className, text) {
  say($('state'), text, className);
  document.body.className = className;
}

function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  for (; bytes >= 1024 && i < units.length - 1; i++) bytes /= 1024;
  return (i && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)) + '\u00a0' + units[i];
}

function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return s + ' s';
  return s < 3600 ? Math.floor(s / 60) + ' min ' + s % 60 + ' s' : Math.floor(s / 3600) + ' h ' + Math.floor(s / 60) % 60 + ' min';
}

const counted = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`;
const clock = (text) => new Date(text).toLocaleTimeString();
const peerOf = (operation) => operation.peer ? operation.peer.worker || operation.peer.epoch : '';
const rateOf = (operation) => now() - operation.at > 3000 ? 0 : operation.rate;

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children); /* a string becomes a text node */
  return made;
}

/*
 * A table whose rows are kept: columns make and fill their cell; each [name, class, make(), fill(parts, item)]. While
 * it is held no row comes, goes or moves: what somebody is about to press stays where it is.
 */
function table(id, columns, keyOf) {
  const body = $(id).tBodies[0], rows = new Map();
  return (items, held) => {
    const left = new Set(rows.keys());
    let at = body.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      let row = rows.get(key);
      if (!row && held) continue;
      if (!row) {
        row = { tr: element('tr'), parts: columns.map(([name, className, make]) => {
          const cell = element('td', className), parts = make ? make(item) : {};
          if (name) cell.dataset.name = name;
          if (parts.children) cell.append(...parts.children);
          return { cell, ...parts };
        }) };
        row.tr.append(...row.parts.map((part) => part.cell));
        rows.set(key, row);
      }
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

function named(text) {
  const label = element('span'), id = element('span', 'id');
  return { children: [label, id], label, id };
}
const fillNamed = (part, operation) => {
  say(part.label, operation.label || '');
  say(part.id, operation.id);
};

const isOffer = (operation) => PASSIVE[operation.kind] && operation.status === 'INITIALIZED';
const movedText = (o) => `${size(o.bytes_done)} of ${size(o.bytes_total)}` + (o.uses > 1 || o.unlimited ? `, use ${o.uses_done} of ${o.uses ?? 'any number'}` : '');

/* Asks before it cancels, by a dialog that names what the button stood for when it was pressed. */
function askToCancel(operation) {
  const noun = isOffer(operation) ? 'offer' : 'transfer', peer = peerOf(operation);
  asked = operation;
  say($('ask-title'), `Cancel this ${noun}?`);
  say($('ask-label'), operation.label || '');
  say($('ask-id'), operation.id);
  say($('ask-what'), `${operation.kind}${peer && `, ${RECEIVES[operation.kind] ? 'from' : 'to'} ${peer}`}, ${movedText(operation)}`);
  say($('ask-yes'), `Cancel the ${noun}`);
  $('ask').returnValue = '';
  $('ask').showModal();
}

function refuse(operation, why) {
  refusals.set(operation.id, { operation, why, until: Date.now() + REFUSED_MS });
}

async function cancel(operation) {
  cancelling.add(operation.id);
  refusals.delete(operation.id);
  dirty = true;
  try {
    const end = await ask('/v1/operations/' + operation.id + '/cancel', { method: 'POST' }, (answer) => answer.json());
    if (end.done && end.status !== 'CANCELLED') refuse(operation, `It had already ended: ${end.status}.`);
  } catch (error) {
    refuse(operation, error instanceof Refused ? error.message : 'No answer from the worker.');
  }
  cancelling.delete(operation.id);
  dirty = true;
}

function cancelButton(operation) {
  const button = element('button', '', 'Cancel'), why = element('span', 'bad why');
  button.type = 'button';
  button.addEventListener('click', () => askToCancel(operations.get(operation.id) || operation));
  return { children: [button, why], button, why };
}
const fillCancel = (part, operation) => {
  const refusal = refusals.get(operation.id);
  part.button.disabled = Boolean(operation.cancel_requested || cancelling.has(operation.id));
  say(part.button, part.button.disabled ? 'Cancelling' : 'Cancel');
  say(part.why, refusal ? 'Not cancelled: ' + refusal.why : '');
};

function progress() {
  const bar = element('progress'), text = element('span', 'id');
  return { children: [bar, text], bar, text };
}
const fillProgress = (part, o) => {
  part.bar.max = o.bytes_total;
  part.bar.value = o.bytes_done;
  say(part.text, movedText(o));
};
const words = (text) => [undefined, (part, item) => say(part.cell, text(item))];

const showTransfers = table('transfers', [
  ['', 'plain', named, fillNamed], ['', 'plain tight', ...words((o) => o.kind)], ['from or to', '', ...words(peerOf)],
  ['', 'plain grow', progress, fillProgress], ['', 'plain tight', ...words((o) => size(rateOf(o)) + '/s')],
  ['for', 'tight', ...words((o) => span(now() - Date.parse(o.created_at)))], ['', 'plain act', cancelButton, fillCancel],
], (o) => o.id);
const showOffers = table('offers', [
  ['', 'plain', named, fillNamed], ['', 'plain tight', ...words((o) => o.kind)], ['', 'plain tight', ...words((o) => size(o.bytes_total))],
  ['in', 'tight', ...words((o) => span(Date.parse(o.expires_at) - now()))], ['', 'plain act', cancelButton, fillCancel],
], (o) => o.id);
const showPeers = table('peers', [
  ['', 'plain', ...words((p) => p.worker || p.epoch)],
  ['', 'plain', undefined, (part, p) => say(part.cell, p.status, 'plain ' + (p.error ? 'bad' : ''))],
  ['by', '', ...words((p) => p.transport || '')], ['transfers', 'tight', ...words((p) => String(p.transfers))],
  ['', 'plain grow', ...words((p) => [...(p.error ? [p.error.detail] : []),
    ...p.unused.map((u) => `${u.transport}: ${u.reason}`)].join('; '))],
], (p) => p.epoch);
const showFailures = table('failures', [
  ['', 'plain tight', ...words((o) => clock(o.ended_at))],
  ['', 'plain', undefined, (part, o) => say(part.cell, o.error.code, 'plain bad')],
  ['', 'plain whole', named, fillNamed], ['with', 'whole', ...words(peerOf)], ['', 'plain grow', ...words((o) => o.error.detail)],
], (o) => o.id);

function svg(name, className, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  made.setAttribute('class', className);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

/* A second is a unit of x, of which the last whole one is at 300; y is 1 at the top of the scale and 59 at 0. */
function draw() {
  const n = throughput.received.length, peak = Math.max(0, ...throughput.received, ...throughput.sent);
  const top = 2 ** Math.max(10, Math.ceil(Math.log2(peak || 1)));
  const lines = WAYS.map((way) => svg('path', way, { d: throughput[way].map((bytes, i) =>
    `${i ? 'L' : 'M'}${SECONDS - n + 1 + i} ${(59 - 58 * bytes / top).toFixed(1)}`).join('') }));
  const grid = svg('path', 'grid', { d: 'M0 1H300M0 30H300' + [60, 120, 180, 240].map((x) => `M${x} 0V60`).join('') });
  $('graph').replaceChildren(svg('rect', 'unknown', { x: 0, y: 0, width: SECONDS - n, height: 60 }), grid, ...lines);
  say($('scale-top'), size(top) + '/s');
  say($('scale-half'), size(top / 2) + '/s');
  for (const way of WAYS) say($(way), `${way} ${size(throughput[way].at(-1) || 0)}/s`);
  say($('peak'), `peak\u00a0${size(peak)}/s`);
  say($('since'), `known since ${clock(throughput.since)}`);
  $('graph').setAttribute('aria-label', `Bytes a second: ${WAYS.map((way) => $(way).textContent).join(', ')}, ${$('peak').textContent}`);
}

/* While rows are held, nothing else is shown anew either whose text might need another line: that would move them. */
function show() {
  const held = over || $('ask').open;
  if (!held)
    for (const [id, refusal] of refusals) if (Date.now() > refusal.until) refusals.delete(id);
  const live = [...operations.values()];
  for (const { operation } of refusals.values()) if (!operations.has(operation.id)) live.push(operation);
  const transfers = live.filter((o) => o.status === 'IN_PROGRESS' || !PASSIVE[o.kind]);
  const offers = live.filter(isOffer);
  const soon = offers.filter((o) => refusals.has(o.id) || (o.expires_at && Date.parse(o.expires_at) - now() < SOON_MS))
    .sort((a, b) => Date.parse(a.expires_at) - Date.parse(b.expires_at)).slice(0, 50);
  $('held').hidden = !held;
  showTransfers(transfers, held);
  showOffers(soon, held);
  showPeers(peers, held);
  showFailures(failures, held);
  if (held) return;
  say($('n-transfers'), transfers.length ? `${transfers.length} running, ${size(transfers.reduce((s, o) => s + rateOf(o), 0))}/s` : '');
  const used = metric('ferry_region_bytes'), limit = metric('ferry_memory_limit_bytes');
  say($('memory'), `${size(used)} of ${size(limit)} in ${counted(metric('ferry_regions'), 'region')}`);
  $('memory-bar').style.width = (limit ? Math.min(100, 100 * used / limit) : 0) + '%';
  $('memory-bar').classList.toggle('full', limit > 0 && used >= 0.9 * limit);
  say($('counts'), [counted(transfers.length, 'transfer'), counted(offers.length, 'offer'),
    counted(metric('ferry_http_waiters'), 'parked request'), counted(metric('ferry_event_readers'), 'event reader')].join(', '));
  say($('about'), `${about}, up ${span(now() - started)}`);
  const codes = new Map();
  for (const o of failures) codes.set(o.error.code, (codes.get(o.error.code) || 0) + 1);
  $('codes').replaceChildren(...[...codes].map(([code, n]) => element('li', '', `${code} × ${n}`)));
  say($('n-failures'), failures.length ? `the last ${failures.length}` : '');
  const near = Object.keys(limits).filter((name) => metric(`ferry_limit_near{limit="${name}"}`));
  const most = (name) => name === 'memory_limit' ? size(limits[name]) : limits[name];
  say($('limits'), near.map((name) => `${name} (${most(name)}) is nearly used up`).join(', '), 'warn');
}

function tick(again) {
  if (!$('main').hidden) {
    if (dirty || again) show();
    dirty = false;
    if (again) draw();
  }
}

/* ---- the way in ---- */

async function describe() {
  const worker = await json('/v1/worker');
  document.title = worker.name + ' – Ferry';
  say($('name'), worker.name);
  const ucx = worker.ucx_version ? `UCX ${worker.ucx_version}` : 'no UCX';
  about = `ferryd ${worker.version}, ${ucx}, epoch ${worker.epoch}`;
  started = now() - worker.uptime_ms;
  limits = await json('/v1/limits');
}

function login(error) {
  $('main').hidden = true;
  $('ask').close();
  over = false;
  $('login').hidden = false;
  say($('refused'), token === null ? '' : error.status === 403 ? error.message : 'That is not the token of this worker.');
  token = null;
  state('', 'token needed');
  $('token').focus();
}

$('login').addEventListener('submit', (event) => {
  event.preventDefault();
  token = $('token').value.trim();
  if (!/^[!-~]*$/.test(token)) token = ''; /* fetch would call it a network failure */
  $('token').value = '';
  $('login').hidden = true;
  state('', 'connecting');
  follow();
});
$('ask').addEventListener('close', () => {
  if ($('ask').returnValue === 'yes') cancel(asked);
  dirty = true;
});
for (const frame of document.querySelectorAll('.scroll')) {
  frame.addEventListener('pointerenter', () => { over = true; dirty = true; });
  frame.addEventListener('pointerleave', () => { over = false; dirty = true; });
}
/* A browser may keep a page that was left, to come back to, and its stream with it. follow() goes on then. */
window.addEventListener('pagehide', () => stream.abort());
setInterval(() => tick(false), 250);

/* Calls ask every so often while the page follows the worker and can be seen; not before the last call has ended. */
function every(ms, ask) {
  let asking = false;
  setInterval(() => {
    if (document.body.className !== 'live' || document.hidden || asking) return;
    asking = true;
    ask().catch(() => {}).finally(() => { asking = false; });
  }, ms);
}
setInterval(() => tick(true), 1000);
every(1000, async () => { throughput = await json('/v1/throughput'); });
every(3000, refresh);
follow();
