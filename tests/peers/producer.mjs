// Whoever else uses the queue, as a command that prints lines of JSON and ends. Without arguments it does what its
// standard input says, a JSON list of them a line, and prints a list of those lines for each:
//
//   producer.mjs add QUERY USER [COUNT] [OPTIONS]   adds jobs; a line { jobId } for each. OPTIONS is JSON.
//   producer.mjs wait ID...                         waits until they have ended; { jobId, returnvalue | failedReason }
//   producer.mjs show ID...                         { jobId, state, job } as BullMQ reads them; job is null if unknown
//   producer.mjs counts                             { counts }: how many jobs there are in each state
//   producer.mjs schedule ID REPEAT QUERY USER      makes a job scheduler; REPEAT is JSON; { jobId } of its first job
//   producer.mjs flow TREE                          adds a parent with its children; TREE is JSON without names of queues
//   producer.mjs limit LIMITS                       { concurrency } and { rate: [max, duration] } of the whole queue
//   producer.mjs edit ID QUERY USER                 gives a job other data
//   producer.mjs retry ID STATE                     puts a job that has ended back to the queue
import { createInterface } from "node:readline";

import { FlowProducer, Queue, QueueEvents } from "bullmq";

import { connect, JOB, QUEUE } from "./queue.mjs";
import { queueSettings } from "./settings.mjs";

const settings = queueSettings();
const redis = connect(settings);
const queue = new Queue(QUEUE, { connection: redis });
let printed = [];
const print = (line) => printed.push(line);

const commands = {
  async add(query, userId, count = "1", options = "{}") {
    const job = { name: JOB, data: { query, userId }, opts: JSON.parse(options) };
    const jobs = await queue.addBulk(Array.from({ length: Number(count) }, () => job));
    for (const { id } of jobs) print({ jobId: id });
  },

  async wait(...ids) {
    // From the newest event of now on: by default BullMQ begins with its first blocking read, and an end that comes before
    // that one, and behind its own last look at the job, is never heard of.
    const [newest] = await redis.xrevrange(queue.toKey("events"), "+", "-", "COUNT", 1);
    const lastEventId = newest ? newest[0] : "0";
    const events = new QueueEvents(QUEUE, { connection: connect(settings), lastEventId });
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

  async schedule(id, repeat, query, userId) {
    const job = await queue.upsertJobScheduler(id, JSON.parse(repeat), { name: JOB, data: { query, userId } });
    print({ jobId: job.id });
  },

  async flow(tree) {
    const named = ({ children = [], ...job }) => ({
      ...job, name: JOB, queueName: QUEUE, children: children.map(named),
    });
    const flows = new FlowProducer({ connection: connect(settings) });
    const { job } = await flows.add(named(JSON.parse(tree)));
    await flows.close();
    print({ jobId: job.id });
  },

  async limit(limits) {
    const { concurrency, rate } = JSON.parse(limits);
    if (concurrency) await queue.setGlobalConcurrency(concurrency);
    if (rate) await queue.setGlobalRateLimit(...rate);
    print({ limits });
  },

  async edit(id, query, userId) {
    await (await queue.getJob(id)).updateData({ query, userId });
    print({ jobId: id });
  },

  async retry(id, state) {
    await (await queue.getJob(id)).retry(state);
    print({ jobId: id });
  },
};

/** Carries a command out: what it prints. */
async function run([name, ...parameters]) {
  const command = commands[name];
  if (!command) {
    console.error(`unknown command; there are ${Object.keys(commands).join(", ")}`);
    process.exit(2);
  }
  printed = [];
  await command(...parameters);
  return printed;
}

const given = process.argv.slice(2);
if (given.length > 0) {
  for (const line of await run(given)) console.log(JSON.stringify(line));
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await run(JSON.parse(line))));
  }
}
await queue.close();
process.exit(0);
