// Drives the console in a browser, as an administrator uses it, and prints a line of JSON for each step. It waits for nothing but
// what is on the page; tests/it/console does what happens beside it, and reads the steps.
//
// Environment: CONSOLE_URL, JWT_SECRET, CHROMIUM (where the browser is), CONSOLE_USER (whose run and job are to be seen), and
// CONSOLE_SCREENSHOTS (a folder that gets a picture of each view).

import { createHmac } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const { CONSOLE_URL, JWT_SECRET, CONSOLE_USER, CONSOLE_SCREENSHOTS, CHROMIUM = "/usr/bin/chromium" } = process.env;
const say = (step, value = true) => process.stdout.write(`${JSON.stringify({ [step]: value })}\n`);

function check(holds, what) {
  if (!holds) throw new Error(what);
}

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
function token(claims, seconds = 3600, secret = JWT_SECRET) {
  const exp = Math.floor(Date.now() / 1000) + seconds;
  const signed = `${encoded({ alg: "HS256", typ: "JWT" })}.${encoded({ ...claims, exp })}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}
const admin = (seconds) => token({ id: "ops", role: "admin", tier: "premium" }, seconds);

// What a person could be deceived by: markup, colours of a terminal, a turned reading direction, a letter without a form.
const HOSTILE = "<img src=x onerror=\"window.hacked=1\"><b>6 * 7</b> \u001b[31mred\u001b[0m \u202eright\u202c\u3164";
const SHOWN = "<img src=x onerror=\"window.hacked=1\"><b>6 * 7</b> \\x1b[31mred\\x1b[0m \\u{202e}right\\u{202c}\\u{3164}";

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server"] });
const context = await browser.newContext({ viewport: { width: 1180, height: 800 }, colorScheme: "light" });
const page = await context.newPage();
page.setDefaultTimeout(20_000);

const troubles = [];
page.on("pageerror", (error) => troubles.push(`error: ${error.message}`));
page.on("dialog", (dialog) => (troubles.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
page.on("console", (message) => {
  // A refused request is written to the console by the browser itself.
  if (message.type() === "error" && !message.text().includes("Failed to load resource")) troubles.push(message.text());
});
page.on("request", (request) => {
  const url = new URL(request.url());
  if (url.origin !== new URL(CONSOLE_URL).origin) troubles.push(`another origin: ${url}`);
  if (/eyJ[\w-]+\./.test(request.url())) troubles.push(`a token in an address: ${url.pathname}`);
});

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const findings = [];

// What every view has to hold. Each is looked at in light and in dark.
async function inspect(name) {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    const [violations, injected, hidden] = await page.evaluate(async () => {
      const { violations } = await axe.run(document, { resultTypes: ["violations"] });
      const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`);
      const injected = [...document.querySelectorAll("main img, main script, main [onerror], main [onclick]")].map((one) => one.outerHTML);
      const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent.replaceAll("\r", ""));
      return [found, injected, hidden];
    });
    findings.push(...violations.map((text) => `${name} (${scheme}): ${text}`));
    check(injected.length === 0, `${name}: markup of a text has become elements: ${injected}`);
    check(!hidden, `${name}: a character that cannot be seen is shown as it is`);
    if (CONSOLE_SCREENSHOTS) await page.screenshot({ path: join(CONSOLE_SCREENSHOTS, `${name}-${scheme}.png`) });
  }
  await page.emulateMedia({ colorScheme: "light" });
}

const go = async (view, heading) => {
  await page.getByRole("navigation").getByRole("link", { name: view, exact: true }).click();
  await page.getByRole("heading", { level: 1, name: heading ?? view }).waitFor();
};
const dialog = page.getByRole("dialog", { name: "Sign in" });
const signIn = async (text) => {
  await dialog.waitFor();
  await dialog.getByLabel("Token").fill(text);
  await dialog.getByRole("button", { name: "Sign in" }).click();
};
const confirm = async (name) => page.getByRole("dialog").getByRole("button", { name, exact: true }).click();
// Opens a view again and again until it shows that.
const eventually = async (view, locator) => {
  for (let round = 0; round < 40; round += 1) {
    try {
      return await locator.first().waitFor({ timeout: 500 });
    } catch {
      await go("Try");
      await view();
    }
  }
  return locator.first().waitFor();
};

async function signsIn() {
  await page.goto(`${CONSOLE_URL}/console`);
  await dialog.waitFor();
  // The question cannot be left: nothing would be asked for any more.
  for (let press = 0; press < 3; press += 1) await page.keyboard.press("Escape");
  await signIn("nonsense");
  await dialog.getByText("That is no token").waitFor();
  await inspect("sign-in");
  await signIn(token({ id: "u", role: "admin" }, 3600, "another secret"));
  await dialog.getByText("The token has expired, or is not valid").waitFor();
  await signIn(token({ id: "u" }));
  await dialog.getByText("not an administrator's").waitFor();
  await signIn(admin());
  await dialog.waitFor({ state: "hidden" });
  await page.getByText("Signed in as ops").waitFor();
  say("signed in");
}

async function usesTheKeyboard() {
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
  await page.keyboard.press("Tab");
  check(await page.evaluate(() => document.activeElement.classList.contains("skip")), "the first stop is the link to the view");
  await page.keyboard.press("Enter");
  check((await page.evaluate(() => document.activeElement.id)) === "title", "the link leads to the view");
  const order = [];
  await page.getByRole("link", { name: "Skip to the view" }).focus();
  for (let stop = 0; stop < 6; stop += 1) {
    await page.keyboard.press("Tab");
    order.push(await page.evaluate(() => document.activeElement.textContent));
  }
  check(order.join() === "Runs,Jobs,Waits,Tools,Service,Try", `the order of the focus: ${order}`);
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Service" }).waitFor();
  check((await page.evaluate(() => document.activeElement.id)) === "title", "a view that was opened has the focus");
  say("keyboard");
}

const version = (text) => page.getByRole("article").filter({ hasText: text });
const servingBadge = page.locator(".badge", { hasText: /^serving$/ });
const openTool = async () => {
  await go("Tools");
  await page.getByRole("link", { name: "calculator" }).click();
  await page.getByRole("heading", { level: 1, name: "Tool calculator" }).waitFor();
};

async function approves() {
  await openTool();
  await inspect("tool-waiting");
  // Nothing serves yet: what may serve is not tried beside anything.
  await version("Waits because").getByRole("button", { name: /^Approve, without serving/ }).first().click();
  await confirm("Approve, without serving");
  await page.getByRole("button", { name: /^Have it serve/ }).click();
  await confirm("Have it serve");
  const serving = page.getByRole("article").filter({ has: servingBadge });
  await serving.waitFor();
  const first = await serving.getByText(/^sha256:/).textContent();
  say("approved", first);
  return first;
}

async function triesAndRollsBack(first) {
  // The newer version was approved by somebody else meanwhile.
  await eventually(openTool, page.getByRole("button", { name: /^Roll back/ }));
  await version(first).getByRole("button", { name: /^Compare/ }).click();
  await page.getByRole("region", { name: "Comparison" }).waitFor();
  await inspect("tool-diff");
  await version(first).getByRole("button", { name: /^Roll back/ }).click();
  await confirm("Roll back to it");
  await version(first).filter({ has: servingBadge }).waitFor();
  say("rolled back", first);
  await page.getByRole("button", { name: /^Begin canary/ }).first().click();
  await confirm("Begin");
  await page.getByRole("heading", { name: /Trial: canary/ }).waitFor();
  await inspect("tool-canary");
  await page.getByRole("button", { name: "End the trial" }).click();
  await confirm("End the trial");
  await page.getByRole("heading", { name: /Trial: canary ended/ }).waitFor();
  // As where the version that is to serve describes itself otherwise by now.
  const facts = `sha256:${"0".repeat(64)}`;
  const component = /\/admin\/tools\/calculator$/;
  await page.route(component, async (route) => {
    const answer = await route.fetch();
    const read = await answer.json();
    await route.fulfill({ response: answer, json: { ...read, fault: "another description", described: { digest: read.active, factsDigest: facts } } });
  });
  await openTool();
  await page.getByRole("button", { name: "Compare with what was approved" }).click();
  await page.getByRole("region", { name: "Comparison" }).waitFor();
  await inspect("tool-described");
  const approval = page.waitForRequest((one) => one.method() === "POST" && one.url().endsWith("/approve"));
  await page.getByRole("button", { name: "Approve the new description" }).click();
  await confirm("Approve the new description");
  check(JSON.parse((await approval).postData()).facts === facts, "the facts that were looked at are approved");
  const problem = page.getByRole("alert").getByText("is not the digest of the facts");
  await problem.waitFor();
  check(await problem.evaluate((one) => one.getBoundingClientRect().top >= 0), "what became of it is in sight");
  await page.unroute(component);
  await openTool();
  await page.getByText("Who did what").first().click();
  await page.getByRole("table", { name: /Who did what/ }).getByText("rolled back").first().waitFor();
  say("canary");
  await go("Tools");
  await page.getByRole("table", { name: "Components" }).getByText("calculator").waitFor();
  await inspect("tools");
}

async function triesAPrompt() {
  await go("Try");
  await page.getByRole("combobox", { name: "Tool" }).getByText("calculate").first().waitFor({ state: "attached" });
  await page.getByRole("textbox", { name: "Prompt" }).fill(HOSTILE);
  // A run that is begun beside another one takes its place, and can be cancelled.
  const prompts = /\/api\/agent$/;
  await page.route(prompts, () => {});
  const run = page.getByRole("button", { name: "Run", exact: true });
  await run.click();
  const given = page.waitForEvent("requestfailed");
  await run.click();
  await given;
  check(!(await page.getByText("The run is cancelled.").isVisible()), "the end of the first run is not told as that of the second");
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByText("The run is cancelled.").waitFor();
  await page.unroute(prompts);
  await run.click();
  await page.getByRole("region", { name: "What the model writes" }).waitFor();
  await inspect("try-streaming");
  say("streaming");
  const answer = page.getByRole("region", { name: "The answer" });
  await answer.waitFor();
  check((await answer.textContent()) === SHOWN, `the answer is ${await answer.textContent()}`);
  await page.getByRole("combobox", { name: "Tool" }).selectOption("calculate");
  // Every digit of an integer is sent and shown, also beyond those that JavaScript's numbers have.
  const digits = '{"n":9007199254740993}';
  await page.getByRole("textbox", { name: "Arguments" }).fill(digits);
  const sent = page.waitForRequest((one) => (one.postData() ?? "").includes('"n":'));
  await page.getByRole("button", { name: "Call" }).click();
  check((await sent).postData().includes(digits), `what is sent is ${(await sent).postData()}`);
  await page.getByRole("region", { name: "What the tool answered" }).waitFor();
  const shown = await page.evaluate(async (text) => (await import(new URL("console/dom.js", document.baseURI))).pretty(text), digits);
  check(shown.includes(" 9007199254740993"), `what is shown is ${shown}`);
  await page.getByRole("textbox", { name: "Arguments" }).fill('{"expression": "6 * 7"}');
  await page.getByRole("button", { name: "Call" }).click();
  await page.getByRole("region", { name: "What the tool answered" }).filter({ hasText: "42" }).waitFor();
  await inspect("try");
  await page.getByText("The run:").getByRole("link").click();
  await page.getByRole("heading", { level: 1, name: /^Run run_/ }).waitFor();
  const question = page.getByRole("region", { name: "The question" });
  await question.waitFor();
  check((await question.textContent()) === SHOWN, "the question is shown as it was written");
  await page.getByRole("region", { name: "What calculate answered" }).waitFor();
  await page.getByText("Receipt", { exact: true }).click();
  await page.getByText("Ran for").waitFor();
  await inspect("run");
  say("run");
}

async function watchesARun() {
  await go("Runs");
  say("watching runs");
  const row = () => page.getByRole("row").filter({ hasText: "running" });
  await eventually(() => go("Runs"), row());
  check((await row().first().textContent()).includes("\\u{202e}"), "the user is shown as it is written");
  // Two looks at the list, and whether runs ended in between that neither of them has.
  const gaps = await page.evaluate(async () => {
    const { leavesGap } = await import(new URL("console/runs.js", document.baseURI));
    const at = (runId, finishedAt, outcome = "ended") => ({ runId, finishedAt, outcome });
    const [parked, streamed] = [at("p", undefined, "running"), at("s", "3", "running")];
    const before = [parked, streamed, at("b", "2"), at("a", "1")];
    const looks = [[at("c", "4"), at("b", "2")], [parked, at("c", "4"), at("s", "5")], [at("s", "7"), at("b", "6")]];
    return [...looks.map((now) => leavesGap(before, now)), leavesGap([parked], [parked, at("c", "4")])];
  });
  check(gaps.join() === "false,true,true,false", `looks at the list: ${gaps}`);
  await inspect("runs");
  await row().first().getByRole("link").first().click();
  // The words of a reply are told to those who are there; the page came when they had been said.
  await page.getByText("New events appear here as they come.").waitFor();
  await inspect("run-live");
  say("watching");
  await page.getByText("completed").waitFor();
  await page.getByRole("region", { name: "The reply" }).first().waitFor();
  check((await page.getByRole("region", { name: "The reply" }).first().textContent()).includes("\\x1b[31m"), "the reply is shown as it is written");
  say("live");
}

async function decidesAWait() {
  await page.clock.install();
  await go("Waits");
  await page.getByText("Nothing here waits for you.").waitFor();
  say("nothing waits");
  const answer = page.getByRole("textbox", { name: "Answer" });
  await eventually(() => go("Waits"), answer);
  check((await page.getByRole("heading", { level: 2 }).first().textContent()) === SHOWN, "the question is shown as it was asked");
  await inspect("waits");
  await answer.fill("the blue one");
  // The view is read anew every 15 s: not while somebody types, and what was typed stays.
  await page.clock.fastForward(16_000);
  check(await answer.evaluate((one) => one === document.activeElement), "the answer keeps the focus");
  await answer.blur();
  const anew = page.waitForResponse(/\/api\/agent\/waits\?/);
  await page.clock.fastForward(16_000);
  await anew;
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  check((await answer.inputValue()) === "the blue one", "what was typed is there after the view was read anew");
  // What is for others to decide is said, and no reason to sign in anew.
  const decision = /\/decision$/;
  await page.route(decision, (route) => route.fulfill({ status: 403, json: { error: "This is for others to decide" } }));
  await page.getByRole("textbox", { name: "Reason" }).fill("not that one");
  await page.getByRole("button", { name: "Reject" }).click();
  await page.getByRole("dialog").getByText("Because: not that one").waitFor();
  const [reread, rejection] = [page.waitForResponse(/\/api\/agent\/waits\?/), page.waitForRequest(decision)];
  await confirm("Reject");
  await reread;
  check((await rejection).postDataJSON().reason === "not that one", "the reason is sent");
  await page.getByRole("alert").getByText("This is for others to decide").waitFor();
  check(!(await dialog.isVisible()), "nobody is asked to sign in");
  await page.unroute(decision);
  const later = page.waitForResponse(/\/api\/agent\/waits\?/);
  await page.clock.fastForward(16_000);
  await later;
  check(await page.getByText("This is for others to decide").isVisible(), "what became of a decision stays when the view is read anew");
  await page.clock.setSystemTime(Date.now());
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByRole("dialog").getByText('"the blue one"').waitFor();
  await confirm("Send");
  await page.getByText("Nothing here waits for you.").waitFor();
  say("decided");
}

async function callsAToolThatWaits() {
  await go("Try");
  await page.getByRole("combobox", { name: "Tool" }).selectOption("text_stats");
  await page.getByRole("textbox", { name: "Arguments" }).fill(JSON.stringify({ text: "one two ".repeat(700) }));
  await page.getByRole("button", { name: "Call" }).click();
  const link = page.getByRole("link", { name: "decide about it" });
  await link.waitFor();
  await inspect("try-waiting");
  await link.click();
  // Who reads long arguments goes on where they were when the view is read anew.
  const given = page.getByRole("region", { name: "Arguments of text_stats" });
  await given.evaluate((one) => {
    one.dataset.old = "";
    one.scrollTop = 50;
    one.focus();
  });
  await page.clock.fastForward(16_000);
  await page.locator("main pre:not([data-old])").waitFor();
  const places = await page.locator("main pre").evaluateAll((all) => all.map((one) => `${one.scrollTop} ${one === document.activeElement}`));
  check(places.join() === "50 true", `where who reads arguments is: ${places}`);
  await page.clock.setSystemTime(Date.now());
  await page.getByRole("button", { name: "Approve" }).click();
  await confirm("Approve");
  await page.getByText("Nothing here waits for you.").waitFor();
  const timeline = await page.evaluate(async () => {
    const { drawn } = await import(new URL("console/run.js", document.baseURI));
    const state = { calls: [] };
    const entries = [
      { kind: "started", text: "pay", model: "m", calls: [{ name: "pay", arguments: "{}" }] },
      { kind: "waiting", waits: ["1:1.0"] },
      { kind: "decided", waits: ["1:1.0"], decision: "approve", by: "ada" },
      { kind: "recording_started", index: 0 },
      { kind: "tools_started", indexes: [0] },
    ];
    return entries.map((entry, number) => drawn({ number, ...entry }, state).querySelector("h2").textContent);
  });
  check(timeline.slice(1).join("; ") === "1 Waits1:1.0; 2 Decided: approve by ada1:1.0; 3 Begins pay, whose own calls and questions are recorded; "
    + "4 Begins pay, not to be made twice", `the timeline of a wait: ${timeline}`);
  say("a call is approved");
}

async function looksAtJobs() {
  await go("Jobs");
  await page.getByText("waiting").first().waitFor();
  await page.getByRole("searchbox", { name: "User" }).fill(CONSOLE_USER);
  await page.getByRole("button", { name: "List jobs" }).click();
  const jobs = page.getByRole("table", { name: /^Jobs of .*, the newest first$/ });
  await jobs.waitFor();
  await inspect("jobs");
  await jobs.getByRole("link").first().click();
  await page.getByRole("heading", { level: 1, name: /^Job / }).waitFor();
  const result = page.getByRole("region", { name: "The result" });
  await result.waitFor();
  check((await result.textContent()).includes("<img src=x"), "the result is shown as it is written");
  await inspect("job");
  say("jobs");
}

async function asksForWhatWasSent() {
  await go("Try");
  await go("Runs");
  await page.getByRole("table").waitFor();
  await page.getByRole("searchbox", { name: "User" }).fill("nobody");
  const anew = page.waitForRequest(/\/admin\/runs\?/);
  await page.clock.fastForward(16_000);
  check(!(await anew).url().includes("nobody"), "what is typed is not asked for before it is sent");
  await go("Jobs");
  const asked = [];
  const pages = /\/admin\/jobs\?/;
  await page.route(pages, (route) => {
    asked.push(new URL(route.request().url()).search);
    return route.fulfill({ json: { data: [], nextCursor: "c" } });
  });
  await page.getByRole("searchbox", { name: "User" }).fill("ada");
  await page.getByRole("button", { name: "List jobs" }).click();
  await page.getByRole("button", { name: "Older jobs" }).waitFor();
  await page.getByRole("searchbox", { name: "User" }).fill("bob");
  const older = page.waitForResponse(pages);
  await page.getByRole("button", { name: "Older jobs" }).click();
  await older;
  check(asked.join() === "?user=ada&limit=25,?user=ada&limit=25&cursor=c", `older jobs are the same user's: ${asked}`);
  await page.unroute(pages);
  // Somebody else may have a failed job tried again.
  const one = /\/admin\/jobs\/failed$/;
  let status = "failed";
  const job = { jobId: "failed", runId: "run_1", userId: "ada", createdAt: "2026-11-29T00:00:00.000Z", attemptsMade: 1 };
  await page.route(one, (route) => route.fulfill({ json: { ...job, status } }));
  await page.evaluate(() => (location.hash = "#/jobs/failed"));
  await page.getByRole("button", { name: "Try it again" }).waitFor();
  status = "active";
  await page.clock.fastForward(16_000);
  // An address that is refused is no reason to sign in anew.
  const cancel = /\/admin\/jobs\/failed\/cancel$/;
  await page.route(cancel, (route) => route.fulfill({ status: 403, json: { error: "Forbidden" } }));
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await confirm("Cancel this job");
  await page.getByRole("alert").getByText("CORS_ORIGINS").waitFor();
  check(!(await dialog.isVisible()), "nobody is asked to sign in");
  await page.unroute(cancel);
  await page.unroute(one);
}

async function cannotFollowARun() {
  const run = { runId: "busy", outcome: "running", startedAt: "2026-11-29T00:00:00.000Z", usage: {}, modelCalls: 0 };
  const record = /\/admin\/runs\/busy/;
  await page.route(record, (route) => route.fulfill({ json: { run, data: [], nextFrom: null } }));
  const events = /\/admin\/runs\/busy\/events/;
  await page.route(events, (route) => route.fulfill({ status: 429, json: { error: "Too many streams" } }));
  await page.evaluate(() => (location.hash = "#/runs/busy"));
  await page.getByRole("alert").getByText("Too many streams").waitFor();
  check(!(await page.getByText("New events appear here").isVisible()), "a run that is not followed is not said to be");
  await page.unroute(events);
  await page.unroute(record);
}

async function looksAtTheService() {
  await go("Service");
  await page.getByRole("row", { name: /database ok/ }).waitFor();
  await page.getByRole("button", { name: "Forget results" }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Forget results" }).click();
  await confirm("Forget them");
  await page.getByText(/results were forgotten/).waitFor();
  await inspect("service");
  say("service");
}

async function survivesTheEndOfItsToken() {
  await page.getByRole("button", { name: "Sign out" }).click();
  await signIn(admin(4));
  await dialog.waitFor({ state: "hidden" });
  await go("Runs");
  const rows = page.getByRole("table").getByRole("row");
  await rows.nth(1).waitFor();
  const before = await rows.count();
  await page.getByRole("searchbox", { name: "User" }).fill("nobody at all");
  await page.waitForTimeout(4500);
  await page.getByRole("button", { name: "Show" }).click();
  await dialog.getByText("has expired").waitFor();
  check((await page.locator("table tr").count()) === before, "what was on the page stays there");
  await signIn(admin());
  await dialog.waitFor({ state: "hidden" });
  // What was asked for is answered now.
  await page.getByText("No runs are recorded.").waitFor();
  check((await page.getByRole("searchbox", { name: "User" }).inputValue()) === "nobody at all", "what was entered stays there");
  say("expired");
}

try {
  await context.addInitScript({ path: axe });
  await signsIn();
  await usesTheKeyboard();
  const first = await approves();
  await triesAndRollsBack(first);
  await triesAPrompt();
  await watchesARun();
  await decidesAWait();
  await callsAToolThatWaits();
  await looksAtJobs();
  await looksAtTheService();
  await survivesTheEndOfItsToken();
  await asksForWhatWasSent();
  await cannotFollowARun();
  check((await page.evaluate(() => window.hacked)) === undefined, "a text was run");
  say("troubles", troubles);
  say("accessibility", findings);
} catch (error) {
  process.stderr.write(`${error.stack}\n${troubles.join("\n")}\n${await page.locator("body").innerText().catch(() => "")}\n`);
  if (CONSOLE_SCREENSHOTS) await page.screenshot({ path: join(CONSOLE_SCREENSHOTS, "failed.png") });
  process.exitCode = 1;
} finally {
  await browser.close();
}
