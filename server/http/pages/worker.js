/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a worker, in three files that the build joins: worker.js knows what the worker says, tables.js makes
 * elements of it, page.js shows it.
 *
 * The page lists once, then follows /v1/events, which fetch reads because an EventSource cannot send a token.
 */
'use strict';
const PASSIVE = { readable: true, writable: true }, RECEIVES = { read: true, writable: true };
const KEPT = 50;          /* ended transfers and failed operations that are shown */
const REGION_PAGES = 10;  /* of 1000 regions, which are asked for again and again */
const RATE_MS = 3000;     /* without progress for so long, a transfer has no rate */

let silentMs = 40000; /* the stream has a beat every 10 s */
let stream = new AbortController(); /* ends with its stream, and all requests with it */
let token = null, barred = null, admitted = false; /* barred: the answer that refused the token; admitted: it was good once */
let skew = 0, dirty = false, worker = {}, limits = {};
let operations = new Map(), ended = [], failures = [], peers = [], regions = [], metrics = new Map();
let throughput = { since: '', received: [], sent: [] }; /* as GET /v1/throughput has it */

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
    throw await refusal(answer, asking);
  } finally {
    clearTimeout(late);
  }
}

/* A token that is not taken any more ends the stream, too: follow() asks for another. */
async function refusal(answer, asking) {
  let detail = String(answer.status);
  try { detail = (await answer.json()).detail || detail; } catch { /* not one of the worker's answers */ }
  const refused = new Refused(answer.status, detail);
  if (answer.status === 401 && asking === stream) {
    barred = refused;
    asking.abort();
  }
  return refused;
}

const json = (path) => ask(path, {}, (answer) => answer.json());
const because = (error) => error instanceof Refused ? error.message : 'No answer from the worker.';

async function all(path, name, pages = Infinity) {
  const list = [];
  for (let next = ''; next !== undefined && pages > 0; pages--) {
    const page = await json(path + 'limit=1000' + (next && '&after=' + encodeURIComponent(next)));
    list.push(...page[name]);
    next = page.next;
  }
  return list;
}

/* ---- what is known ---- */

const now = () => Date.now() + skew;
/* Of several uses, between two of them as well: it expires unless one is in flight. */
const isOffer = (operation) => PASSIVE[operation.kind] && !operation.done && Boolean(operation.expires_at);
const isTransfer = (operation) => operation.status === 'COMPLETE' || operation.bytes_done > 0;
const rateOf = (operation) => now() - operation.at > RATE_MS ? 0 : operation.rate;
const metric = (name) => metrics.get(name) || 0;

/* Of all uses: bytes_done is that of the furthest. Uses that moved parts may have moved fewer. */
const movedBy = (operation) => operation.bytes_done * Math.max(1, operation.uses_done || 0);

/* The operation before those of a list that are newer than others, once: one that ended at once comes twice. */
const before = (list, operation) => [operation, ...list.filter((o) => o.id !== operation.id)].slice(0, KEPT);

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
  else end(operation, at);
}

function end(operation, at) {
  operations.delete(operation.id);
  if (at && isTransfer(operation)) ended = before(ended, operation);
  if (at && operation.status === 'ERRORED') failures = before(failures, operation);
}

async function list() {
  const live = await all('/v1/operations?done=false&', 'operations');
  const over = await json('/v1/operations?done=true&order=newest&limit=1000');
  const failed = await json('/v1/operations?status=ERRORED&order=newest&limit=' + KEPT);
  operations = new Map();
  for (const operation of live) take(operation, 0);
  ended = over.operations.filter(isTransfer).sort((a, b) => Date.parse(b.ended_at) - Date.parse(a.ended_at)).slice(0, KEPT);
  failures = failed.operations;
  throughput = await json('/v1/throughput');
  await look();
}

/* Progress that came too soon after the one before has no event of its own. */
async function refresh() {
  for (const operation of await all('/v1/operations?status=IN_PROGRESS&', 'operations'))
    if (operations.has(operation.id)) take(operation, now());
  await look();
}

/* What has no event of its own, or none that says how much. */
async function look() {
  peers = await all('/v1/peers?', 'peers');
  regions = await all('/v1/regions?', 'regions', REGION_PAGES);
  metrics = samples(await ask('/metrics', {}, (answer) => answer.text()));
  dirty = true;
}

/* The values of Prometheus's text by their names with labels. */
function samples(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    const at = line.lastIndexOf(' ');
    if (line && line[0] !== '#') found.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return found;
}

/* How often each error happened since the start: [code, operations that ended by it, requests that were refused by it]. */
function countsByCode() {
  const counts = new Map();
  for (const [name, n] of metrics) {
    const found = n && name.match(/^(ferry_operation_errors|ferry_http_problems)_total\{code="(.*)"\}$/);
    if (!found) continue;
    const row = counts.get(found[2]) || [found[2], 0, 0];
    row[found[1] === 'ferry_http_problems' ? 2 : 1] = n;
    counts.set(found[2], row);
  }
  return [...counts.values()].sort((a, b) => b[1] + b[2] - a[1] - a[2]);
}

async function describe() {
  worker = await json('/v1/worker');
  worker.started = now() - worker.uptime_ms;
  limits = await json('/v1/limits');
}

/* ---- following ---- */

let looking = null;
function lookSoon() {
  looking = looking || setTimeout(() => { looking = null; look().catch(() => {}); }, 500);
}

function happened(event) {
  if (event.operation) take(event.operation, Date.parse(event.time));
  else lookSoon();
  dirty = true;
}

async function heard(event) {
  if (event.type === 'hello') {
    skew = Date.parse(event.time) - Date.now();
    await describe();
    await list(); /* what happens meanwhile comes after it */
    admitted = true;
    opened();
  } else if (event.type === 'missed') {
    await list();
  } else {
    happened(event);
  }
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
      if (line) await heard(JSON.parse(line.slice(6)));
    }
  }
}

async function follow() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 5000)) {
    stream = new AbortController();
    barred = null;
    try {
      const answer = await ask('/v1/events', { headers: { Accept: 'text/event-stream' } });
      wait = 500;
      await read(answer.body);
      state('lost', 'the worker has ended, trying again');
    } catch (error) {
      const refused = barred || error;
      if (refused instanceof Refused && (refused.status === 401 || refused.status === 403)) return login(refused);
      state('lost', error instanceof Refused ? error.message : 'no answer from the worker, trying again');
    } finally {
      stream.abort(); /* a browser has few connections to a host */
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/* Calls ask every so often while the page follows the worker and can be seen; not before the last call has ended. */
function every(ms, ask) {
  let asking = false;
  setInterval(() => {
    if (document.body.className !== 'live' || document.hidden || asking) return;
    asking = true;
    ask().catch(() => {}).finally(() => { asking = false; });
  }, ms);
}
