// A place to try a prompt, streamed, and a tool.

import * as api from "./api.js";
import { badge, block, button, facts, field, fill, h, number, pretty, read, written } from "./dom.js";
import { drawn, take } from "./run.js";
import { runLink } from "./runs.js";

export const title = () => "Try";

export function open(view) {
  view.body.append(prompt(view), tool(view));
}

function prompt(view) {
  const query = h("textarea", { rows: "4", required: true, maxlength: "10000", id: "try-prompt" });
  const out = h("div", { class: "out" });
  const list = h("ol", { class: "timeline", "aria-label": "What the run does" });
  const words = h("div", {});
  const result = h("div", {});
  const stop = button("Cancel", () => running?.abort(), { hidden: true });
  let running = null;

  const ask = async () => {
    running?.abort();
    const own = (running = new AbortController());
    const signal = AbortSignal.any([own.signal, view.signal]);
    const state = { entries: new Map(), calls: [], words: "", runId: null };
    fill(list);
    fill(words);
    fill(result);
    stop.hidden = false;
    const begin = { method: "POST", body: { query: query.value }, headers: { "agent-on-disconnect": "cancel" } };
    try {
      for await (const event of api.events("api/agent", { signal, begin })) {
        if (running !== own) return;
        take(state, event);
        fill(words, state.words ? block(state.words, "What the model writes") : null);
        if (event.name !== "model.delta") {
          state.calls = [];
          view.show(list, [...state.entries.values()].sort((a, b) => a.number - b.number).map((entry) => drawn(entry, state)));
        }
        if (event.name === "tool.returned") view.say(`${event.data.name} returned: ${event.data.outcome}.`);
        if (["run.ended", "run.failed", "plain"].includes(event.name)) end(event, state);
      }
      if (own.signal.aborted && running === own) fill(result, h("p", {}, "The run is cancelled."));
    } finally {
      // What the page shows may be another run's by now.
      if (running === own) stop.hidden = true;
    }
  };
  const end = ({ name, data }, { runId }) => {
    fill(words);
    const id = data.id ?? runId;
    if (name === "run.failed") {
      const text = data.body?.error ?? "it failed";
      fill(result, h("p", { class: "problem" }, badge("failed"), " ", typeof text === "string" ? text : written(text)));
    } else {
      fill(result, h("h3", {}, "Answer"), block(data.output, "The answer"), facts([
        ["Ended", data.stopReason?.replaceAll("_", " ")], ["Tokens", number(data.usage?.totalTokens)], ["Model calls", data.iterations],
        ["Model", data.model], ["From the cache", data.cached ? "yes" : "no"],
      ]));
    }
    if (id) result.append(h("p", {}, "The run: ", runLink(id)));
    view.say(name === "run.failed" ? "The run has failed." : "The run has ended.");
  };
  const form = h("form", { onsubmit: (event) => {
    event.preventDefault();
    view.attempt(ask);
  } }, field("Prompt", query, "It is a run of yours: it costs what it costs."),
  h("p", { class: "actions" }, h("button", { type: "submit", class: "main" }, "Run"), " ", stop));
  out.append(list, words, result);
  return h("section", { "aria-label": "Try a prompt" }, h("h2", {}, "A prompt"), form, out);
}

// The tools are called as an MCP client calls them.
let message = 0;
async function mcp(method, params, signal) {
  const headers = { accept: "application/json, text/event-stream" };
  const answer = await api.ask("mcp", { method: "POST", headers, signal, body: { jsonrpc: "2.0", id: (message += 1), method, params } });
  if (!answer.ok) throw await api.problem(answer);
  const text = await answer.text();
  const isJson = answer.headers.get("content-type")?.startsWith("application/json");
  const messages = isJson ? [text] : text.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
  const found = messages.filter((one) => one.trim()).map((one) => read(one)).find((one) => "result" in one || "error" in one);
  if (!found) throw new api.Problem(0, "There was no answer.");
  if (found.error) throw new api.Problem(400, found.error.message);
  return found.result;
}

function tool(view) {
  const choice = h("select", { id: "try-tool", onchange: () => choose() });
  const values = h("textarea", { rows: "4", spellcheck: "false", class: "code", id: "try-arguments" });
  values.value = "{}";
  const about = h("div", {});
  const result = h("div", { role: "status" });
  let tools = [];
  const choose = () => {
    const found = tools.find((one) => one.name === choice.value);
    fill(about, found ? [h("p", {}, found.description ?? ""), h("details", {}, h("summary", {}, "Schema of the arguments"),
      block(written(found.inputSchema, 2), "Schema of the arguments"))] : null);
  };
  const load = async () => {
    tools = (await mcp("tools/list", {}, view.signal)).tools;
    fill(choice, tools.map((one) => h("option", { value: one.name }, one.name)));
    choose();
  };
  const call = async () => {
    let args;
    try {
      args = read(values.value);
    } catch (error) {
      throw new api.Problem(400, `The arguments are no JSON: ${error.message}`);
    }
    fill(result, h("p", {}, "It is called."));
    try {
      const answer = await mcp("tools/call", { name: choice.value, arguments: args }, view.signal);
      const texts = (answer.content ?? []).map((one) => block(pretty(one.text ?? written(one)), "What the tool answered"));
      const job = answer._meta?.["agent-host/jobId"];
      const waits = job && h("p", {}, "It waits for somebody: ", h("a", { href: "#/waits" }, "decide about it"), ", or look at ",
        h("a", { href: `#/jobs/${encodeURIComponent(job)}` }, "its job"), ".");
      fill(result, h("h3", {}, "Answer ", badge(job ? "parked" : answer.isError ? "failed" : "ok")), waits, texts);
    } catch (error) {
      fill(result);
      throw error;
    }
  };
  const form = h("form", { onsubmit: (event) => {
    event.preventDefault();
    view.attempt(call);
  } }, field("Tool", choice), about, field("Arguments", values, "A JSON object"),
  h("p", { class: "actions" }, h("button", { type: "submit" }, "Call")));
  view.attempt(load, load);
  return h("section", { "aria-label": "Try a tool" }, h("h2", {}, "A tool"), form, result);
}
