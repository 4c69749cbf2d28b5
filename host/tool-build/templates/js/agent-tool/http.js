/**
 * Requests to what the operator's policy grants; credentials are added by the host. package.json: `"features": ["http"]`.
 * A request that the policy denies fails as one that nobody answered does: the engine's `fetch` has one error for all.
 * Unit tests put a function in the place of `globalThis.fetch`.
 */
import { Failure } from './failure.js';

/** Sends a request and throws the failure that its status means. */
export async function send(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    throw Failure.unavailable(`the request was not answered: ${error?.message ?? error}; the log says whether it was denied`);
  }
  const { status } = response;
  const message = `the server answered HTTP ${status}`;
  if (status >= 200 && status < 300) return response;
  if (status === 401 || status === 403) {
    throw Failure.denied(`${message}: the operator's policy has to give this tool a secret that it accepts`);
  }
  if (status === 404 || status === 410) throw Failure.notFound(message);
  if ([408, 425, 429].includes(status) || status >= 500) {
    const seconds = response.headers.get('retry-after')?.trim();
    throw Failure.unavailable(message, /^\d+$/.test(seconds ?? '') ? Number(seconds) * 1000 : undefined);
  }
  throw new Failure('http-status', message);
}

export async function getJson(url, headers = {}) {
  return json(await send(url, { headers: { accept: 'application/json', ...headers } }));
}

export async function postJson(url, value, headers = {}) {
  const all = { accept: 'application/json', 'content-type': 'application/json', ...headers };
  return json(await send(url, { method: 'POST', headers: all, body: JSON.stringify(value) }));
}

async function json(response) {
  let text;
  try {
    text = await response.text();
  } catch (error) {
    throw Failure.unavailable(`the answer broke off: ${error?.message ?? error}`);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw Failure.unavailable(`the server's answer is no JSON: ${error.message}`);
  }
}
