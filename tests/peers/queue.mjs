// The queue's name and how it is connected to, for everybody who works with it.
import { Redis } from "ioredis";

/** Interface, Variant B, rule 4. */
export const QUEUE = "agent-tasks";
export const JOB = "invoke";

/** A connection as BullMQ wants it: commands wait for Redis instead of failing. */
export const connect = ({ REDIS_URL }) => new Redis(REDIS_URL, { maxRetriesPerRequest: null });
