// The official TypeScript SDK: does what tests/it/mcp asks for and prints a line of JSON for each step.

import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const asked = JSON.parse(process.argv[2]);
const say = (step, value) => process.stdout.write(`${JSON.stringify({ [step]: value })}\n`);

function transport() {
  if (asked.command) {
    return new StdioClientTransport({ command: asked.command, args: asked.args, env: asked.env });
  }
  const headers = asked.token ? { authorization: `Bearer ${asked.token}` } : {};
  return new StreamableHTTPClientTransport(new URL(asked.url), { requestInit: { headers } });
}

const client = new Client({ name: "acceptance", version: "0" });
const changed = new Promise((resolve) => {
  client.setNotificationHandler(ToolListChangedNotificationSchema, resolve);
});
const carrier = transport();
try {
  await client.connect(carrier);
} catch (error) {
  // What an SDK makes of a refusal is not ours to say.
  say("refused", String(error));
  process.exit(0);
}
say("version", carrier.protocolVersion ?? "stdio");
say("tools", (await client.listTools()).tools);
for (const [step, name, args] of [
  ["answer", "calculate", { expression: "6 * 7" }],
  ["failure", "fail", { message: "no luck", code: "unlucky" }],
  ["misfit", "calculate", { expresion: "6 * 7" }],
]) {
  const result = await client.callTool({ name, arguments: args });
  say(step, { isError: result.isError, text: result.content[0].text });
}
try {
  await client.callTool({ name: "nobody_knows", arguments: {} });
} catch (error) {
  say("unknown", error.code);
}
// The SDK tells the server of a call that is given up.
try {
  await client.callTool({ name: "loop_until_cancelled", arguments: {} }, undefined, {
    signal: AbortSignal.timeout(500),
  });
} catch {
  say("cancelled", true);
}
// Its stream is opened in the background.
await sleep(1000);
say("listening", true);
await changed;
say("changed", (await client.listTools()).tools.map((tool) => tool.name));
await client.close();
say("done", true);
