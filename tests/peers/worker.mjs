// A BullMQ worker of the queue `agent-tasks`: runs the agent for each job and returns its result. Prints a line
// of JSON when it is ready and for every job that has ended.
import { Worker } from "bullmq";

import { createAgent } from "./agent.mjs";
import { connect, QUEUE } from "./queue.mjs";
import { workerSettings } from "./settings.mjs";

const settings = workerSettings();
const print = (line) => console.log(JSON.stringify(line));

const work = settings.WORKER_MODE === "noop" ? async () => ({ noop: true }) : agentWork();

function agentWork() {
  const agent = createAgent(settings);
  return (job) => agent.invoke({ query: job.data.query });
}

const worker = new Worker(QUEUE, work, {
  connection: connect(settings),
  concurrency: 5,
  lockDuration: settings.LOCK_DURATION_MS,
  stalledInterval: settings.STALLED_INTERVAL_MS,
});
worker.on("completed", (job) => print({ event: "completed", jobId: job.id }));
worker.on("failed", (job, error) => print({ event: "failed", jobId: job?.id, error: error.message }));
worker.on("error", (error) => console.error(JSON.stringify({ level: "error", message: error.message })));

await worker.waitUntilReady();
print({ event: "ready" });

async function shutDown() {
  await worker.close();
  process.exit(0);
}
process.once("SIGTERM", shutDown);
process.once("SIGINT", shutDown);
