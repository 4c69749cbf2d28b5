// The tools of this component. `npm test` tests them; `agent-tool build` makes the component. TypeScript in tools.ts
// does as well.
import { defineTool, Failure, log } from './agent-tool/index.js';

export function greet({ name }) {
  if (!name.trim()) throw Failure.invalidArguments('`name` is blank: give the first name of the one to greet');
  log.debug('greeting', { length: name.length });
  return { text: `Hello, ${name}!` };
}

defineTool({
  name: '{{tool}}',
  description: 'Writes a greeting to someone. Use it when the user asks to greet a person by name.',
  hints: ['read-only', 'idempotent'],
  timeoutMs: 1000,
  input: { name: { type: 'string', description: 'Whom to greet, by their first name' } },
  run: greet,
});
