// One run: what it did, call by call, what that cost, and what it does now.

import * as api from "./api.js";
import { badge, block, button, facts, fill, h, number, pretty, short, took, when, written } from "./dom.js";
import { duration } from "./runs.js";

// How often the record of a run that has ended is looked for, and how long the pause between two looks is.
const MOST_LOOKS = 20;
const BETWEEN_LOOKS_MS = 250;

export const title = (id) => `Run ${id}`;

export function open(view) {
  const [id] = view.parameters;
  const path = `admin/runs/${encodeURIComponent(id)}`;
  const head = h("div", {});
  const list = h("ol", { class: "timeline", "aria-label": "What the run did" });
  const now = h("div", { class: "now" });
  view.body.append(head, list, now);
  const state = { run: null, entries: new Map(), calls: [], words: "", isLive: false };
  let following = new AbortController();

  const load = async () => {
    let from = 0;
    do {
      const { run, data, nextFrom } = await api.get(`${path}?from=${from}`, { signal: view.signal });
      state.run = run ?? null;
      for (const entry of data) state.entries.set(entry.number, entry);
      from = nextFrom;
    } while (from !== null && state.entries.size < 5000);
    draw();
  };

  const draw = () => {
    view.show(head, summary(view, path, state));
    const entries = [...state.entries.values()].sort((a, b) => a.number - b.number);
    state.calls = [];
    view.show(list, entries.map((entry) => drawn(entry, state)));
    drawNow();
  };

  const drawNow = () => {
    const words = state.words ? block(state.words, "What the model writes") : null;
    fill(now, state.isLive ? h("p", { class: "live" }, badge("running"), " New events appear here as they come.") : null, words);
  };

  const follow = async () => {
    following.abort();
    const own = (following = new AbortController());
    const signal = AbortSignal.any([own.signal, view.signal]);
    const last = Math.max(-1, ...state.entries.keys());
    state.isLive = true;
    let hasEnded = false;
    drawNow();
    // Every part of an entry that is here is known.
    const after = last < 0 ? null : `${last}.9999`;
    try {
      for await (const event of api.events(`${path}/events`, { signal, after })) {
        take(state, event);
        hasEnded ||= ["run.ended", "run.failed"].includes(event.name);
        if (event.name === "run.failed") state.failure = event.data.body?.error;
        if (event.name === "model.delta") drawNow();
        else if (event.name !== "run.ended" && event.name !== "run.failed") draw();
        if (SAID[event.name]) view.say(SAID[event.name](event.data));
      }
    } finally {
      // Also where following it has failed: nothing comes any more.
      if (!own.signal.aborted) state.isLive = false;
      drawNow();
    }
    if (own.signal.aborted) return;
    // With the receipts in full, which only the journal has.
    await load();
    // The record is written behind the end.
    for (let again = 0; hasEnded && state.run?.outcome === "running" && again < MOST_LOOKS; again += 1) {
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_LOOKS_MS));
      await load();
    }
  };

  const again = async () => {
    following.abort();
    state.isLive = false;
    await load();
    if (!state.run || state.run.outcome === "running") await follow();
  };
  // What waits for somebody is followed with long pauses: its end is looked for at once.
  state.cancelled = () => view.attempt(again, again);
  view.attempt(again, again);
}

const SAID = {
  "model.replied": (data) => (data.finish === "tool_calls" ? "The model asks for tools." : "The model replied."),
  "tool.returned": (data) => `${data.name} returned: ${data.outcome}.`,
  "run.ended": () => "The run has ended.",
  "run.failed": () => "The run has failed.",
};

// An event of the stream as an entry of the journal, without what only the journal has.
export function take(state, { id, name, data }) {
  const number = id === null ? null : Number(id.split(".")[0]);
  if (name === "model.delta") state.words = data.reset ? "" : state.words + data.text;
  if (name === "run.started") {
    state.runId = data.runId;
    if (!state.entries.has(number)) state.entries.set(number, { number, kind: "started", model: data.model });
  }
  if (name === "model.replied") {
    state.words = "";
    const calls = (data.toolCalls ?? []).map((call) => ({ ...call, arguments: written(call.arguments) }));
    const { content: text, finish, usage, model } = data;
    state.entries.set(number, { number, kind: "model_replied", text, finish, usage, model, calls });
  }
  if (name === "tool.returned") {
    const { index, content: text, ...receipt } = data;
    state.entries.set(number, { number, kind: "tool_returned", index, text, receipt });
  }
}

function summary(view, path, state) {
  const { run, entries, failure } = state;
  const all = [...entries.values()];
  const sum = (of) => all.reduce((sum, entry) => sum + Number(of(entry) ?? 0), 0);
  const tools = all.filter((entry) => entry.kind === "tool_returned");
  const tokens = run && run.outcome !== "running" ? run.usage : {
    inputTokens: sum((entry) => entry.usage?.inputTokens), outputTokens: sum((entry) => entry.usage?.outputTokens),
    totalTokens: sum((entry) => entry.usage?.totalTokens),
  };
  const stop = button("Cancel the run", () => view.attempt(async () => {
    if (!(await view.confirm("Cancel this run?", "What it did stays recorded. It cannot be taken up again.", "Cancel it"))) return;
    await api.json(`${path}/cancel`, { method: "POST", body: {} });
    view.say("The run is cancelled, or will be within seconds.");
    state.cancelled();
  }), { "data-key": "cancel", class: "danger" });
  return [
    facts([
      ["Outcome", badge(run?.outcome ?? "running")],
      ["Why it ended", run?.stopReason?.replaceAll("_", " ")],
      ["Error", run?.error],
      ["What its readers are told", typeof failure === "string" ? failure : ""],
      ["User", run ? (run.userId ?? "nobody known") : ""],
      ["Job", run?.jobId ? h("a", { href: `#/jobs/${encodeURIComponent(run.jobId)}` }, run.jobId) : ""],
      ["Request", run?.requestId],
      ["Began", when(run?.startedAt)],
      ["Took", run && run.outcome !== "running" ? took(duration(run)) : ""],
      ["Tokens", `${number(tokens.totalTokens)} (${number(tokens.inputTokens)} read, ${number(tokens.outputTokens)} written)`],
      ["Model calls", all.filter((entry) => entry.kind === "model_replied").length],
      ["Tool calls", `${tools.length}, ${took(sum((entry) => (entry.kind === "tool_returned" ? entry.receipt.durationMs : 0)))} in tools`],
    ]),
    !run || run.outcome === "running" ? h("p", { class: "actions" }, stop) : null,
  ];
}

const called = (state, index) => state.calls[index]?.name ?? "?";

// An entry of the journal.
export function drawn(entry, state) {
  const { kind } = entry;
  // A run of one call begins with it and asks no model.
  if (kind === "model_replied" || kind === "started") state.calls = entry.calls ?? [];
  const what = HEADINGS[kind]?.(entry, state) ?? [kind];
  const body = BODIES[kind]?.(entry, state) ?? [];
  return h("li", { class: kind, value: entry.number }, h("h2", {}, h("span", { class: "number" }, `${entry.number}`), " ", what), body);
}

const HEADINGS = {
  started: (entry) => ["Began, with ", h("code", {}, entry.model)],
  model_replied: (entry) => {
    const { usage } = entry;
    const part = (count, what) => (count ? ` (${number(count)} ${what})` : "");
    const cost = usage
      ? `${number(usage.inputTokens)} tokens read${part(usage.cachedTokens, "from the provider's cache")}, ${number(usage.outputTokens)} written${part(usage.reasoningTokens, "of them thoughts")}`
      : "tokens not counted";
    return [entry.finish === "tool_calls" ? "Model asks for tools" : "Model replied", h("span", { class: "cost" }, cost)];
  },
  tools_started: (entry, state) => [`Begins ${entry.indexes.map((index) => called(state, index)).join(", ")}, not to be made twice`],
  tool_returned: (entry) => [
    "Tool ", h("code", {}, entry.receipt.name), " ", badge(entry.receipt.outcome), h("span", { class: "cost" }, took(entry.receipt.durationMs)),
  ],
  nested_started: (entry) => ["Begins ", h("code", {}, entry.tool), ", called by a tool, not to be made twice"],
  nested_returned: (entry, state) => [
    "Tool ", h("code", {}, entry.receipt.name), ", called by ", h("code", {}, called(state, entry.index)), " ", badge(entry.receipt.outcome),
    h("span", { class: "cost" }, took(entry.receipt.durationMs)),
  ],
  recording_started: (entry, state) => ["Begins ", h("code", {}, called(state, entry.index)), ", whose own calls and questions are recorded"],
  waiting: (entry) => ["Waits", h("span", { class: "cost" }, entry.waits.join(", "))],
  decided: (entry) => [
    "Decided: ", badge(entry.decision), entry.by ? [" by ", h("code", {}, entry.by)] : null, h("span", { class: "cost" }, entry.waits.join(", ")),
  ],
  cancelled: () => ["Cancelled"],
  taken_up: (entry) => ["Taken up by ", h("code", {}, entry.by)],
  handed_back: () => ["Handed back"],
};

const BODIES = {
  started: (entry) => (entry.text === undefined ? [] : [block(entry.text, "The question")]),
  model_replied: (entry) => [
    entry.text ? block(entry.text, "The reply") : null,
    (entry.calls ?? []).map((call) => h("details", { open: true },
      h("summary", {}, "Asks for ", h("code", {}, call.name)), block(pretty(call.arguments), `Arguments of ${call.name}`))),
  ],
  tool_returned: (entry) => [block(pretty(entry.text), `What ${entry.receipt.name} answered`), receipt(entry.receipt)],
  nested_returned: (entry) => [entry.error ? block(entry.error, "The error") : null, receipt(entry.receipt)],
};

// What a call came to and what it reached.
export function receipt({ component, nested, detail, durationMs, outcome }) {
  const [name, digest] = (component ?? "").split("@");
  const exchanges = (detail?.exchanges ?? []).map((one) =>
    h("li", {}, `${one.scheme}://${one.host}:${one.port}, ${one.requests} requests, ${one.failures} failed, ${number(one.sentBytes)} bytes sent, ${number(one.receivedBytes)} received`));
  const list = (texts) => (texts?.length ? h("ul", {}, texts.map((text) => h("li", {}, text))) : "");
  return h("details", { class: "receipt" }, h("summary", {}, "Receipt"), facts([
    ["Outcome", badge(outcome)],
    ["Took", took(durationMs)],
    ["Component", component ? [name, " ", short(digest)] : "none ran"],
    ["Code", detail?.code],
    ["Cause", detail?.cause],
    ["Waited", took(detail?.waitedMs)],
    ["Instantiated in", took(detail?.instantiateMs)],
    ["Ran for", took(detail?.runMs)],
    ["Peak memory", detail?.peakMemoryBytes ? `${number(detail.peakMemoryBytes)} bytes` : ""],
    ["Fuel", detail?.fuel ? number(detail.fuel) : ""],
    ["Calls of other tools", nested || ""],
    ["Attempts", detail?.attempts > 1 ? detail.attempts : ""],
    ["Kept answer", detail?.cached ? "yes" : ""],
    ["Reached", exchanges.length ? h("ul", {}, exchanges) : ""],
    ["Refused", list(detail?.refusals)],
    ["Secrets used", (detail?.secrets ?? []).join(", ")],
    ["Values of secrets replaced", detail?.redactions || ""],
    ["Arguments", short(detail?.arguments)],
    ["Policy", short(detail?.policy)],
  ]));
}
