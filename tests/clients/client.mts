// SPDX-License-Identifier: Apache-2.0
// The whole cycle by openapi-fetch with the types that openapi-typescript makes of openapi.yaml, checked by tsc.
// node client.mjs URL-A URL-B
import createClient from 'openapi-fetch';
import type { components, paths } from './ferry.js';

const [a, b] = process.argv.slice(2, 4).map((baseUrl) => createClient<paths>({ baseUrl }));
const bytes = new Uint8Array(1 << 20).map((_, i) => i);

// The data of an answer, or the problem as an exception.
async function done<T>(answer: Promise<{ data?: T; error?: components['schemas']['Problem'] }>): Promise<T> {
  const { data, error } = await answer;
  if (error) throw new Error(`${error.code}: ${error.detail}`);
  return data as T;
}

const path = (id: string) => ({ path: { id } });

const source = await done(a.POST('/v1/regions', { body: { size: bytes.length } }));
const target = await done(b.POST('/v1/regions', { body: { size: bytes.length } }));
await done(
  a.PUT('/v1/regions/{id}/content', {
    params: path(source.id),
    body: bytes as unknown as string,
    bodySerializer: (body) => body as unknown as BodyInit,
    headers: { 'Content-Type': 'application/octet-stream' },
  }),
);
const offer = await done(
  a.POST('/v1/operations', { body: { kind: 'readable', descriptors: [{ region: source.id }] } }),
);
const metadata = await done(a.GET('/v1/operations/{id}/metadata', { params: path(offer.id) }));
const begun = await done(
  b.POST('/v1/operations', {
    body: { kind: 'read', descriptors: [{ region: target.id }], remote_metadata: metadata },
  }),
);
const read = await done(
  b.GET('/v1/operations/{id}', { params: { ...path(begun.id), query: { wait_ms: 30000 } } }),
);
console.log(read.status, read.transport, read.duration_us, 'us');

// A batch: each result is an operation, or has a problem.
const { results } = await done(
  a.POST('/v1/operations/batch', {
    body: {
      operations: [
        { kind: 'writable', descriptors: [{ region: source.id }] },
        { kind: 'writable', descriptors: [{ region: read.id }] },
      ],
    },
  }),
);
for (const result of results) {
  if (result.problem) console.log(result.problem.code, result.problem.errors?.[0].pointer);
  else await done(a.DELETE('/v1/operations/{id}', { params: path(result.id!) }));
}

const moved = await done(
  b.GET('/v1/regions/{id}/content', { params: path(target.id), parseAs: 'arrayBuffer' }),
);
await done(a.DELETE('/v1/regions/{id}', { params: path(source.id) }));
await done(b.DELETE('/v1/regions/{id}', { params: path(target.id) }));
const same = Buffer.compare(new Uint8Array(moved as unknown as ArrayBuffer), bytes) === 0;
console.log(same && read.status === 'COMPLETE' ? 'same' : 'different');
