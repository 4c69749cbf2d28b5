// The queue, the jobs of a user, and one job.

import * as api from "./api.js";
import { badge, block, button, facts, field, h, number, table, took, when, written } from "./dom.js";
import { HEADS, rowOf, runLink } from "./runs.js";

const STATUSES = ["", "waiting", "active", "delayed", "parked", "completed", "failed", "cancelled"];

const jobLink = (id) => h("a", { href: `#/jobs/${encodeURIComponent(id)}` }, h("code", {}, id));

export const all = {
  title: () => "Jobs",
  open(view) {
    const depth = h("div", {});
    const recent = h("div", {});
    const list = h("div", {});
    const user = h("input", { type: "search", required: true, maxlength: "256", autocomplete: "off" });
    const status = h("select", {}, STATUSES.map((one) => h("option", { value: one }, one || "any")));
    const id = h("input", { type: "search", required: true, maxlength: "256", autocomplete: "off" });

    const load = async () => {
      const [queue, runs] = await Promise.all([
        api.get("admin/queue", { signal: view.signal }), api.get("admin/runs?limit=100", { signal: view.signal }),
      ]);
      view.show(depth, h("ul", { class: "counts" }, [["waiting", queue.waiting], ["active", queue.active], ["delayed", queue.delayed], ["parked", queue.parked]]
        .map(([name, count]) => h("li", {}, h("b", {}, number(count)), ` ${name}`)),
      queue.oldestWaitingSeconds === undefined ? null
        : h("li", {}, h("b", {}, took(queue.oldestWaitingSeconds * 1000)), " the oldest has waited")));
      const rows = runs.data.filter((run) => run.jobId).slice(0, 25).map(rowOf);
      view.show(recent, table("Runs of jobs that ended last", HEADS, rows, "No runs of jobs are among the last 100."));
    };
    // A page of what was asked for, behind those that are known: what stands in the fields by now may be something else.
    const ask = async (wanted, before, after) => {
      const query = new URLSearchParams({ ...wanted, limit: "25" });
      if (after) query.set("cursor", after);
      const { data, nextCursor } = await api.get(`admin/jobs?${query}`, { signal: view.signal });
      const page = [...before, ...data];
      const rows = page.map((job) => [jobLink(job.jobId), badge(job.status), when(job.createdAt), job.attemptsMade, job.error ?? "–", runLink(job.runId)]);
      const caption = `Jobs of ${wanted.user}, the newest first`;
      view.show(list, table(caption, ["Job", "Status", "Submitted", "Attempts", "Error", "Run"], rows, "The user has no such jobs."),
        nextCursor ? button("Older jobs", () => view.attempt(() => ask(wanted, page, nextCursor)), { "data-key": "older" }) : null);
      view.say(`${page.length} jobs are shown.`);
    };

    const find = h("form", { class: "filter", role: "search", "aria-label": "Jobs of a user", onsubmit: (event) => {
      event.preventDefault();
      const wanted = { user: user.value, ...(status.value ? { status: status.value } : {}) };
      view.attempt(() => ask(wanted, [], null));
    } }, field("User", user), field("Status", status), h("p", {}, h("button", { type: "submit" }, "List jobs")));
    const look = h("form", { class: "filter", role: "search", "aria-label": "A job by its id", onsubmit: (event) => {
      event.preventDefault();
      location.hash = `#/jobs/${encodeURIComponent(id.value)}`;
    } }, field("Job", id), h("p", {}, h("button", { type: "submit" }, "Open")));
    view.body.append(h("section", { "aria-label": "Queue" }, h("h2", {}, "Queue"), depth), recent,
      h("section", { "aria-label": "Find jobs" }, h("h2", {}, "Find jobs"), find, look, list));
    view.live(load);
  },
};

export const one = {
  title: (id) => `Job ${id}`,
  open(view) {
    const [id] = view.parameters;
    const path = `admin/jobs/${encodeURIComponent(id)}`;
    const body = h("div", {});
    view.body.append(body);
    let isOver = false;

    const change = (verb, title, text, said) => view.attempt(async () => {
      if (!(await view.confirm(title, text, title.replace("?", "")))) return;
      try {
        await api.json(`${path}/${verb}`, { method: "POST", body: {} });
        view.say(said);
      } finally {
        await load();
      }
    });
    const load = async () => {
      if (isOver) return;
      const job = await api.get(path, { signal: view.signal });
      const hasEnded = ["completed", "failed", "cancelled"].includes(job.status);
      // One that failed may be tried again, also by somebody else.
      isOver = hasEnded && job.status !== "failed";
      const cancel = button("Cancel the job", () => change("cancel", "Cancel this job?", "Its work stops within seconds.", "The job is cancelled, or will be."), { "data-key": "cancel", class: "danger" });
      const retry = button("Try it again", () => change("retry", "Try this job again?", "It is one more attempt, in a run of its own.", "The job waits for a worker."), { "data-key": "retry" });
      view.show(body,
        facts([
          ["Status", badge(job.status)], ["User", job.userId], ["Run", runLink(job.runId)], ["Attempts that have ended", job.attemptsMade],
          ["Submitted", when(job.createdAt)], ["Last attempt began", when(job.startedAt)], ["Ended", when(job.finishedAt)], ["Error", job.error],
        ]),
        h("p", { class: "actions" }, hasEnded ? null : cancel, job.status === "failed" ? retry : null),
        job.result === undefined ? null
          : h("section", { "aria-label": "Result" }, h("h2", {}, "Result"), block(written(job.result, 2), "The result")));
    };
    view.live(load);
  },
};
