// SPDX-License-Identifier: Apache-2.0
// Moves bytes from worker A to worker B: node move.mjs http://HOST-A:PORT http://HOST-B:PORT (Node 18 or later)
const [a, b] = process.argv.slice(2, 4).map((url) => url + '/v1');
const bytes = new Uint8Array(1 << 20).map((_, i) => i);

async function call(url, method = 'GET', body = undefined) {
  const json = body !== undefined && !(body instanceof Uint8Array);
  const answer = await fetch(url, {
    method,
    headers: json ? { 'Content-Type': 'application/json' } : {},
    body: json ? JSON.stringify(body) : body,
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}
const post = async (url, body) => (await call(url, 'POST', body)).json();

const source = await post(`${a}/regions`, { size: bytes.length });
const target = await post(`${b}/regions`, { size: bytes.length });
await call(`${a}/regions/${source.id}/content`, 'PUT', bytes);

const offer = await post(`${a}/operations?include=metadata`, { kind: 'readable', descriptors: [{ region: source.id }] });
const begun = await post(`${b}/operations`, {
  kind: 'read',
  descriptors: [{ region: target.id }],
  remote_metadata: offer.metadata,
});
const read = await (await call(`${b}/operations/${begun.id}?wait_ms=30000`)).json();
console.log(read.status, read.transport, read.duration_us, 'us');

const moved = new Uint8Array(await (await call(`${b}/regions/${target.id}/content`)).arrayBuffer());
console.log(Buffer.compare(moved, bytes) ? 'different' : 'same');
await call(`${a}/regions/${source.id}`, 'DELETE');
await call(`${b}/regions/${target.id}`, 'DELETE');
