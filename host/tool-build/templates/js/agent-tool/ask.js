/**
 * A person's answer in the middle of a call, under a grant of the policy (`ask = true`). World:
 * `include agent:tool/asking@0.1.2;`. The call ends at `ask`, and is made again from its beginning when somebody has answered:
 * `ask` returns the answer then. So act behind the last question. In unit tests: `globalThis.host.answers`, `.asked`.
 */
import { ask as hostAsk } from 'agent:tool/ask@0.1.2';
import { Failure } from './failure.js';

/** What the user answers, which the JSON Schema allows. Nobody's answer is a Failure with the code `rejected`. */
export function ask(question, schema = { type: 'string' }) {
  try {
    return JSON.parse(hostAsk(question, schema && JSON.stringify(schema)));
  } catch (error) {
    const fault = error?.payload;
    if (!fault?.code) throw error;
    throw new Failure(fault.code, fault.message);
  }
}
