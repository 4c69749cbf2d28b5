// Stands in for the host where there is none, in unit tests: `agent:tool/*` becomes what `globalThis.host` has. Loaded with
// `node --import ./agent-tool/native.mjs`.
import { register } from 'node:module';

globalThis.host = {
  answers: [], // what questions are answered with, in their order
  asked: [], // the questions
  config: {}, // what `config.get` finds
  log: [], // what was written: [level, message, fields]
  nowMs: 0,
  reports: [],
  secrets: new Set(),
  values: new Map(), // what key-value keeps
  user: undefined,
};

const modules = {
  ask: `export const ask = (question) => { host.asked.push(question); if (host.answers.length > 0) return JSON.stringify(host.answers.shift());
    throw Object.assign(new Error('rejected'), { payload: { code: 'rejected', message: 'nobody answered' } }); };`,
  log: 'export const write = (...line) => { host.log.push(line); };',
  clock: 'export const nowMs = () => BigInt(host.nowMs);',
  config: 'export const get = (key) => host.config[key];',
  secrets: 'export const exists = (name) => host.secrets.has(name);',
  progress: 'export const report = (...report) => { host.reports.push(report); return true; };',
  context: `export const requestId = () => 'native'; export const runId = () => 'run_native';
    export const callId = () => 'call_native'; export const attempt = () => 1; export const remainingMs = () => 10000n;
    export const cancelled = () => false; export const user = () => host.user; export const get = () => undefined;`,
  'key-value': `const { values } = host; const text = (bytes) => bytes && new TextDecoder().decode(bytes);
    export const get = (key) => values.get(key); export const set = (key, value) => { values.set(key, value); };
    export const swap = (key, expected, value) => text(values.get(key)) === text(expected) && Boolean(values.set(key, value));
    export const add = (key, delta) => { const sum = BigInt(text(values.get(key)) ?? 0) + delta; values.set(key, new TextEncoder().encode(sum)); return sum; };
    export const listKeys = (prefix, after = '', most) => [...values.keys()].filter((key) => key.startsWith(prefix) && key > after).sort().slice(0, Math.min(most, 1000));
    const remove = (key) => values.delete(key); export { remove as delete };`,
};
const loader = `
  const modules = ${JSON.stringify(modules)};
  export async function resolve(specifier, context, next) {
    return specifier.startsWith('agent:tool/') ? { url: specifier, shortCircuit: true } : next(specifier, context);
  }
  export async function load(url, context, next) {
    if (!url.startsWith('agent:tool/')) return next(url, context);
    const name = url.slice('agent:tool/'.length).split('@')[0];
    if (!(name in modules)) throw new Error('there is no double of agent:tool/' + name + ' in agent-tool/native.mjs: add one');
    return { format: 'module', source: modules[name], shortCircuit: true };
  }`;
register(`data:text/javascript,${encodeURIComponent(loader)}`);
