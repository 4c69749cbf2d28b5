// Every call that the official Node SDK has for the service, and what came of it as one JSON object.
import OpenAI from "openai";

const client = new OpenAI({ maxRetries: 0 });
const model = "agent";
const report = {};

// Status, code and place of an error, and the class that the SDK makes of it.
async function refused(call) {
  try {
    await call();
    return "no error";
  } catch (error) {
    return [error.constructor.name, error.status, error.code, error.param];
  }
}

report.models = [];
for await (const one of client.models.list()) report.models.push(one.id);
report.model = (await client.models.retrieve(model)).id;

const chat = await client.chat.completions.create({
  model,
  max_completion_tokens: 300,
  messages: [
    { role: "developer", content: "Be brief." },
    { role: "user", content: "one" },
  ],
});
report.chat = [chat.choices[0].message.content, chat.choices[0].finish_reason, chat.usage.total_tokens];

const chunks = client.chat.completions.stream({
  model,
  stream_options: { include_usage: true },
  messages: [{ role: "user", content: [{ type: "text", text: "two" }] }],
});
let words = "";
chunks.on("content", (delta) => (words += delta));
const streamed = await chunks.finalChatCompletion();
report.stream = [words, streamed.choices[0].finish_reason, streamed.usage.total_tokens];

const first = await client.responses.create({ model, input: "three", instructions: "Be kind." });
report.response = [first.output_text, first.status, first.output.map((item) => item.type), first.usage.total_tokens];

const events = client.responses.stream({
  model,
  input: [{ role: "user", content: "three" }, ...first.output, { role: "user", content: "four" }],
});
const types = [];
for await (const event of events) types.push(event.type);
const last = await events.finalResponse();
report.events = [types, last.output_text, last.output.map((item) => item.type)];

// A function of the client's own, beside the agent's tools.
const look = { name: "look", description: "Looks.", parameters: { type: "object", properties: {} } };
const tools = [{ type: "function", function: look }];
const question = { role: "user", content: "five" };
const asked = (await client.chat.completions.create({ model, tools, messages: [question] })).choices[0];
const seen = { role: "tool", tool_call_id: asked.message.tool_calls[0].id, content: "a cat" };
const told = await client.chat.completions.create({ model, tools, messages: [question, asked.message, seen] });
report.function = [asked.finish_reason, asked.message.tool_calls[0].function.name, told.choices[0].message.content];

const offered = client.responses.stream({ model, input: "six", tools: [{ type: "function", strict: false, ...look }] });
const called = (await offered.finalResponse()).output[0];
const output = { type: "function_call_output", call_id: called.call_id, output: "a dog" };
const answered = await client.responses.create({ model, input: [{ role: "user", content: "six" }, called, output] });
report.function_call = [called.type, called.name, called.arguments, answered.output_text];

// A conversation that the service keeps, item by item, and one in fewer words.
const said = [{ type: "message", role: "user", content: "I am Ada." }];
const reply = { type: "message", role: "assistant", content: "Hi, Ada." };
const kept = await client.conversations.create({ metadata: { order: "4711" }, items: said });
await client.conversations.items.create(kept.id, { items: [reply] });
const who = await client.responses.create({ model, input: "who?", conversation: kept.id });
const items = [];
for await (const item of client.conversations.items.list(kept.id, { order: "asc", limit: 2 })) items.push(item);
const read = await client.conversations.items.retrieve(items[1].id, { conversation_id: kept.id });
const left = await client.conversations.items.delete(items[0].id, { conversation_id: kept.id });
const renamed = await client.conversations.update(kept.id, { metadata: { order: "4712" } });
report.conversation = [
  who.output_text,
  items.map((item) => item.content[0].text),
  read.content[0].text,
  left.metadata,
  (await client.conversations.retrieve(kept.id)).metadata.order === renamed.metadata.order,
  (await client.conversations.items.list(kept.id)).data.length,
  (await client.conversations.delete(kept.id)).deleted,
];
report.input_items = [];
for await (const item of client.responses.inputItems.list(who.id, { order: "asc" })) {
  report.input_items.push(item.content[0].text);
}
const short = await client.responses.compact({ model, input: [...said, reply] });
const more = await client.responses.create({ model, input: [...short.output, { role: "user", content: "and?" }] });
report.compact = [short.output.map((item) => item.type), more.output_text];

// An image, in both forms.
const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const picture = { type: "image_url", image_url: { url: pixel, detail: "low" } };
const recognized = await client.chat.completions.create({
  model,
  messages: [{ role: "user", content: [{ type: "text", text: "seven" }, picture] }],
});
const image = { type: "input_image", image_url: pixel, detail: "low" };
const shown = await client.responses.create({
  model,
  input: [{ role: "user", content: [{ type: "input_text", text: "seven" }, image] }],
});
report.image = [recognized.choices[0].message.content, shown.output_text];

report.unknown_model = await refused(() => client.responses.create({ model: "gpt-5", input: "five" }));
report.unsupported = await refused(() =>
  client.chat.completions.create({ model, n: 2, messages: [{ role: "user", content: "five" }] }),
);
report.nobody = await refused(() => new OpenAI({ apiKey: "sk-none", maxRetries: 0 }).models.list());

console.log(JSON.stringify(report));
