// Variant B as it stands on Express: which route passes what, in which order. Prints the port it listens on as
// a line of JSON.
import { Queue } from "bullmq";
import express from "express";
import { Redis } from "ioredis";
import CircuitBreaker from "opossum";
import pg from "pg";

import { createAgent } from "./agent.mjs";
import { withCache } from "./cache.mjs";
import { errorHandler } from "./errors.mjs";
import { authenticate, ipLimiter, userLimiter, validate } from "./gates.mjs";
import { createReports } from "./health.mjs";
import { createMetrics } from "./metrics.mjs";
import { connect, JOB, QUEUE } from "./queue.mjs";
import { serverSettings } from "./settings.mjs";

const settings = serverSettings();
const redis = new Redis(settings.REDIS_URL, { maxRetriesPerRequest: 1 });
redis.on("error", (error) => console.error(JSON.stringify({ level: "error", message: error.message })));
const queue = new Queue(QUEUE, { connection: connect(settings) });
// host/docs/interface/errors-and-limits.md#limits.
const database = new pg.Pool({
  connectionString: settings.DATABASE_URL,
  max: 20,
  idleTimeoutMillis: 30_000,
  connectionTimeoutMillis: 2_000,
});
database.on("error", (error) => console.error(JSON.stringify({ level: "error", message: error.message })));

const agent = createAgent(settings);
const metrics = createMetrics(settings.NODE_ENV);
const guarded = settings.CIRCUIT ? withCircuit(agent.invoke) : agent.invoke;
const run = metrics.counted(guarded);
const answer = settings.RESULT_CACHE ? withCache(redis, run) : run;

/** Interface, Errors, rule 2. */
function withCircuit(invoke) {
  const breaker = new CircuitBreaker(invoke, {
    timeout: 30_000,
    errorThresholdPercentage: 50,
    resetTimeout: 30_000,
  });
  breaker.fallback(() => ({ error: "Service temporarily unavailable" }));
  return (ask) => breaker.fire(ask);
}

/** Express 4 does not look at promises. */
const handle = (handler) => (request, response, next) => handler(request, response).catch(next);

const { health, ready } = createReports({
  database: () => database.query("SELECT 1"),
  redis: () => redis.ping(),
  llm: agent.ping,
});

const app = express();
if (settings.TRUST_PROXY > 0) app.set("trust proxy", settings.TRUST_PROXY);
const known = [authenticate(settings), userLimiter(settings), express.json()];

app.get("/health", handle(health));
app.get("/ready", handle(ready));
app.get("/metrics", handle(async (_request, response) => {
  response.set("Content-Type", metrics.registry.contentType);
  response.end(await metrics.registry.metrics());
}));

app.use("/api/", ipLimiter(settings));

app.post("/api/agent", known, validate, handle(async ({ body }, response) => {
  response.json(await answer(body));
}));

app.post("/api/agent/async", known, handle(async ({ body, user }, response) => {
  const job = await queue.add(JOB, { query: body.query, userId: user.id });
  response.json({ jobId: job.id });
}));

app.post("/api/gateway", known, handle(async ({ body, headers }, response) => {
  const { query, priority } = body;
  if (priority !== "high" || !settings.AGENT_CLUSTER_URL) return response.json(await run({ query }));
  const forwarded = await fetch(settings.AGENT_CLUSTER_URL, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: headers.authorization },
    body: JSON.stringify({ query }),
  });
  response.status(forwarded.status).json(await forwarded.json());
}));

app.post("/api/serverless", known, async ({ body }, response) => {
  try {
    response.json(await run({ query: body.query }));
  } catch (error) {
    response.status(500).json({ error: error.message });
  }
});

app.use(errorHandler(settings.NODE_ENV));

const server = app.listen(settings.PORT, "127.0.0.1", () => {
  console.log(JSON.stringify({ port: server.address().port }));
});

async function shutDown() {
  setTimeout(() => process.exit(1), 30_000).unref();
  await new Promise((closed) => server.close(closed));
  await Promise.all([queue.close(), redis.quit(), database.end()]);
  process.exit(0);
}
process.once("SIGTERM", shutDown);
process.once("SIGINT", shutDown);
