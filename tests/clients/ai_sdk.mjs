// The Vercel AI SDK with its OpenAI provider, and what came of each call as one JSON object.
import { createOpenAI } from "@ai-sdk/openai";
import {
  generateObject,
  generateText,
  jsonSchema,
  Output,
  stepCountIs,
  streamObject,
  streamText,
  tool,
} from "ai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY });
const report = {};

const chat = await generateText({
  model: openai.chat("agent"),
  system: "Be brief.",
  prompt: "one",
  maxOutputTokens: 300,
  maxRetries: 0,
});
report.chat = [chat.text, chat.finishReason, chat.usage.totalTokens];

const stream = streamText({ model: openai.chat("agent"), prompt: "two", maxRetries: 0 });
let words = "";
for await (const delta of stream.textStream) words += delta;
report.stream = [words, await stream.finishReason, (await stream.usage).totalTokens];

// A tool that the server called is one that nobody has to call.
const response = await generateText({ model: openai.responses("agent"), prompt: "three", maxRetries: 0 });
const called = response.content.filter((part) => part.type === "tool-call");
report.response = [response.text, response.finishReason, called.map((part) => part.providerExecuted)];

const events = streamText({
  model: openai.responses("agent"),
  messages: [
    { role: "user", content: "three" },
    { role: "assistant", content: response.text },
    { role: "user", content: "four" },
  ],
  maxRetries: 0,
});
words = "";
for await (const delta of events.textStream) words += delta;
report.events = [words, await events.finishReason];

// A conversation as an application keeps it: what the model said comes back by the ids of its items.
const model = openai.responses("agent");
const ask = {
  plain: (options) => generateText({ model, maxRetries: 0, ...options }),
  streamed: async (options) => {
    const result = streamText({ model, maxRetries: 0, ...options });
    await result.consumeStream();
    return { text: await result.text, response: await result.response, steps: await result.steps };
  },
};
const look = tool({
  description: "Looks at what is there.",
  inputSchema: jsonSchema({ type: "object", properties: {} }),
  execute: async () => "fur",
});
report.turns = [];
report.looked = [];
for (const way of [ask.plain, ask.streamed]) {
  const messages = [{ role: "user", content: "five" }];
  const first = await way({ messages });
  messages.push(...first.response.messages, { role: "user", content: "six" });
  const second = await way({ messages });
  report.turns.push([first.text, second.text]);

  // Words and a call of the client's tool in one reply.
  const looked = await way({ prompt: "seven", tools: { look }, stopWhen: stepCountIs(3) });
  report.looked.push([looked.steps.length, looked.steps[0].text, looked.text]);
}

// A turn in which the server called a tool of its own: what it returned comes back by its id as well.
report.called = [];
for (const way of [ask.plain, ask.streamed]) {
  const messages = [{ role: "user", content: "eight" }];
  const first = await way({ messages });
  messages.push(...first.response.messages, { role: "user", content: "nine" });
  const second = await way({ messages });
  report.called.push([first.text, second.text]);
}

// An answer as a value of a form: at once, in pieces, beside a tool of the client, and never right.
const schema = z.object({ name: z.string(), people: z.int() });
const prompt = "Which city?";
report.objects = [];
for (const model of [openai.chat("agent"), openai.responses("agent")]) {
  const once = await generateObject({ model, schema, prompt, maxRetries: 0 });
  const stream = streamObject({ model, schema, prompt, maxRetries: 0 });
  let last;
  for await (const partial of stream.partialObjectStream) last = partial;
  const output = Output.object({ schema });
  const stopWhen = stepCountIs(3);
  const looked = await generateText({ model, output, prompt, tools: { look }, stopWhen, maxRetries: 0 });
  const text = streamText({ model, output, prompt, tools: { look }, stopWhen, maxRetries: 0 });
  await text.consumeStream();
  const never = await generateObject({ model, schema, prompt, maxRetries: 0 }).catch((error) => error.name);
  report.objects.push([once.object, last, await stream.object, looked.output, await text.output, never]);
}

// Which tool is called first, and where a reply ends.
const toolChoice = { type: "tool", toolName: "look" };
const named = await generateText({ model, prompt, tools: { look }, toolChoice, maxRetries: 0 });
const required = await generateText({
  model: openai.chat("agent"),
  prompt,
  tools: { look },
  toolChoice: "required",
  maxRetries: 0,
});
report.choices = [named, required].map((result) => result.toolCalls.map((call) => call.toolName));
const stopped = await generateText({
  model: openai.chat("agent"),
  prompt,
  stopSequences: ["END"],
  maxRetries: 0,
});
report.stop = [stopped.text, stopped.finishReason];

console.log(JSON.stringify(report));
