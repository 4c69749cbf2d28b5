// Whoever else uses the queue, as a command that prints lines of JSON and ends:
//
//   producer.mjs add QUERY USER [COUNT] [OPTIONS]   adds jobs; a line { jobId } for each. OPTIONS is JSON.
//   producer.mjs wait ID...                         waits until they have ended; { jobId, returnvalue | failedReason }
//   producer.mjs show ID...                         { jobId, state, job } as BullMQ reads them; job is null if unknown
//   producer.mjs counts                             { counts }: how many jobs there are in each state
import { Queue, QueueEvents } from "bullmq";

import { connect, JOB, QUEUE } from "./queue.mjs";
import { queueSettings } from "./settings.mjs";

const settings = queueSettings();
const queue = new Queue(QUEUE, { connection: connect(settings) });
const print = (line) => console.log(JSON.stringify(line));

const commands = {
  async add(query, userId, count = "1", options = "{}") {
    const job = { name: JOB, data: { query, userId }, opts: JSON.parse(options) };
    const jobs = await queue.addBulk(Array.from({ length: Number(count) }, () => job));
    for (const { id } of jobs) print({ jobId: id });
  },

  async wait(...ids) {
    const events = new QueueEvents(QUEUE, { connection: connect(settings) });
    await events.waitUntilReady();
    await Promise.all(ids.map(async (jobId) => {
      const job = await queue.getJob(jobId);
      try {
        print({ jobId, returnvalue: await job.waitUntilFinished(events) });
      } catch (error) {
        print({ jobId, failedReason: error.message });
      }
    }));
    await events.close();
  },

  async show(...ids) {
    for (const jobId of ids) {
      const job = await queue.getJob(jobId);
      print({ jobId, state: await queue.getJobState(jobId), job: job?.toJSON() ?? null });
    }
  },

  async counts() {
    print({ counts: await queue.getJobCounts() });
  },
};

const [name, ...parameters] = process.argv.slice(2);
const command = commands[name];
if (!command) {
  console.error(`unknown command; there are ${Object.keys(commands).join(", ")}`);
  process.exit(2);
}
await command(...parameters);
await queue.close();
process.exit(0);
