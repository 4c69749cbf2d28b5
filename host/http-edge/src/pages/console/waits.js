// What runs wait for somebody to decide, and deciding it.

import * as api from "./api.js";
import { badge, block, button, facts, field, h, read, short, when, written } from "./dom.js";
import { runLink } from "./runs.js";

export const title = () => "Waits";

// How many waits are asked for at once.
const PAGE = 20;

// What would be done, as whoever decides is shown it. A question has its words first.
function shown(wait) {
  const { tool, arguments: given, component, policy, destructive } = wait.shown;
  return [
    facts([
      ["Kind", badge(wait.kind)], ["Tool", tool], ["Component", component], ["Policy", policy ? short(policy) : null],
      ["May destroy something", destructive === undefined ? null : destructive ? "yes" : "no"],
      ["User", wait.userId], ["Run", runLink(wait.runId)], ["Since", when(wait.beganAt)], ["Until", when(wait.expiresAt)],
      ["Then", wait.onExpiry], ["Tokens so far", wait.tokens], ["Have to approve", wait.approvalsNeeded],
      ["Have decided", wait.decisions.map((one) => `${one.by}: ${one.decision}`).join(", ")],
    ]),
    block(written(given, 2), `Arguments of ${tool}`),
  ];
}

// What is different from the call of the same tool that was approved last for the same user.
function changed({ lastApproved }) {
  if (!lastApproved) return null;
  const word = (value) => (value === undefined ? "nothing" : written(value));
  const changes = lastApproved.changes.map(({ path, before, now }) => [path || "all", `${word(now)} instead of ${word(before)}`]);
  return [
    h("h3", {}, `Since the one approved ${when(lastApproved.at)}`),
    changes.length === 0 ? h("p", { class: "none" }, "The same arguments.") : facts(changes),
  ];
}

export function open(view) {
  const list = h("div", {});
  view.body.append(h("p", { class: "note" }, "Calls that you may decide about. What you approve is carried out exactly as it is shown."), list);
  // Answers and reasons that were typed and not sent, by their fields: a list that is shown anew has them again.
  const typed = new Map();
  let pages = 1;

  const decide = (wait, decision, question, yes) => view.attempt(async () => {
    // What is sent, as it is: an answer, or the call.
    const what = written("answer" in decision ? decision.answer : wait.shown.arguments);
    const why = decision.reason ? `. Because: ${decision.reason}` : "";
    if (!(await view.confirm(question, `${wait.shown.tool} for ${wait.userId}: ${what}${why}`, yes))) return;
    try {
      const { value } = await api.json(`api/agent/waits/${encodeURIComponent(wait.waitId)}/decision`, {
        method: "POST", body: decision, headers: { "if-match": `"${wait.digest}"` },
      });
      view.say(value.goesOn ? "It is decided." : "It is noted. Others have to decide as well before the run goes on.");
    } finally {
      // Somebody may have been first, and what is shown is no more.
      await load();
    }
  });

  // Keeps what is typed into a field, and puts what was typed before into it.
  const kept = (name, id, fields) => {
    const input = h(name, { ...fields, id, "data-key": id, oninput: () => typed.set(id, input.value) });
    input.value = typed.get(id) ?? "";
    return input;
  };

  // An answer to a question: JSON where its schema wants some, else the text.
  const answering = (wait) => {
    const answer = kept("textarea", `answer-${wait.waitId}`, { rows: "3", required: true, maxlength: "10000" });
    return h("form", { onsubmit: (event) => {
      event.preventDefault();
      let value = answer.value;
      if (wait.answerSchema && wait.answerSchema.type !== "string") {
        try {
          value = read(answer.value);
        } catch {
          return view.attempt(() => Promise.reject(new Error("The answer has to be JSON.")));
        }
      }
      return decide(wait, { decision: "answer", answer: value }, "Send this answer?", "Send");
    } }, wait.answerSchema ? block(written(wait.answerSchema, 2), "What an answer has to meet") : null,
    field("Answer", answer), h("p", { class: "actions" }, h("button", { type: "submit" }, "Answer")));
  };

  const item = (wait) => {
    const name = wait.kind === "question" ? wait.shown.arguments.question : `${wait.shown.tool} (${wait.kind}${wait.within ? `, in ${wait.within.tool}` : ""})`;
    const approve = button("Approve", () => decide(wait, { decision: "approve" }, "Approve this call?", "Approve"), { "data-key": `approve ${wait.waitId}` });
    const reason = kept("input", `reason-${wait.waitId}`, { maxlength: "1000", autocomplete: "off" });
    const rejection = () => ({ decision: "reject", ...(reason.value ? { reason: reason.value } : {}) });
    const reject = button("Reject", () => decide(wait, rejection(), "Reject it?", "Reject"), { "data-key": `reject ${wait.waitId}`, class: "danger" });
    return h("section", { "aria-label": name }, h("h2", {}, name), shown(wait), changed(wait),
      wait.kind === "question" ? answering(wait) : null, field("Reason of a rejection", reason, "The model is told."),
      h("p", { class: "actions" }, wait.kind === "approval" ? approve : null, reject));
  };

  // All that is shown is read anew, with the later ones that were asked for.
  const load = async () => {
    const waits = [];
    let cursor = null;
    for (let page = 0; page < pages && (page === 0 || cursor); page += 1) {
      const query = new URLSearchParams({ of: "decidable", limit: PAGE });
      if (cursor) query.set("cursor", cursor);
      const { data, nextCursor } = await api.get(`api/agent/waits?${query}`, { signal: view.signal });
      waits.push(...data);
      cursor = nextCursor;
    }
    const later = () => view.attempt(() => {
      pages += 1;
      return load();
    });
    // Of a page of jobs all may be for others to decide.
    const none = cursor ? "None of these waits for you. There are later ones." : "Nothing here waits for you.";
    view.show(list, waits.length === 0 ? h("p", { class: "none" }, none) : waits.map(item),
      cursor ? button("Later ones", later, { "data-key": "later" }) : null);
  };
  // The place of the caret is not taken from who is at it.
  view.live(() => (document.activeElement?.matches("textarea, input") ? undefined : load()));
}
