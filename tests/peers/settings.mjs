// The environment of the reference peer: the variables of the interface
// (host/docs/interface/errors-and-limits.md#configuration), and the few that tests lower. What they mean once
// they are read does not belong here.
import { z } from "zod";

const switched = (fallback) => z.enum(["on", "off"]).default(fallback).transform((word) => word === "on");
const positive = (fallback) => z.coerce.number().int().positive().default(fallback);

const redis = { REDIS_URL: z.string().url() };

const model = {
  LLM_API_KEY: z.string().min(1),
  LLM_MODEL: z.string().default("openai/gpt-4o-mini"),
  LLM_BASE_URL: z.string().url().default("https://api.openai.com"),
};

const service = {
  NODE_ENV: z.enum(["development", "staging", "production"]),
  PORT: z.string().default("3000"),
  JWT_SECRET: z.string().min(1),
  DATABASE_URL: z.string().url(),
  AGENT_CLUSTER_URL: z.string().url().optional(),
  RESULT_CACHE: switched("on"),
  // The breaker is optional there (host/docs/interface/errors-and-limits.md#errors).
  CIRCUIT: switched("off"),
  // How many proxies are believed when they say who the client is; Express's `trust proxy`.
  TRUST_PROXY: z.coerce.number().int().nonnegative().default(0),
  // As in host/docs/interface/errors-and-limits.md#limits.
  IP_LIMIT: positive(100),
  USER_LIMIT: positive(10),
  PREMIUM_LIMIT: positive(100),
};

const worker = {
  // `noop` answers without asking a model: what is left is the queue.
  WORKER_MODE: z.enum(["agent", "noop"]).default("agent"),
  // BullMQ's own defaults.
  LOCK_DURATION_MS: positive(30_000),
  STALLED_INTERVAL_MS: positive(30_000),
};

/** Reads a schema from the environment; a mistake ends the process with the list of issues. */
function read(shape) {
  const parsed = z.object(shape).safeParse(process.env);
  if (parsed.success) return parsed.data;
  console.error(JSON.stringify(parsed.error.issues));
  process.exit(1);
}

export const serverSettings = () => read({ ...redis, ...model, ...service });
export const workerSettings = () =>
  // A worker that asks nobody needs no provider.
  process.env.WORKER_MODE === "noop" ? read({ ...redis, ...worker }) : read({ ...redis, ...model, ...worker });
export const queueSettings = () => read(redis);
