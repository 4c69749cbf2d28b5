// Everybody's runs, the last one first.

import * as api from "./api.js";
import { badge, button, field, h, number, table, took, when } from "./dom.js";

export const title = () => "Runs";

export const duration = (run) => new Date(run.finishedAt) - new Date(run.startedAt);

export const runLink = (id) => h("a", { href: `#/runs/${encodeURIComponent(id)}` }, h("code", {}, id));

export const rowOf = (run) => [
  runLink(run.runId),
  [badge(run.outcome), " ", run.stopReason && run.stopReason !== "completed" ? run.stopReason.replaceAll("_", " ") : ""],
  when(run.startedAt),
  run.outcome === "running" ? "–" : took(duration(run)),
  number(run.usage.totalTokens),
  run.modelCalls,
  run.userId ?? "–",
  run.jobId ? h("a", { href: `#/jobs/${encodeURIComponent(run.jobId)}` }, run.jobId) : "–",
];

export const HEADS = ["Run", "Outcome", "Began", "Took", "Tokens", "Model calls", "User", "Job"];

// Whether runs have ended between two looks that neither of them shows: what had ended keeps its place in the list.
const hasEnded = (run) => run.outcome !== "running" && run.finishedAt;
const isSame = (one, other) => one.runId === other.runId && one.finishedAt === other.finishedAt;
export const leavesGap = (before, now) =>
  before.some(hasEnded) && !now.some((run) => hasEnded(run) && before.some((other) => isSame(run, other)));

export function open(view) {
  const user = h("input", { type: "search", maxlength: "256", autocomplete: "off" });
  user.value = view.query.get("user") ?? "";
  const newer = h("p", {});
  const list = h("div", {});
  const more = h("p", {});
  const older = [];
  let cursor = null;
  let isBehind = false;
  // Whose runs are shown: what is typed counts when it is sent.
  let wanted = user.value;

  const page = async (after) => {
    const query = new URLSearchParams({ limit: "25" });
    if (wanted) query.set("user", wanted);
    if (after) query.set("cursor", after);
    return api.get(`admin/runs?${query}`, { signal: view.signal });
  };
  let newest = [];
  const show = () => {
    const known = new Set();
    const rows = [...newest, ...older].filter((run) => !known.has(run.runId) && known.add(run.runId));
    view.show(list, table("Runs, the one that ended last first", HEADS, rows.map(rowOf), "No runs are recorded."));
    const next = button("Older runs", () => view.attempt(async () => {
      const { data, nextCursor } = await page(cursor);
      older.push(...data);
      cursor = nextCursor;
      show();
      view.say(`${data.length} older runs are shown.`);
    }), { "data-key": "older" });
    view.show(more, cursor ? next : null);
    view.show(newer, isBehind ? button("Newer runs", () => view.attempt(anew, anew), { "data-key": "newer" }) : null);
  };
  const load = async () => {
    const { data, nextCursor } = await page(null);
    // Above the older ones what came between would be missing. They stay as they are until somebody wants the newer ones.
    isBehind = older.length > 0 && leavesGap(newest, data);
    if (isBehind) return show();
    const before = newest.map((run) => run.runId + run.outcome).join();
    // What has left the first page stays in its place above the older ones.
    if (older.length > 0) older.unshift(...newest.filter((run) => !data.some((other) => other.runId === run.runId)));
    else cursor = nextCursor;
    newest = data;
    show();
    if (before !== newest.map((run) => run.runId + run.outcome).join()) view.say(`${newest.length} runs are shown.`);
  };

  const anew = () => {
    older.length = 0;
    return load();
  };
  const form = h("form", { class: "filter", role: "search", onsubmit: (event) => {
    event.preventDefault();
    wanted = user.value;
    view.attempt(anew, anew);
  } }, field("User", user, "Everybody's without it"), h("p", {}, h("button", { type: "submit" }, "Show")));
  view.body.append(form, newer, list, more);
  view.live(load);
}
