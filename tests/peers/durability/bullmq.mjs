// The Node deployment: a server that adds jobs (`bullmq.mjs server`) and a worker (`bullmq.mjs worker`) with the
// queue of ../worker.mjs and its concurrency. BullMQ keeps a job and its result; the steps between are nobody's,
// so a job that is taken up again begins anew.
import { Queue, QueueEvents, Worker } from "bullmq";

import { connect, JOB, QUEUE } from "../queue.mjs";
import { runAgent, serveRuns } from "./agent.mjs";

const connection = connect(process.env);

async function serve() {
  const [queue, events] = [new Queue(QUEUE, { connection }), new QueueEvents(QUEUE, { connection: connect(process.env) })];
  await events.waitUntilReady();
  serveRuns(
    (id, query) => queue.add(JOB, { query }, { jobId: id }),
    async (id) => (await queue.getJob(id)).waitUntilFinished(events),
  );
}

async function work() {
  const invoke = (job) => runAgent(job.data.query, (_name, act) => act());
  const worker = new Worker(QUEUE, invoke, { connection, concurrency: 5 });
  await worker.waitUntilReady();
  console.log(JSON.stringify({ event: "ready" }));
}

await (process.argv[2] === "worker" ? work() : serve());
