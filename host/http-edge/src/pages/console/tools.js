// The components: which version of each serves, what waits for an approval, what is tried; and changing that.

import * as api from "./api.js";
import { badge, block, button, facts, field, fill, h, number, short, table, when, written } from "./dom.js";

export const all = {
  title: () => "Tools",
  open(view) {
    const list = h("div", {});
    view.body.append(list);
    view.live(async () => {
      const { data } = await api.get("admin/tools", { signal: view.signal });
      const rows = data.map((one) => [
        h("a", { href: `#/tools/${encodeURIComponent(one.name)}` }, one.name), badge(one.status), short(one.active), short(one.serving),
        one.waiting ? h("b", {}, `${one.waiting} to approve`) : "–",
        one.trial ? [`${one.trial.kind} `, badge(one.trial.state), " ", short(one.trial.digest)] : "–", one.fault ?? "–",
      ]);
      const heads = ["Component", "Status", "Is to serve", "Serves here", "Waits", "Trial", "Fault"];
      view.show(list, table("Components", heads, rows, "There are no components."));
    });
  },
};

const KINDS = {
  approve: ["Approve", "It serves from now on.", (digest) => ({ digest })],
  "approve-only": ["Approve, without serving", "It may serve, so that it can be tried first.", (digest) => ({ digest, serve: false }), "approve"],
  described: ["Approve the new description", "It serves from now on as it describes itself by now.", (digest, facts) => ({ digest, facts }), "approve"],
  rollback: ["Roll back to it", "This earlier version serves from now on.", (digest) => ({ digest })],
  serve: ["Have it serve", "This version serves from now on.", (digest) => ({ digest }), "promote"],
  promote: ["Promote", "The trial ends, and this version serves from now on.", (digest) => ({ digest })],
  "end-trial": ["End the trial", "What serves stays.", () => ({})],
  disable: ["Disable", "The component serves no longer. Its versions stay.", () => ({})],
  enable: ["Enable", "The component serves again.", () => ({})],
};

export const one = {
  title: (name) => `Tool ${name}`,
  open(view) {
    const [name] = view.parameters;
    const path = `admin/tools/${encodeURIComponent(name)}`;
    const body = h("div", {});
    const difference = h("div", { tabindex: "-1" });
    const audit = h("div", {});
    view.body.append(body, difference, audit);
    let tag = null;
    let shown = null;

    const load = async () => {
      const { value, tag: read } = await api.json(path, { signal: view.signal });
      // Drawn anew only when it has changed, so that nobody's finger misses a button. What serves here follows a change of the
      // revision a moment later.
      const now = JSON.stringify([read, value.status, value.serving, value.fault]);
      if (now === shown && value.trial?.state.kind !== "running") return;
      [tag, shown] = [read, now];
      view.show(body, drawn(view, value, { change, compare, begin }));
    };
    const change = (kind, digest, facts) => view.attempt(async () => {
      const [label, text, make, verb = kind] = KINDS[kind];
      const seen = tag;
      const about = digest ? [" Version ", short(digest), "."] : "";
      if (!(await view.confirm(`${label}: ${name}`, [text, about], label))) return;
      await send(verb, make(digest, facts), seen);
      view.say(`${label}: done.`);
    });
    // The revision goes along that was there when the button was pressed: whoever has changed the component meanwhile, also
    // while the question was open, is not overruled unseen.
    const send = async (verb, value, seen) => {
      const headers = seen ? { "if-match": seen } : {};
      try {
        await api.json(`${path}/${verb}`, { method: "POST", body: value, headers });
      } finally {
        shown = null;
        await load();
      }
      if (trail.open) await showTrail();
    };
    const begin = (digest, kind, share) => view.attempt(async () => {
      const seen = tag;
      const text = kind === "canary" ? "It serves that share of the runs." : "It gets that share of the calls beside the version that serves, and its answers are thrown away.";
      if (!(await view.confirm(`Begin a ${kind} of ${name}`, [text, " Version ", short(digest), "."], "Begin"))) return;
      await send(kind, { digest, share }, seen);
      view.say(`The ${kind} has begun.`);
    });
    const compare = (from, to) => view.attempt(async () => {
      const query = new URLSearchParams();
      if (from) query.set("from", from);
      query.set("to", to);
      const found = await api.get(`${path}/diff?${query}`, { signal: view.signal });
      const rows = found.findings.map((one) => [h("code", {}, one.place), badge(one.impact), one.text]);
      fill(difference, h("section", { "aria-label": "Comparison" },
        h("h2", {}, "From ", short(found.from), " to ", short(found.to), " ", badge(found.impact)),
        found.widens ? h("p", { class: "warning" }, "It imports or is granted more than the older one.") : null,
        found.changesWhatModelsRead ? h("p", { class: "warning" }, "Models read something else.") : null,
        table("Differences", ["Where", "Impact", "What"], rows, "There is no difference that matters.")));
      difference.focus();
    });
    const showTrail = () => view.attempt(async () => {
      const { data } = await api.get(`${path}/audit`, { signal: view.signal });
      const rows = data.map((line) => [when(line.at), line.by, line.action, short(line.digest), line.detail || "–"]);
      fill(audit, table("Who did what, the newest first", ["When", "Who", "What", "Version", "More"], rows, "Nothing was done yet."));
    });
    const trail = h("details", { ontoggle: () => trail.open && showTrail() }, h("summary", {}, "Who did what"), audit);
    view.body.append(trail);
    view.live(load);
  },
};

function drawn(view, component, act) {
  const { active, previous, trial, enabled } = component;
  const isTried = trial?.state.kind === "running";
  const toggle = enabled ? "disable" : "enable";
  return [
    facts([
      ["Status", badge(component.status)], ["Revision", component.revision], ["Is to serve", short(active)],
      ["Serves here", short(component.serving)], ["Fault", component.fault],
    ]),
    h("p", { class: "actions" }, button(KINDS[toggle][0], () => act.change(toggle), { "data-key": toggle })),
    component.described ? drawnDescription(component.described, act) : null,
    trial ? drawnTrial(trial, isTried, act) : null,
    h("section", { "aria-label": "Versions" }, h("h2", {}, "Versions, the newest first"),
      component.versions.map((version) => drawnVersion(version, { active, previous, isTried }, act))),
  ];
}

// How the version that is to serve describes itself by now, where this replica refuses it for that.
function drawnDescription({ digest, factsDigest }, act) {
  return h("section", { "aria-label": "Another description" }, h("h2", {}, "It describes itself otherwise than when it was approved"),
    h("p", { class: "actions" },
      button("Compare with what was approved", () => act.compare(digest, digest), { "data-key": "described-diff" }), " ",
      button(KINDS.described[0], () => act.change("described", digest, factsDigest), { "data-key": "described", class: "main" })));
}

function drawnVersion(version, { active, previous, isTried }, act) {
  const { digest, status, facts: known } = version;
  // Buttons of several versions say of which one they are to those who do not see where they stand.
  const press = (verb, text, onclick, fields = {}) =>
    button(text, onclick, { "data-key": `${verb}:${digest}`, "aria-label": `${text} ${digest.slice(7, 19)}`, ...fields });
  const waits = status.kind === "waiting";
  const mayServe = !version.active && !waits && !isTried;
  const share = h("input", { type: "number", min: "0.01", max: "1", step: "0.01", required: true, id: `share-${digest.slice(7, 19)}` });
  share.value = "0.05";
  const trial = (kind) => press(kind, `Begin ${kind}`, () => share.reportValidity() && act.begin(digest, kind, Number(share.value)));
  return h("article", { class: "version", "aria-label": `Version ${digest.slice(7, 19)}` },
    h("h3", {}, short(digest), " ", version.serving ? badge("serving") : version.active ? badge("is to serve") : null, waits ? badge("waiting") : null),
    facts([
      ["Digest", h("code", {}, digest)],
      ["Proposed", when(version.proposedAt)],
      ["Approved", status.kind === "approved" ? ["by ", status.by, ", ", when(status.at)] : ""],
      ["Waits because", waits ? h("ul", {}, status.because.map((text) => h("li", {}, text))) : ""],
      ["From", source(version.source)],
      ["Built for", known.contract], ["Size", `${number(known.bytes)} bytes`], ["Signed by", known.signer],
      ["Asks to be granted", known.wants.join(", ") || "nothing"], ["Imports", known.imports.join(", ")],
      ["Can tell users apart", known.tellsUsersApart ? "yes" : "no"],
    ]),
    known.tools.map((tool) => h("details", {}, h("summary", {}, "Tool ", h("code", {}, tool.name)),
      h("p", {}, tool.description), facts(Object.entries(tool.hints)), block(written(tool.inputSchema, 2), `Arguments of ${tool.name}`))),
    h("p", { class: "actions" },
      waits ? press("approve", "Approve", () => act.change("approve", digest), { class: "main" }) : null,
      waits ? press("approve-only", "Approve, without serving", () => act.change("approve-only", digest)) : null,
      version.active ? null : press("diff", "Compare with what serves", () => act.compare(active, digest)),
      !version.active && previous.includes(digest) ? press("rollback", "Roll back to it", () => act.change("rollback", digest)) : null,
      mayServe && !previous.includes(digest) ? press("serve", "Have it serve", () => act.change("serve", digest)) : null),
    mayServe && active
      ? h("div", { class: "filter" }, field(`Share for a trial of ${digest.slice(7, 19)}`, share), h("p", {}, trial("canary"), " ", trial("shadow"))) : null);
}

function source(from) {
  if (from === null || typeof from !== "object") return String(from ?? "");
  return Object.entries(from).map(([name, value]) => (name === "kind" ? value : `${name} ${value}`)).join(", ");
}

function drawnTrial(trial, isTried, act) {
  const { counts, thresholds, state } = trial;
  const row = (name, of) => [name, number(of.calls), number(of.failed), number(of.trapped), `${number(of.agreed)} of ${number(of.compared)}`];
  const because = [state.because ?? []].flat();
  return h("section", { "aria-label": "Trial" }, h("h2", {}, "Trial: ", trial.kind, " ", badge(state.kind)),
    facts([
      ["Version", short(trial.digest)], ["Against", short(trial.against)], ["Share", `${trial.share * 100} %`], ["Begun", ["by ", trial.by, ", ", when(trial.since)]],
      ["Because", because.length ? h("ul", {}, because.map((text) => h("li", {}, text))) : ""],
      ["Fails when", `failed calls are ${thresholds.maxErrorRate * 100} % more, ${number(Number(thresholds.maxTraps) + 1)} trap, or p99 is ${thresholds.maxP99Ratio} times as long, after ${thresholds.minCalls} calls`],
    ]),
    counts ? table("What both versions' calls came to", ["Version", "Calls", "Failed", "Trapped", "Agreed"], [row("serves", counts.old), row("is tried", counts.new)], "") : null,
    h("p", { class: "actions" },
      isTried ? [button("End the trial", () => act.change("end-trial"), { "data-key": "end-trial" }), " "] : null,
      ["running", "passed"].includes(state.kind) ? button("Promote", () => act.change("promote", trial.digest), { "data-key": "promote" }) : null));
}
