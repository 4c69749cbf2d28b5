// Restate: the service, which its server calls. The server takes runs and gives answers; it is told of the
// service once.
import * as restate from "@restatedev/restate-sdk";

import { runAgent } from "./agent.mjs";

// The SDK uses what Node has from version 22 on; with this it runs on 20 too.
Promise.withResolvers ??= function () {
  const made = {};
  made.promise = new this((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const agent = restate.workflow({
  name: "agent",
  handlers: { run: (context, { query }) => runAgent(query, (name, act) => context.run(name, act)) },
});

const port = await restate.serve({ services: [agent], port: Number(process.env.PORT) });
const uri = `http://127.0.0.1:${port}`;
const registered = await fetch(new URL("/deployments", process.env.RESTATE_ADMIN_URL), {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ uri, force: true }),
});
if (!registered.ok) throw new Error(`Restate refuses the service: ${await registered.text()}`);
console.log(JSON.stringify({ port }));
