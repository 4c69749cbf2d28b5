// The Vercel AI SDK's chat: two messages, and what a page shows of each answer, as one JSON object.
import { Chat, parts } from "./ai_sdk_page.mjs";

const report = {};
const chat = new Chat();
await chat.sendMessage({ text: "one" });
report.first = [chat.status, parts(chat.messages.at(-1)), chat.messages.at(-1).metadata.usage.totalTokens > 0];
await chat.sendMessage({ text: "two" });
report.second = [chat.messages.length, parts(chat.messages.at(-1))];

console.log(JSON.stringify(report));
