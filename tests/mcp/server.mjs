// A server of the official TypeScript SDK, for tests/it/mcp: over its standard input and output, or over HTTP on a free port of
// this machine, which it prints as a line of JSON.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const text = (text) => ({ content: [{ type: "text", text }] });

function server() {
  const server = new McpServer({ name: "tests", version: "0" });
  const numbers = { a: z.number().int(), b: z.number().int() };
  const add = { description: "Adds two whole numbers.", inputSchema: numbers, annotations: { readOnlyHint: true } };
  server.registerTool("addNumbers", add, ({ a, b }) => text(String(a + b)));
  server.registerTool("fail", { description: "Fails for that reason.", inputSchema: { reason: z.string() } }, ({ reason }) => {
    throw new Error(reason);
  });
  const count = { description: "Counts, and says how far it is.", inputSchema: { to: z.number().int() } };
  server.registerTool("count", count, async ({ to }, { _meta, sendNotification }) => {
    for (let progress = 1; progress <= to && _meta?.progressToken !== undefined; progress++) {
      const params = { progressToken: _meta.progressToken, progress, total: to, message: `at ${progress}\u001b[31m` };
      await sendNotification({ method: "notifications/progress", params });
    }
    return text(`counted to ${to}`);
  });
  server.registerTool("forbidden", { description: "Is in nobody's list of what is allowed." }, () => text("called"));
  return server;
}

if (process.argv[2] === "stdio") {
  await server().connect(new StdioServerTransport());
} else {
  // A session has a server of its own.
  const sessions = new Map();
  const listening = createServer(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      const onsessioninitialized = (id) => sessions.set(id, transport);
      transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
      await server().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  listening.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: listening.address().port })));
}
