// Elements, made without markup: every text that comes from elsewhere becomes a text node.

// What could hide, reorder or repaint text: C0 and C1 controls, marks of direction, zero-width characters, tags, line separators, and
// letters without a form, such as the fillers of Hangul.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

// The text with hidden characters written out, as `\x1b` or `\u{202e}`.
export function visible(text) {
  return String(text).replace(HIDDEN, (one) => {
    const code = one.codePointAt(0).toString(16);
    return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u{${code}}`;
  });
}

// A text of somebody else's. Characters that were written out stand apart, so that nobody takes them for the text's own.
export function foreign(text) {
  const parts = document.createDocumentFragment();
  const whole = String(text ?? "");
  let end = 0;
  for (const match of whole.matchAll(HIDDEN)) {
    parts.append(whole.slice(end, match.index), h("span", { class: "hidden-char" }, visible(match[0])));
    end = match.index + match[0].length;
  }
  parts.append(whole.slice(end));
  return parts;
}

// An element. `on…` fields are listeners, others attributes; `true` is an attribute without a value, `null` and `false` none.
export function h(name, fields = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(fields)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, visible(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : foreign(child));
  }
}

// Puts these in the place of what an element has.
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

export const button = (text, onclick, fields = {}) => h("button", { type: "button", onclick, ...fields }, text);

// A word for how something is; the colour says nothing that the word does not.
const MOODS = {
  good: ["ended", "completed", "serving", "ok", "safe", "done", "passed"],
  bad: ["failed", "down", "error", "breaking", "deleted", "timed_out", "trapped", "host_error", "interrupted"],
  busy: ["running", "active", "waiting", "delayed", "parked", "review", "outdated", "canary", "shadow"],
};
export function badge(word) {
  const mood = Object.keys(MOODS).find((one) => MOODS[one].includes(word)) ?? "plain";
  return h("span", { class: `badge ${mood}` }, word);
}

// A table with a caption. `rows` are lists of cells; the first cell is the row's header.
export function table(caption, heads, rows, none) {
  if (rows.length === 0) return h("p", { class: "none" }, none);
  const head = h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)));
  const body = rows.map((cells) =>
    h("tr", {}, cells.map((cell, index) => (index === 0 ? h("th", { scope: "row" }, cell) : h("td", {}, cell)))),
  );
  const inner = h("table", {}, h("caption", {}, caption), h("thead", {}, head), h("tbody", {}, body));
  // A wide table is scrolled by itself, also with the keyboard.
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, inner);
}

// Names and what they are.
export const facts = (pairs) =>
  h("dl", {}, pairs.filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value))));

// A field with its label.
export function field(label, input, help) {
  const id = input.id || `f-${label.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  input.id = id;
  if (help) input.setAttribute("aria-describedby", `${id}-note`);
  return h("p", { class: "field" }, h("label", { for: id }, label), help ? h("span", { class: "note", id: `${id}-note` }, help) : null, input);
}

// A block of text as it was written.
export const block = (text, label) => h("pre", { tabindex: "0", role: "region", "aria-label": label }, text);

export const number = (value) => Number(value ?? 0).toLocaleString("en");

export function when(text) {
  if (!text) return "";
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return text;
  const two = (value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return h("time", { datetime: text, title: text }, `${day} ${time}`);
}

export function took(milliseconds) {
  if (!Number.isFinite(milliseconds)) return "";
  return milliseconds < 1000 ? `${Math.round(milliseconds * 100) / 100} ms` : `${(milliseconds / 1000).toFixed(2)} s`;
}

export const short = (digest) => (digest ? h("code", { title: digest }, String(digest).replace(/^sha256:/, "").slice(0, 12)) : "–");

// JSON is read and written with every digit of its integers: JavaScript's numbers round those beyond 2^53, and a rounded one names
// something else. Such an integer is a `BigInt`: `Number(…)` before calculating with it. Browsers that keep no source text of numbers
// (before 2025) round them.
const exact = (key, value, context) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source) ? BigInt(context.source) : value;
const raw = (key, value) => (typeof value === "bigint" ? JSON.rawJSON(String(value)) : value);
export const read = (text) => JSON.parse(text, exact);
export const written = (value, indent) => JSON.stringify(value, raw, indent);

// JSON with indents, or the text itself where it is none.
export function pretty(text) {
  try {
    return written(read(text), 2);
  } catch {
    return String(text ?? "");
  }
}
