// The official TypeScript SDK of 2026-07-28 and its package for tasks: calls that wait for somebody, and a
// line of JSON for each of them.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

const asked = JSON.parse(process.argv[2]);
const say = (step, value) => process.stdout.write(`${JSON.stringify({ [step]: value })}\n`);
const authorization = `Bearer ${asked.token}`;
const clientInfo = { name: "acceptance", version: "0" };
const clientCapabilities = { elicitation: { form: {} } };

// What the person at the client says, and what they were asked.
const answers = [];
const questions = [];
function ask({ params }) {
  questions.push(params.message);
  return answers.shift();
}
const approve = { action: "accept", content: { decision: "approve" } };
const reject = { action: "accept", content: { decision: "reject", reason: "too dear" } };

const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: "auto" } });
client.setRequestHandler("elicitation/create", ask);
const transport = new StreamableHTTPClientTransport(new URL(asked.url), { requestInit: { headers: { authorization } } });
await client.connect(transport);
say("era", client.getProtocolEra());
const call = { name: "calculate", arguments: { expression: "6 * 7" } };
const brief = (result) => ({ isError: result.isError, text: result.content[0].text });
answers.push(approve);
say("asked", { ...brief(await client.callTool(call)), question: questions.pop() });

// The SDK reads no tasks by itself: their package takes the messages of a host.
let id = 0;
async function rawDispatch(request, { signal } = {}) {
  const { method, params } = request;
  const headers = {
    authorization, accept: "application/json, text/event-stream", "content-type": "application/json",
    "mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": params.name ?? params.taskId,
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: (id += 1), method, params });
  const answer = await (await fetch(asked.url, { method: "POST", headers, body, signal })).json();
  return "error" in answer ? { kind: "error", error: answer.error } : { kind: "result", result: answer.result };
}
const session = createTaskSessionFromClient(client, {
  endpointId: "acceptance",
  rawDispatch,
  v2RequestFraming: { protocolVersion: "2026-07-28", clientInfo, clientCapabilities },
  onInputRequest: async (request) => ask(request),
});
async function task() {
  const execution = await session.callTool(call.name, call.arguments);
  const states = [];
  const onEvent = (event) => event.type === "task" && states.push(event.task.status);
  const { outcome } = await execution.settle({ onEvent });
  return { kind: execution.kind, taskId: execution.handle.taskId, first: states[0], status: outcome.status, outcome };
}
for (const [step, answer] of [["approved", approve], ["rejected", reject]]) {
  answers.push(answer);
  const { outcome, ...rest } = await task();
  say(step, { ...rest, ...brief(outcome.result), asked: questions.length });
}
const execution = await session.callTool(call.name, call.arguments);
// The person is asked as soon as the task is looked at: they leave it open.
answers.push({ action: "cancel" });
await session.cancelTask(execution.handle.taskId);
say("cancelled", (await session.task(execution.handle.taskId).snapshot()).status);
await session.close();
await client.close();
say("done", true);
