import assert from 'node:assert/strict';
import { test } from 'node:test';
import { greet } from './tools.js';

test('a guest is greeted by name', () => {
  assert.deepEqual(greet({ name: 'Ada' }), { text: 'Hello, Ada!' });
});

test('a blank name is refused', () => {
  assert.throws(() => greet({ name: ' ' }), { code: 'invalid-arguments' });
});
