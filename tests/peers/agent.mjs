// The agent: one call of a model that speaks OpenAI's chat completions. It has no tools, and says so when a
// reply asks for one. Its result has the shape of host/docs/interface/decisions-runs.md#the-result, so that
// bodies can be compared.
import { randomUUID } from "node:crypto";

import { RateLimitError } from "./errors.mjs";

/** Makes the agent of these settings: `{ invoke({ query, options }), ping() }`. */
export function createAgent(settings) {
  const provider = createProvider(settings);

  async function invoke({ query, options = {} }) {
    const messages = [{ role: "user", content: query }];
    const { maxTokens = 1024, temperature = 0 } = options;
    // The schema allows fractions, the provider does not.
    const reply = await provider.complete({ messages, max_tokens: Math.trunc(maxTokens), temperature });
    const [choice] = reply.choices;
    if (choice.message.tool_calls?.length) throw new Error("The model asked for tools, and there are none");
    return resultOf(messages, choice, reply.usage, settings.LLM_MODEL);
  }

  /** One short user message, for the health check (host/docs/interface/endpoints.md#variant-b). */
  async function ping() {
    const messages = [{ role: "user", content: "ping" }];
    await provider.complete({ messages, max_tokens: 16, temperature: 0 });
  }

  return { invoke, ping };
}

function createProvider({ LLM_API_KEY, LLM_BASE_URL, LLM_MODEL }) {
  const model = LLM_MODEL.replace(/^openai\//, "");
  const url = new URL("/v1/chat/completions", LLM_BASE_URL);
  const headers = {
    authorization: `Bearer ${LLM_API_KEY}`,
    "content-type": "application/json",
    "user-agent": "reference-peer/0",
  };

  async function complete(parameters) {
    // 30 s: host/docs/interface/errors-and-limits.md#limits.
    const signal = AbortSignal.timeout(30_000);
    const body = JSON.stringify({ model, ...parameters });
    const response = await fetch(url, { method: "POST", headers, body, signal });
    if (response.status === 429) throw new RateLimitError("The model provider limits our rate");
    if (!response.ok) throw new Error(`The model provider answered ${response.status}`);
    return response.json();
  }

  return { complete };
}

function resultOf(messages, choice, usage, model) {
  const output = choice.message.content ?? "";
  const { prompt_tokens: inputTokens = 0, completion_tokens: outputTokens = 0 } = usage ?? {};
  return {
    id: `run_${randomUUID().replaceAll("-", "")}`,
    output,
    stopReason: choice.finish_reason === "length" ? "max_tokens" : "completed",
    messages: [...messages, { role: "assistant", content: output }],
    usage: { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens },
    iterations: 1,
    model,
    toolCalls: [],
  };
}
