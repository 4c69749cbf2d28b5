// Every call that the official Node SDK has for the service, and what came of it as one JSON object.
import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

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

// An answer as a value of a form: the model's first reply is wrong.
const City = z.object({ name: z.string(), people: z.int() });
const messages = [{ role: "user", content: "Which city?" }];
const response_format = zodResponseFormat(City, "City");
const text = { format: zodTextFormat(City, "City") };
const parsed = await client.chat.completions.parse({ model, messages, response_format });
report.parsed = [parsed.choices[0].message.parsed, parsed.usage.total_tokens];
const parsedResponse = await client.responses.parse({ model, input: "Which city?", text });
report.parsed_response = [parsedResponse.output_parsed, parsedResponse.output.map((item) => item.type)];

const done = [];
const formed = client.chat.completions.stream({ model, messages, response_format });
formed.on("content.done", (props) => done.push(props.parsed));
report.parsed_stream = [done, (await formed.finalChatCompletion()).choices[0].message.parsed];
const formedEvents = client.responses.stream({ model, input: "Which city?", text });
const doneTexts = [];
formedEvents.on("response.output_text.done", (event) => doneTexts.push(JSON.parse(event.text)));
report.parsed_events = [doneTexts, (await formedEvents.finalResponse()).output_parsed];

// One that is never right.
const spoken = ({ refusal, content, parsed }) => [refusal, content, parsed ?? null];
const refusal = await client.chat.completions.parse({ model, messages, response_format });
report.refusal = spoken(refusal.choices[0].message);
const refusals = client.chat.completions.stream({ model, messages, response_format });
report.refusal_stream = spoken((await refusals.finalChatCompletion()).choices[0].message);
const failed = await client.responses.parse({ model, input: "Which city?", text });
report.failed = [failed.status, failed.error.code, failed.error.message, failed.output_parsed];
let end;
for await (const event of client.responses.stream({ model, input: "Which city?", text })) end = event;
report.failed_events = [end.type, end.response.error.message];

const any = { type: "json_object" };
const object = await client.chat.completions.create({ model, messages, response_format: any });
report.json_object = JSON.parse(object.choices[0].message.content);
const anyResponse = await client.responses.create({ model, input: "Which city?", text: { format: any } });
report.json_object_response = [JSON.parse(anyResponse.output_text), anyResponse.text.format.type];

// The call of a function, with words beside it that are no answer.
const strict = [{ type: "function", function: { strict: true, ...look } }];
const beside = await client.chat.completions.parse({ model, messages, response_format, tools: strict });
const [choice] = beside.choices;
report.looked = [choice.finish_reason, choice.message.tool_calls[0].function.name, choice.message.parsed];

// Which tool is called first, how many are called at once, and where a reply ends.
const required = await client.chat.completions.create({ model, messages, tool_choice: "required" });
report.required = required.choices[0].message.content;
const named = await client.chat.completions.parse({
  model,
  messages,
  tools: [zodFunction({ name: "City", parameters: City })],
  tool_choice: { type: "function", function: { name: "City" } },
  parallel_tool_calls: false,
});
const namedCalls = named.choices[0].message.tool_calls.map((call) => call.function.parsed_arguments);
report.named = [named.choices[0].finish_reason, namedCalls];
const namedResponse = await client.responses.create({
  model,
  input: "Which city?",
  tools: [{ type: "function", strict: false, ...look }],
  tool_choice: { type: "function", name: "look" },
  parallel_tool_calls: false,
});
report.named_response = [
  namedResponse.output.map((item) => item.name),
  namedResponse.tool_choice.name,
  namedResponse.parallel_tool_calls,
];
const stopped = await client.chat.completions.create({ model, messages, stop: ["END", "."] });
report.stop = [stopped.choices[0].message.content, stopped.choices[0].finish_reason];
const broken = { type: "json_schema", json_schema: { name: "broken", schema: { type: "city" } } };
report.broken = await refused(() => client.chat.completions.create({ model, messages, response_format: broken }));

report.unknown_model = await refused(() => client.responses.create({ model: "gpt-5", input: "five" }));
report.unsupported = await refused(() =>
  client.chat.completions.create({ model, n: 2, messages: [{ role: "user", content: "five" }] }),
);
report.nobody = await refused(() => new OpenAI({ apiKey: "sk-none", maxRetries: 0 }).models.list());

console.log(JSON.stringify(report));
