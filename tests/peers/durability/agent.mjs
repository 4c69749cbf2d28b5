// The agent that all peers run: it asks a model that speaks OpenAI's chat completions, calls the tools that the
// model wants, and asks again until it answers. What makes a step durable is the engine's: `step(name, act)`
// carries `act` out, or gives what it came to before.
import { createServer } from "node:http";

const tools = [{
  type: "function",
  function: {
    name: "calculate",
    description: "Calculates an arithmetic expression.",
    parameters: { type: "object", properties: { expression: { type: "string" } }, required: ["expression"] },
  },
}];

/** Runs the agent: what it answers. */
export async function runAgent(query, step) {
  const messages = [{ role: "user", content: query }];
  for (let turn = 1; ; turn += 1) {
    const reply = await step(`model-${turn}`, () => askModel(messages));
    messages.push(reply);
    if (!reply.tool_calls) return reply.content;
    for (const call of reply.tool_calls) {
      const content = await step(`tool-${turn}`, async () => calculate(call));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

async function askModel(messages) {
  const response = await fetch(new URL("/v1/chat/completions", process.env.LLM_BASE_URL), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "bench", messages, tools, temperature: 0 }),
  });
  if (!response.ok) throw new Error(`The model provider answered ${response.status}`);
  return (await response.json()).choices[0].message;
}

function calculate(call) {
  const { expression } = JSON.parse(call.function.arguments);
  if (!/^[0-9+\-*/(). ]+$/.test(expression)) throw new Error("That is no expression");
  return String(new Function(`return ${expression}`)());
}

/** Serves `POST /runs/{id}` and `GET /runs/{id}`, which waits for the answer, where an engine is a library. */
export function serveRuns(submit, read) {
  const server = createServer(async (request, response) => {
    const answer = (status, body) => {
      const bytes = Buffer.from(JSON.stringify(body));
      response.writeHead(status, { "content-type": "application/json", "content-length": bytes.length });
      response.end(bytes);
    };
    try {
      const id = request.url.split("/").at(-1);
      if (request.method === "GET") return answer(200, { output: await read(id) });
      let body = "";
      for await (const part of request) body += part;
      await submit(id, JSON.parse(body).query);
      answer(202, { id });
    } catch (error) {
      answer(500, { error: String(error) });
    }
  });
  server.listen(Number(process.env.PORT), "127.0.0.1", () => console.log(JSON.stringify(server.address())));
}
