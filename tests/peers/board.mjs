// Bull Board, as operators have it before the queue: its page and what its buttons ask for. Prints the port it listens on as
// a line of JSON.
import { createServer } from "node:http";

import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { ExpressAdapter } from "@bull-board/express";
import { Queue } from "bullmq";

import { connect, QUEUE } from "./queue.mjs";
import { queueSettings } from "./settings.mjs";

const queue = new Queue(QUEUE, { connection: connect(queueSettings()) });
// An app of the Express that Bull Board brings along, newer than that of server.mjs.
const serverAdapter = new ExpressAdapter();
// An answer that is not what Bull Board's page was written for is an error.
const options = { validateResponses: true, uiConfig: {} };
createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter, options });

const server = createServer(serverAdapter.getRouter());
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));

async function shutDown() {
  server.close();
  await queue.close();
  process.exit(0);
}
process.once("SIGTERM", shutDown);
process.once("SIGINT", shutDown);
