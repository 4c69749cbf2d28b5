// Asks the service. The token is held here and in sessionStorage, and goes nowhere but into the Authorization header.

import { read, written } from "./dom.js";

const KEY = "agent-host-token";
let token = sessionStorage.getItem(KEY) ?? "";

// What the page does when a token is wanted, and when the windows of the rate limit have moved.
const listeners = { signIn: async () => {}, windows: () => {}, session: () => {} };
export const on = (name, listener) => (listeners[name] = listener);

export class Problem extends Error {
  constructor(status, text, retryAfter) {
    super(text);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export function setToken(text) {
  token = text.trim().replace(/^Bearer\s+/i, "");
  sessionStorage.setItem(KEY, token);
  listeners.session();
}

export function forgetToken() {
  token = "";
  sessionStorage.removeItem(KEY);
  listeners.session();
}

// What the token says of itself. It is the service that verifies it.
export function claims() {
  try {
    const part = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(part), (one) => one.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

// A token that is known to be bad is not sent once more.
const isOver = () => token === "" || (claims()?.exp ?? Infinity) <= Date.now() / 1000;

// One sign-in for all requests that want one.
let signingIn = null;
function signIn(why) {
  signingIn ??= listeners.signIn(why).finally(() => (signingIn = null));
  return signingIn;
}

async function send(path, { method = "GET", body, headers = {}, signal } = {}) {
  const all = { ...headers, authorization: `Bearer ${token}` };
  if (body !== undefined) all["content-type"] = "application/json";
  const text = body === undefined ? undefined : written(body);
  return fetch(new URL(path, document.baseURI), {
    method, headers: all, body: text, signal, cache: "no-store", credentials: "omit", redirect: "error",
  });
}

// The answer to a request, whatever its status. Where the token is missing, over or not an administrator's, the person signs in
// and the request is sent again: what was on the page stays there.
export async function ask(path, options = {}) {
  if (isOver()) await signIn(token === "" ? "missing" : "expired");
  for (;;) {
    let answer;
    try {
      answer = await send(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem(0, "The service does not answer.");
    }
    noteWindows(answer.headers);
    const why = await refusal(answer);
    if (why === null) return answer;
    await signIn(why);
  }
}

// Why a token is refused. Another 403, such as that of a decision which is for others to take, is an answer like any other. So is that
// of an administrator's token: then the page's address is refused.
async function refusal(answer) {
  if (answer.status === 401) return "missing";
  if (answer.status !== 403) return null;
  if (answer.headers.get("www-authenticate")) return "expired";
  if (claims()?.role === "admin") return null;
  const text = await answer.clone().text();
  return text.includes("Forbidden") ? "role" : null;
}

function noteWindows(headers) {
  const number = (name) => (headers.has(name) ? Number(headers.get(name)) : null);
  listeners.windows({
    address: [number("ratelimit-remaining"), number("ratelimit-limit"), number("ratelimit-reset")],
    user: [number("x-ratelimit-remaining"), number("x-ratelimit-limit")],
  });
}

export async function problem(answer) {
  const text = await answer.text().catch(() => "");
  const after = Number(answer.headers.get("retry-after")) || undefined;
  let said = text;
  try {
    const { error } = JSON.parse(text);
    said = Array.isArray(error) ? error.map((one) => `${one.path.join(".")}: ${one.message}`).join("; ") : error;
    if (said && typeof said === "object") said = said.message;
  } catch {
    // A text as it is.
  }
  if (answer.status === 403 && said === "Forbidden") said = "The service takes nothing from this page's address: name it in CORS_ORIGINS.";
  const rest = answer.status === 429 && after ? ` Try again in ${after} s.` : "";
  return new Problem(answer.status, `${said || answer.statusText || "It failed."}${rest}`, after);
}

// JSON of a successful answer, with its tag.
export async function json(path, options) {
  const answer = await ask(path, options);
  if (!answer.ok) throw await problem(answer);
  const text = await answer.text();
  const value = text === "" ? {} : read(text);
  return { value, tag: answer.headers.get("etag"), answer };
}

export const get = async (path, options) => (await json(path, options)).value;

// Texts of an address that need no token, such as /metrics.
export async function plain(path) {
  const answer = await fetch(new URL(path, document.baseURI), { cache: "no-store", credentials: "omit" });
  return answer.text();
}

// The events of a stream, one by one: {id, name, data}. It is resumed after the last event when the connection is lost, with the
// token of then, and no sooner than the service asks for: of a run that waits for somebody that is a minute. `begin` begins it where
// resuming is another request.
export async function* events(path, { signal, after = null, begin = null } = {}) {
  let from = path;
  let last = after;
  let first = begin;
  let failures = 0;
  let least = 0;
  for (;;) {
    const headers = { accept: "text/event-stream", ...(first?.headers ?? {}) };
    if (last !== null) headers["last-event-id"] = last;
    try {
      const answer = await ask(from, first ? { ...first, headers, signal } : { headers, signal });
      if (answer.status === 204) return;
      if (!answer.ok) {
        const why = await problem(answer);
        if (answer.status < 500 || failures >= 5) throw why;
        throw new Problem(0, why.message);
      }
      if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) {
        yield { id: null, name: "plain", data: read(await answer.text()) };
        return;
      }
      const location = answer.headers.get("content-location");
      if (first && location) from = location.replace(/^\//, "");
      first = first && !location ? first : null;
      for await (const event of parsed(answer.body, (retry) => (least = Math.min(retry, LONGEST_RETRY_MS)))) {
        failures = 0;
        if (event.id !== null) last = event.id;
        yield event;
        if (event.name === "run.ended" || event.name === "run.failed") return;
      }
    } catch (error) {
      if (signal?.aborted) return;
      // A request that begins something is not sent twice.
      const isLost = error instanceof TypeError || error.status === 0;
      if (!isLost || first || failures >= 5) throw error;
    }
    failures += 1;
    await pause(Math.max(Math.min(1000 * failures, 5000), least), signal);
    if (signal?.aborted) return;
  }
}

// The longest pause that the service may ask for.
const LONGEST_RETRY_MS = 600_000;

// Ends sooner when the signal says so.
const pause = (milliseconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, milliseconds);
  signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
});

// Server-sent events as WHATWG HTML, section 9.2.6, has them parsed.
async function* parsed(body, onRetry) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { id: null, name: "message", data: [] };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (event.data.length > 0) yield { ...event, data: read(event.data.join("\n")) };
          event = { id: null, name: "message", data: [] };
          continue;
        }
        const [, name, text] = /^([^:]*):? ?(.*)$/s.exec(line);
        if (name === "data") event.data.push(text);
        else if (name === "event") event.name = text;
        else if (name === "id") event.id = text;
        else if (name === "retry" && /^\d+$/.test(text)) onRetry(Number(text));
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
