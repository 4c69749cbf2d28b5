// The tools of this component. `npm test` tests them; `agent-tool build` makes the component. TypeScript in tools.ts
// does as well.
//
// Where the service is stands in the operator's policy (`config`), and so does the key that it wants: the host adds it to
// the requests, and the tool never sees it.
import { get } from 'agent:tool/config@0.1.1';
import { defineTool, Failure } from './agent-tool/index.js';
import { getJson } from './agent-tool/http.js';

export async function lookUp({ part }) {
  const endpoint = get('endpoint');
  if (!endpoint) {
    throw new Failure('not-configured', 'the operator adds config = { endpoint = "https://HOST" } to the tools policy');
  }
  if (!part.trim()) throw Failure.invalidArguments("`part` is blank: give the part's number");
  const found = await getJson(`${endpoint}/parts/${encodeURIComponent(part)}`);
  return { name: found.name, in_stock: found.in_stock };
}

defineTool({
  name: '{{tool}}',
  description: 'Looks up how many of a part are in stock and what it is called. Use it when the user asks about a part by its number.',
  hints: ['read-only', 'idempotent'],
  timeoutMs: 5000,
  input: { part: { type: 'string', description: "The part's number, such as A-100" } },
  run: lookUp,
});
