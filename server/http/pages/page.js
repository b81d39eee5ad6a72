/* ---- what is held: nothing moves under a pointer, a focus or a dialog ---- */

const RUNNING = 1000, ROWS = 100; /* rows of transfers, and of other tables, at most */
const REFUSED_MS = 15000;
const cancelling = new Set(), refusals = new Map(); /* ids; by id, what was refused to cancel, why, and until when it is told */
let asked = null, over = false; /* the operation that the dialog names; whether the pointer is over a table */

function isHeld() {
  const focus = document.activeElement;
  return over || $('ask').open || $('json').open || Boolean(focus && focus.closest('.scroll') && focus.matches(':focus-visible'));
}

/* ---- to cancel ---- */

/* Asks before it cancels, by a dialog that names what the button stood for when it was pressed. */
function askToCancel(operation) {
  const noun = isOffer(operation) ? 'offer' : 'transfer', peer = peerName(operation.peer);
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
    refuse(operation, because(error));
  }
  cancelling.delete(operation.id);
  dirty = true;
}

const cancelColumn = ['', 'plain act', (operation) => {
  const button = element('button', '', 'Cancel'), why = element('span', 'bad why');
  button.type = 'button';
  button.addEventListener('click', () => askToCancel(operations.get(operation.id) || operation));
  return { children: [button, why], button, why };
}, (part, operation) => {
  const refusal = refusals.get(operation.id);
  part.button.disabled = Boolean(operation.cancel_requested || cancelling.has(operation.id));
  say(part.button, part.button.disabled ? 'Cancelling' : 'Cancel');
  part.button.setAttribute('aria-label', `${part.button.textContent} ${shown(operation.label || '')} ${operation.id}`);
  say(part.why, refusal ? 'Not cancelled: ' + refusal.why : '');
}];

/* ---- JSON of a row ---- */

/* Asks for it anew; what the page knew stands there where the worker has it no more. A peer is an element of its list. */
async function showJson(path, item) {
  let found = item, note = '';
  try {
    found = await json(path);
    if (found.peers) found = found.peers.find((peer) => peer.epoch === item.epoch) || item;
  } catch (error) {
    note = `${because(error)} This is what the page knew.`;
  }
  say($('json-path'), path);
  say($('json-note'), note);
  const text = JSON.stringify(found, (key, value) => key === 'rate' || key === 'at' ? undefined : value, 2);
  $('json-text').textContent = text.split('\n').map(shown).join('\n');
  $('json').showModal();
  dirty = true;
}

/* ---- the tables ---- */

const keyOf = (item) => item.id;
const kindColumn = words('', 'plain tight', (o) => o.kind);
const peerColumn = words('with', 'peer', (o) => peerName(o.peer));

const showTransfers = table('transfers', [operationColumn, kindColumn, peerColumn, progressColumn,
  words('', 'plain tight', rateText), words('for', 'tight', (o) => age(o.created_at)), cancelColumn], keyOf);
const showEnded = table('ended', [operationColumn, words('', 'plain', endText, (o) => o.status === 'ERRORED' ? 'bad' : ''),
  words('at', 'tight', (o) => clock(o.ended_at)), kindColumn, peerColumn,
  words('', 'plain tight', (o) => size(movedBy(o))), words('', 'plain tight', meanRate), words('by', '', (o) => o.transport || '')], keyOf);
const showOffers = table('offers', [operationColumn, kindColumn, words('', 'plain tight', (o) => size(o.bytes_total)),
  words('used', 'tight', usesText), words('time left', 'tight', (o) => timeLeft(o.expires_at)), cancelColumn], keyOf);
const showRegions = table('regions', [named((r) => '/v1/regions/' + r.id, (r) => r.name, (r) => r.id),
  words('', 'plain tight', (r) => size(r.size)), words('on', 'tight', (r) => r.device),
  words('', 'plain', (r) => r.state === 'preparing' ? `preparing, ${size(r.bytes_prepared)}` : r.state, (r) => r.state === 'failed' ? 'bad' : ''),
  words('used by', 'tight', (r) => counted(r.in_use, 'operation')), words('for', 'tight', (r) => age(r.created_at))], keyOf);
const showPeers = table('peers', [named(() => '/v1/peers', peerName, (p) => `run ${p.epoch}`),
  words('', 'plain', (p) => p.status, (p) => p.error ? 'bad' : ''), words('by', '', (p) => p.transport || ''),
  words('now', 'tight', (p) => counted(p.transfers, 'transfer')), words('moved', 'tight', (p) => size(p.bytes_done)),
  words('', 'plain grow', (p) => [...(p.error ? [p.error.detail] : []), ...p.unused.map((u) => `${u.transport}: ${u.reason}`)].join('; '))],
(p) => p.epoch);
const showCodes = table('codes', [words('', 'plain tight', ([code]) => code), words('operations', 'tight', (row) => String(row[1])),
  words('requests', 'tight', (row) => String(row[2]))], ([code]) => code);
const showFailures = table('failures', [operationColumn, words('', 'plain tight', (o) => o.error.code, () => 'bad'),
  words('at', 'tight', (o) => clock(o.ended_at)), peerColumn,
  words('', 'plain grow', (o) => o.error.detail)], keyOf);

/* Says beside a heading how many there are, and which of them the table has where they are more than most. */
function head(id, n, text, most, which) {
  say($(id), n ? text + (n > most ? `, here the ${most} ${which}` : '') : '');
}

/* Offers without a limit come last, in the order in which they were made. */
const endOf = (o) => o.expires_at ? Date.parse(o.expires_at) : Number.MAX_VALUE;
const sooner = (a, b) => endOf(a) - endOf(b) || Date.parse(a.created_at) - Date.parse(b.created_at);

/* Shows the transfers and the offers; those whose cancel was refused stay until that was told. */
function showOperations(held) {
  const live = [...operations.values()];
  for (const { operation } of refusals.values()) if (!operations.has(operation.id)) live.push(operation);
  const offers = live.filter(isOffer).sort(sooner), transfers = live.filter((o) => !isOffer(o));
  showTransfers(transfers.slice(0, RUNNING), held);
  showOffers(offers.slice(0, ROWS), held);
  if (held) return;
  head('n-transfers', transfers.length, `${transfers.length} running`, RUNNING, 'oldest');
  head('n-offers', offers.length, `${offers.length} waiting for a peer`, ROWS, 'that end first');
  say($('count-transfers'), String(transfers.length));
  say($('count-offers'), String(offers.length));
}

function showMemory(held) {
  showRegions([...regions].sort((a, b) => b.size - a.size).slice(0, ROWS), held);
  if (held) return;
  const used = metric('ferry_region_bytes'), limit = metric('ferry_memory_limit_bytes'), n = metric('ferry_regions');
  head('n-regions', n, counted(n, 'region'), ROWS, 'largest' + (n > regions.length ? ` of the first ${regions.length}` : ''));
  say($('memory'), `${size(used)} of ${size(limit)} in ${counted(n, 'region')}`);
  $('memory-bar').style.width = (limit ? Math.min(100, 100 * used / limit) : 0) + '%';
  $('memory-bar').classList.toggle('full', limit > 0 && used >= 0.9 * limit);
}

function showFaults(held) {
  const counts = countsByCode(), sum = (i) => counts.reduce((s, row) => s + row[i], 0);
  showCodes(counts, held);
  showFailures(failures, held);
  if (held) return;
  say($('no-failures'), sum(1) ? 'None that the worker still remembers.' : 'None.');
  say($('n-failures'), counts.length ? `${counted(sum(1), 'operation')}, ${counted(sum(2), 'request')}` : '');
}

/* The numbers that are in no table. */
function showNow() {
  say($('count-waiters'), String(metric('ferry_http_waiters')));
  say($('count-readers'), String(metric('ferry_event_readers')));
  say($('about'), `ferryd ${worker.version}, ${worker.ucx_version ? `UCX ${worker.ucx_version}` : 'no network transport'}, up ${span(now() - worker.started)},`);
  say($('epoch'), `run ${worker.epoch}`);
  const near = Object.keys(limits).filter((name) => metric(`ferry_limit_near{limit="${name}"}`));
  const most = (name) => name === 'memory_limit' ? size(limits[name]) : limits[name];
  say($('limits'), near.map((name) => `${name} (${most(name)}) is nearly used up`).join(', '), 'warn');
}

/* While rows are held, nothing else is shown anew either whose text might need another line: that would move them. */
function show() {
  const held = isHeld();
  if (!held)
    for (const [id, refusal] of refusals) if (Date.now() > refusal.until) refusals.delete(id);
  $('held').hidden = !held;
  showOperations(held);
  showEnded(ended, held);
  showMemory(held);
  showPeers(peers, held);
  showFaults(held);
  if (!held) showNow();
}

function tick(again) {
  if (!$('main').hidden) {
    if (dirty || again) show();
    dirty = false;
    if (again) draw();
  }
}

/* ---- the way in ---- */

function state(className, text) {
  say($('state'), text, className);
  document.body.className = className;
}

function opened() {
  document.title = shown(worker.name) + ' – Ferry';
  say($('name'), worker.name);
  $('login').hidden = true;
  $('main').hidden = false;
  tick(true);
  state('live', 'live');
}

function login(error) {
  $('main').hidden = true;
  $('ask').close();
  $('json').close();
  over = false;
  $('login').hidden = false;
  say($('refused'), token === null ? '' : error.status === 403 ? error.message
    : admitted ? 'The worker has taken another token meanwhile.' : 'That is not the token of this worker.');
  token = null;
  admitted = false;
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
$('json').addEventListener('close', () => { dirty = true; });
for (const frame of document.querySelectorAll('.scroll')) {
  frame.addEventListener('pointerenter', () => { over = true; dirty = true; });
  frame.addEventListener('pointerleave', () => { over = false; dirty = true; });
}
/* A browser may keep a page that was left, to come back to, and its stream with it. follow() goes on then. */
window.addEventListener('pagehide', () => stream.abort());
setInterval(() => tick(false), 250);
setInterval(() => tick(true), 1000);
every(1000, async () => { throughput = await json('/v1/throughput'); });
every(3000, refresh);
follow();
