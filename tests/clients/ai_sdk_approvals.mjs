// A call that has to be approved, in the Vercel AI SDK's chat: what its page shows before and after the person's answer, as
// one JSON object.
import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { Chat, parts } from "./ai_sdk_page.mjs";

const report = {};
for (const approved of [true, false]) {
  const chat = new Chat({ sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
  await chat.sendMessage({ text: approved ? "pay" : "pay more" });
  const seen = parts(chat.messages.at(-1));
  const asked = chat.messages.at(-1).parts.find((part) => part.state === "approval-requested");
  await chat.addToolApprovalResponse({ id: asked.approval.id, approved, reason: "so be it" });
  // The SDK sends the chat by itself, and says nothing about when that has ended.
  const hasEnded = () => chat.status === "ready" && chat.messages.at(-1).parts.at(-1).type === "text";
  for (let waited = 0; waited < 600 && !hasEnded() && !chat.error; waited += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const after = parts(chat.messages.at(-1));
  report[approved ? "approved" : "rejected"] = [seen, chat.messages.length, after, chat.error?.message ?? null];
}

console.log(JSON.stringify(report));
