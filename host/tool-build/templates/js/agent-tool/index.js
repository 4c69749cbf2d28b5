// Write a tool for agent-host: `defineTool` with a name, a description, a JSON Schema and a function.
//
//     import { defineTool, Failure } from './agent-tool/index.js';
//
//     defineTool({
//       name: 'greet',
//       description: 'Greets someone by name. Use it when the user asks to be greeted.',
//       hints: ['read-only', 'idempotent'],
//       input: { name: { type: 'string', description: 'Whom to greet' } },
//       run({ name }) { return { text: `Hello, ${name}!` }; },
//     });
//
// What else the host offers is in modules beside this one; a component imports what wit/world.wit says.
import * as log from './log.js';
import { Failure } from './failure.js';

export { Failure, log };

// What each hint is to the host: `never-asks` is of a tool whose component can ask somebody.
const HINTS = new Map(['read-only', 'idempotent', 'destructive', 'pure'].map((hint) => [hint, [hint, 'true']]));
HINTS.set('never-asks', ['asks', 'false']);
const tools = new Map();

/**
 * Makes a function a tool. `input` has a JSON Schema for each argument, all of them required but those in `optional`;
 * `output` is the JSON Schema of what `run` returns, if that is to be checked. `run` may be async.
 */
export function defineTool({ name, description, input = {}, optional = [], output, hints = [], timeoutMs, run }) {
  if (!/^[a-z][a-z0-9_]{0,62}$/.test(name ?? '')) {
    throw new TypeError(`\`${name}\` cannot be a tool's name: a lower-case letter, then up to 62 of a-z, 0-9 and _`);
  }
  if (!description?.trim()) {
    throw new TypeError(`the tool \`${name}\` has no description: say what it does and when to use it`);
  }
  const unknown = hints.find((hint) => !HINTS.has(hint));
  if (unknown !== undefined) {
    throw new TypeError(`the tool \`${name}\` has the hint ${unknown}, which is not one of ${[...HINTS.keys()].join(', ')}`);
  }
  if (typeof run !== 'function') throw new TypeError(`the tool \`${name}\` has no function \`run\``);
  const pairs = hints.map((hint) => HINTS.get(hint));
  if (timeoutMs !== undefined) pairs.push(['timeout-ms', String(timeoutMs)]);
  const required = Object.keys(input).filter((key) => !optional.includes(key));
  const schema = { type: 'object', properties: input, required, additionalProperties: false };
  tools.set(name, { description, schema, output, pairs, run });
}

/** What the host calls: `describe` once, when it loads the component, and `call` for each call, in a fresh instance. */
export const tool = {
  describe() {
    return [...tools].map(([name, { description, schema, output, pairs }]) => ({
      name,
      description: description.trim(),
      inputSchema: JSON.stringify(schema),
      outputSchema: output && JSON.stringify(output),
      hints: pairs,
    }));
  },

  async call(name, given) {
    try {
      const found = tools.get(name);
      if (!found) throw Failure.notFound(`there is no tool \`${name}\` here, only: ${[...tools.keys()].join(', ')}`);
      const value = await found.run(JSON.parse(given));
      return { value: JSON.stringify(value ?? null), meta: [] };
    } catch (error) {
      if (error instanceof Failure) throw { code: error.code, message: error.message, meta: error.meta };
      // The operator reads why, the model that it happened.
      log.error(`${error}\n${error?.stack ?? ''}`);
      throw { code: 'internal', message: `the tool has a defect: ${error?.name ?? 'error'}; its log says more`, meta: [] };
    }
  },
};

// What is printed has no other way out.
for (const [method, level] of [['log', 'info'], ['info', 'info'], ['debug', 'debug'], ['warn', 'warn'], ['error', 'error']]) {
  if (!globalThis.process) globalThis.console[method] = (...words) => log.write(level, words.map(String).join(' '));
}
