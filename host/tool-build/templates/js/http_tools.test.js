import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { lookUp } from './tools.js';

beforeEach(() => {
  host.config.endpoint = 'https://parts.example.org';
});

test('a part is looked up', async () => {
  const asked = [];
  globalThis.fetch = async (url) => {
    asked.push(url);
    return new Response('{"name": "hinge", "in_stock": 7, "shelf": 3}');
  };
  assert.deepEqual(await lookUp({ part: 'A 1/2' }), { name: 'hinge', in_stock: 7 });
  assert.deepEqual(asked, ['https://parts.example.org/parts/A%201%2F2']);
});

test('what the server refuses is told', async () => {
  for (const [status, headers, code] of [[404, {}, 'not-found'], [401, {}, 'denied'], [503, { 'retry-after': '2' }, 'unavailable']]) {
    globalThis.fetch = async () => new Response('', { status, headers });
    await assert.rejects(lookUp({ part: 'A-100' }), { code });
  }
});
