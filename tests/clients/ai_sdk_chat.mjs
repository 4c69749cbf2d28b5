// The Vercel AI SDK's chat, as `useChat` has it without a page: `DefaultChatTransport` against `/v1/chat`. What came of
// it as one JSON object.
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

const report = {};

/** What a page would hold. */
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => { this.messages = this.messages.with(index, message); };
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor(more) {
    const transport = new DefaultChatTransport({
      api: `${process.env.OPENAI_BASE_URL}/chat`,
      headers: { Authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
    });
    super({ state: new State(), transport, onError: (error) => { report.error = error.message; }, ...more });
  }
}

const parts = (message) => message.parts.filter((part) => part.type !== "step-start").map((part) => {
  if (part.type !== "dynamic-tool") return [part.type, part.text];
  return [part.type, part.toolName, part.state, part.input, part.output ?? part.errorText ?? null];
});

const chat = new Chat();
await chat.sendMessage({ text: "one" });
report.first = [chat.status, parts(chat.messages.at(-1)), chat.messages.at(-1).metadata.usage.totalTokens > 0];
await chat.sendMessage({ text: "two" });
report.second = [chat.messages.length, parts(chat.messages.at(-1))];

if (process.argv.includes("--approvals")) {
  for (const approved of [true, false]) {
    const asking = new Chat({ sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    await asking.sendMessage({ text: "three" });
    const asked = asking.messages.at(-1).parts.find((part) => part.state === "approval-requested");
    const seen = parts(asking.messages.at(-1));
    await asking.addToolApprovalResponse({ id: asked?.approval.id, approved, reason: "so be it" });
    for (let waited = 0; waited < 200 && (asking.status !== "ready" || asking.messages.at(-1).parts.at(-1).type !== "text"); waited += 1) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    report[approved ? "approved" : "rejected"] = [seen, asking.messages.length, parts(asking.messages.at(-1)), asking.error?.message ?? null];
  }
}

console.log(JSON.stringify(report));
