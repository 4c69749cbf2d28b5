// A page with the Vercel AI SDK's chat, without the page: what `useChat` is made of, with `DefaultChatTransport` against
// `/v1/chat`.
import { AbstractChat, DefaultChatTransport } from "ai";

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

export class Chat extends AbstractChat {
  constructor(more) {
    const transport = new DefaultChatTransport({
      api: `${process.env.OPENAI_BASE_URL}/chat`,
      headers: { Authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
    });
    super({ state: new State(), transport, ...more });
  }
}

/** The parts of a message that a page shows. */
export const parts = (message) => message.parts.filter((part) => part.type !== "step-start").map((part) => {
  if (part.type !== "dynamic-tool") return [part.type, part.text];
  return [part.type, part.toolName, part.state, part.input, part.output ?? part.errorText ?? null];
});
