// Responses over Node's own WebSocket, and what came of it as one JSON object.
const WebSocket = globalThis.WebSocket ?? (await import("undici")).WebSocket;

const model = "agent";
const report = {};
const url = `${process.env.OPENAI_BASE_URL.replace("http", "ws")}/responses`;
const socket = new WebSocket(url, { headers: { Authorization: `Bearer ${process.env.OPENAI_API_KEY}` } });
await new Promise((opened, failed) => {
  socket.addEventListener("open", opened);
  socket.addEventListener("error", () => failed(new Error("no WebSocket")));
});

// The types of the events of a response, and the last one.
function ask(more) {
  const types = [];
  const answered = new Promise((resolve) => {
    const read = ({ data }) => {
      const event = JSON.parse(data);
      types.push(event.type);
      if (!["error", "response.completed", "response.failed", "response.incomplete"].includes(event.type)) return;
      socket.removeEventListener("message", read);
      resolve([types, event]);
    };
    socket.addEventListener("message", read);
  });
  socket.send(JSON.stringify({ type: "response.create", model, ...more }));
  return answered;
}

const text = (response) => response.output.at(-1).content[0].text;
const [types, { response: first }] = await ask({ input: "one", store: false });
report.events = [types, text(first), first.store];
const [, { response: second }] = await ask({ input: "two", store: false, previous_response_id: first.id });
report.went_on = [text(second), second.previous_response_id === first.id];
const [, missing] = await ask({ input: "three", previous_response_id: first.id });
report.missing = [missing.type, missing.status, missing.error.code, missing.error.param];
const closed = new Promise((resolve) => socket.addEventListener("close", ({ wasClean }) => resolve(wasClean)));
socket.close();
report.closed = await closed;

console.log(JSON.stringify(report));
