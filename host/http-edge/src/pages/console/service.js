// How the service is: its checks, limits, cache, and some of its metrics.

import * as api from "./api.js";
import { badge, facts, field, fill, h, number, table, took, when } from "./dom.js";

export const title = () => "Service";

// The metrics that are shown, in this order.
const METRICS = [
  "agent_active_requests", "agent_admission_in_use", "agent_admission_waiting", "agent_circuit_state", "agent_runs_total", "agent_cache_requests_total",
  "agent_model_calls_total", "agent_tool_calls_total", "agent_queue_waiting_jobs", "agent_queue_active_jobs", "agent_queue_delayed_jobs",
  "agent_rate_limited_total", "agent_rate_fallbacks_total", "agent_http_connections", "agent_process_resident_memory_bytes",
];

export function open(view) {
  const state = h("div", {});
  const metrics = h("div", {});
  const pattern = h("input", { type: "text", required: true, maxlength: "256", autocomplete: "off", spellcheck: "false" });
  pattern.value = "agent:*";
  const forgotten = h("p", { role: "status" });

  const load = async () => {
    const [status, text] = await Promise.all([api.get("admin/status", { signal: view.signal }), api.plain("metrics").catch(() => "")]);
    view.show(state, drawn(status));
    const rows = METRICS.flatMap((name) => samples(text, name)).map(([name, labels, value]) => [h("code", {}, name), labels || "–", value]);
    view.show(metrics, table("Some of its metrics", ["Metric", "Labels", "Value"], rows, "The metrics cannot be read."));
  };
  const forget = h("form", { class: "filter", "aria-label": "Forget kept results", onsubmit: (event) => {
    event.preventDefault();
    view.attempt(async () => {
      const text = `Results whose keys match ${pattern.value} are removed. Equal questions are answered by a model again.`;
      if (!(await view.confirm("Forget these results?", text, "Forget them"))) return;
      const { deleted } = (await api.json(`api/agent/cache?${new URLSearchParams({ pattern: pattern.value })}`, { method: "DELETE" })).value;
      fill(forgotten, `${number(deleted)} results were forgotten.`);
    });
  } }, field("Keys", pattern, "With *, ? and […] as in Redis"), h("p", {}, h("button", { type: "submit", class: "danger" }, "Forget results")), forgotten);
  view.body.append(state, h("section", { "aria-label": "Cache" }, h("h2", {}, "Cache"), forget), metrics);
  view.live(load);
}

function drawn({ version, timestamp, uptime, production, prepared, checks, limits, features }) {
  const rows = checks.map((check) => [check.name, badge(check.status), took(check.latencyMs), check.reason ?? "–"]);
  const within = ({ requests, seconds }) => `${number(requests)} in ${number(seconds)} s`;
  const onOff = (value) => (value ? "on" : "off");
  return [
    h("section", { "aria-label": "Health" }, h("h2", {}, "Health"), facts([
      ["Version", version], ["Up for", `${number(Math.round(uptime))} s`], ["As of", when(timestamp)],
      ["NODE_ENV is production", production ? "yes" : "no"], ["Tables are there", prepared ? "yes" : "no"],
    ]), table("What it depends on", ["Check", "Status", "Took", "Why not"], rows, "There are no checks.")),
    h("section", { "aria-label": "Limits" }, h("h2", {}, "Limits"), facts([
      ["Requests of an address", within(limits.address)], ["Requests of a user", within(limits.user)],
      ["Requests of a premium user", within({ ...limits.user, requests: limits.premiumRequests })],
      ["Body", `${number(limits.maxBodyBytes)} bytes`], ["Streams of a user at once", limits.streamsPerUser],
    ])),
    h("section", { "aria-label": "Features" }, h("h2", {}, "Features"), facts([
      ["Clients of OpenAI", onOff(features.openai)], ["Webhooks", onOff(features.webhooks)], ["Cluster", onOff(features.cluster)],
      ["Result cache", onOff(features.resultCache)], ["Versions of tools", onOff(features.toolAdmin)],
    ])),
  ];
}

// Name, labels and value of the samples of a metric, in the text format.
function samples(text, name) {
  const lines = text.split("\n").filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  return lines.slice(0, 20).map((line) => {
    const space = line.lastIndexOf(" ");
    const value = Number(line.slice(space + 1));
    return [name, line.slice(name.length, space).replace(/^\{|\}$/g, ""), Number.isFinite(value) ? number(value) : line.slice(space + 1)];
  });
}
