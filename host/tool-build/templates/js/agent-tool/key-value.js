/**
 * Values that outlive the call, under a grant of the policy. World: `include agent:tool/keeping@0.1.1;`. Values are bytes, given
 * as text or as a Uint8Array; `getText` and `getJson` read them. In unit tests: `globalThis.host.values`.
 */
import * as host from 'agent:tool/key-value@0.1.1';
import { Failure } from './failure.js';

const encoder = new TextEncoder();
const bytes = (value) => (typeof value === 'string' ? encoder.encode(value) : value);

/** What the host refuses is thrown as the failure that the model is told, unless the tool catches it. */
function asked(operation, ...args) {
  try {
    return operation(...args);
  } catch (error) {
    const fault = error?.payload;
    if (!fault?.code) throw error;
    throw new Failure(fault.code, fault.message);
  }
}

/** The bytes under a key, or undefined. */
export const get = (key) => asked(host.get, key);

export function getText(key) {
  const value = get(key);
  return value && new TextDecoder().decode(value);
}

export function getJson(key) {
  const text = getText(key);
  return text && JSON.parse(text);
}

/** Puts a value under a key, for good or for `ttlMs` milliseconds. */
export const set = (key, value, ttlMs) => asked(host.set, key, bytes(value), ttlMs === undefined ? undefined : BigInt(ttlMs));

/** Puts a value if what is there is `expected` (undefined: nothing). False, and nothing done, if it is something else. */
export const swap = (key, expected, value) => asked(host.swap, key, expected === undefined ? undefined : bytes(expected), bytes(value));

/** Adds to the number under a key and returns the sum. Numbers beyond 2^53 stay exact in the store only. */
export const add = (key, delta) => Number(asked(host.add, key, BigInt(delta)));

/** Removes a key. False if nothing was there. */
export const remove = (key) => asked(host.delete, key);

/** Keys that begin with `prefix` and come after `after`, in the order of their bytes: at most `most`, and at most 1,000. */
export const listKeys = (prefix = '', after = undefined, most = 1000) => asked(host.listKeys, prefix, after, most);
