// The page around the views: which one is shown, signing in, what is said beside it.

import * as api from "./api.js";
import { button, fill, h } from "./dom.js";
import * as jobs from "./jobs.js";
import * as run from "./run.js";
import * as runs from "./runs.js";
import * as service from "./service.js";
import * as tools from "./tools.js";
import * as tryout from "./try.js";
import * as waits from "./waits.js";

// How often a view that shows what changes asks anew, while somebody looks and the windows have room.
const REFRESH_MS = 15_000;

const at = (id) => document.getElementById(id);
const main = at("main");

const VIEWS = [
  [/^\/runs\/(.+)$/, run, "runs"],
  [/^\/runs$/, runs, "runs"],
  [/^\/jobs\/(.+)$/, jobs.one, "jobs"],
  [/^\/jobs$/, jobs.all, "jobs"],
  [/^\/waits$/, waits, "waits"],
  [/^\/tools\/(.+)$/, tools.one, "tools"],
  [/^\/tools$/, tools.all, "tools"],
  [/^\/service$/, service, "service"],
  [/^\/try$/, tryout, "try"],
];

let leaving = new AbortController();
// When views may be refreshed by themselves again, after the windows had too little room for that.
let roomAt = 0;

// By what an element is known when its part of the view is filled anew.
const REGION = "[role=region]";
const keyOf = (one) =>
  one.getAttribute("href") ?? one.dataset.key ?? (one.matches(REGION) ? `${one.getAttribute("aria-label")}: ${one.textContent}` : null);

// What views are given.
class View {
  constructor(parameters, query, signal) {
    this.parameters = parameters;
    this.query = query;
    this.signal = signal;
    this.body = h("div", { class: "view" });
    this.problems = h("div", { role: "alert" });
    this.isOfRefresh = false;
  }

  // Says something to those who cannot see that it happened, too.
  say(text) {
    fill(at("status"), text);
  }

  // Does something that may fail. What fails is shown above the view, which stays as it is. A refresh takes away what a refresh has
  // said, not what became of something that a person did.
  async attempt(work, again = null, isRefresh = false) {
    try {
      if (!isRefresh || this.isOfRefresh) fill(this.problems);
      return await work();
    } catch (error) {
      if (this.signal.aborted || error.name === "AbortError") return undefined;
      const retry = again ? button("Try again", () => this.attempt(again, again, isRefresh)) : null;
      this.isOfRefresh = isRefresh;
      fill(this.problems, h("div", { class: "problem" }, h("p", {}, error.message), retry));
      // Who pressed a button further down sees what became of it.
      if (!isRefresh) this.problems.scrollIntoView({ block: "nearest" });
      return undefined;
    }
  }

  // Fills a part of the view anew; what had the focus has it again, and what was opened, closed or scrolled stays so. Another text is
  // shown from its beginning.
  show(part, ...children) {
    const held = part.contains(document.activeElement) ? document.activeElement : null;
    const key = held && keyOf(held);
    const regions = () => [...part.querySelectorAll(REGION)];
    const scrolled = new Map(regions().map((one) => [keyOf(one), { left: one.scrollLeft, top: one.scrollTop }]));
    const opened = [...part.querySelectorAll("details")].map((one) => one.open);
    fill(part, ...children);
    [...part.querySelectorAll("details")].forEach((one, index) => (one.open = opened[index] ?? one.open));
    regions().forEach((one) => one.scrollTo(scrolled.get(keyOf(one)) ?? {}));
    if (!held) return;
    const same = [...part.querySelectorAll(`a[href], [data-key], ${REGION}`)].find((one) => key && keyOf(one) === key);
    (same ?? part.querySelector("a, button, input") ?? at("title"))?.focus({ preventScroll: true });
  }

  // Shows what changes: now, and again every so often.
  async live(work) {
    await this.attempt(work, work, true);
    const timer = setInterval(() => {
      const open = document.querySelector("dialog[open]");
      if (!document.hidden && Date.now() >= roomAt && !open) this.attempt(work, work, true);
    }, REFRESH_MS);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  // Asks the person before something is changed.
  confirm(title, text, yes) {
    const dialog = at("confirm");
    fill(at("confirm-title"), title);
    fill(at("confirm-text"), text);
    fill(at("confirm-yes"), yes);
    return new Promise((resolve) => {
      const end = (answer) => {
        form.removeEventListener("submit", agree);
        at("confirm-no").onclick = null;
        dialog.oncancel = null;
        dialog.close();
        resolve(answer);
      };
      const form = dialog.querySelector("form");
      const agree = (event) => (event.preventDefault(), end(true));
      form.addEventListener("submit", agree);
      at("confirm-no").onclick = () => end(false);
      dialog.oncancel = (event) => (event.preventDefault(), end(false));
      dialog.showModal();
      at("confirm-no").focus();
    });
  }
}

function open(isFirst) {
  leaving.abort();
  leaving = new AbortController();
  const [path, query = ""] = (location.hash.slice(1) || "/runs").split("?");
  const found = VIEWS.map(([pattern, view, name]) => [pattern.exec(path), view, name]).find(([match]) => match);
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = found && link.getAttribute("href") === `#/${found[2]}`;
    isHere ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const parameters = (found?.[0] ?? []).slice(1).map(decoded);
  const view = new View(parameters, new URLSearchParams(query), leaving.signal);
  const name = found ? found[1].title(...parameters) : "There is no such view";
  const title = h("h1", { id: "title", tabindex: "-1" }, name);
  document.title = `${title.textContent} – agent-host console`;
  fill(main, title, view.problems, view.body);
  fill(at("status"));
  // Who follows a link with a screen reader hears where they are.
  if (!isFirst) title.focus({ preventScroll: true });
  window.scrollTo(0, 0);
  found?.[1].open(view);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const WHY = {
  missing: "The console asks this service with the token of an administrator.",
  expired: "The token has expired, or is not valid. Sign in again: what you see stays, and what you asked for is sent then.",
  role: "That token is not an administrator's: its role is not “admin”.",
};

api.on("signIn", (why) => {
  const dialog = at("sign-in");
  const form = dialog.querySelector("form");
  const before = document.activeElement;
  fill(at("sign-in-why"), WHY[why]);
  fill(at("sign-in-problem"));
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      const entered = at("token").value;
      api.setToken(entered);
      const claims = api.claims();
      if (!claims) return fill(at("sign-in-problem"), "That is no token: it has three parts with dots between them.");
      if ((claims.exp ?? Infinity) <= Date.now() / 1000) return fill(at("sign-in-problem"), "That token has expired.");
      at("token").value = "";
      form.onsubmit = null;
      dialog.onclose = null;
      dialog.close();
      if (before?.isConnected) before.focus({ preventScroll: true });
      return resolve();
    };
    // There is nothing to see without a token, so the question stays. Browsers close a dialog at the second Escape whatever the page
    // says to that: it comes back, because every request waits for its answer.
    dialog.oncancel = (event) => event.preventDefault();
    dialog.onclose = () => dialog.showModal();
    if (!dialog.open) dialog.showModal();
    at("token").focus();
  });
});

api.on("session", () => {
  const claims = api.claims();
  const until = claims?.exp ? `, until ${new Date(claims.exp * 1000).toLocaleTimeString("en-GB")}` : "";
  fill(at("who"), claims ? `Signed in as ${claims.id}${until}` : "Not signed in");
  at("sign-out").hidden = !claims;
});

// Requests that are left. A view asks for less by itself than it leaves.
api.on("windows", ({ address, user }) => {
  const [left, most, reset] = address;
  const [ownLeft, ownMost] = user;
  if (left === null || left === undefined) return;
  const scarce = left <= most / 5 ? reset : ownLeft !== null && ownLeft <= 3 ? 60 : 0;
  roomAt = Date.now() + scarce * 1000;
  const own = ownLeft === null ? "" : `${ownLeft} of ${ownMost} of yours and `;
  const paused = scarce === 0 ? "" : " Views are not refreshed by themselves meanwhile.";
  fill(at("windows"), `Requests left: ${own}${left} of ${most} of this address, for ${reset} s.${paused}`);
});

at("sign-out").addEventListener("click", () => {
  api.forgetToken();
  open(false);
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("title").focus();
});

addEventListener("hashchange", () => open(false));
api.setToken(sessionStorage.getItem("agent-host-token") ?? "");
open(true);
