// The Vercel AI SDK with its OpenAI provider, and what came of each call as one JSON object.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

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

console.log(JSON.stringify(report));
