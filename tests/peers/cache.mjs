// The result cache on Redis (host/docs/interface/endpoints.md#variant-b).
import { createHash } from "node:crypto";

const TIME_TO_LIVE_SECONDS = 3600;

const keyOf = (query) => `agent:${createHash("sha256").update(query).digest("hex")}`;

/** Puts a cache in front of `invoke`. */
export function withCache(redis, invoke) {
  return async (ask) => {
    const key = keyOf(ask.query);
    const kept = await redis.get(key);
    if (kept) return { ...JSON.parse(kept), cached: true };
    const result = await invoke(ask);
    await redis.setex(key, TIME_TO_LIVE_SECONDS, JSON.stringify(result));
    return { ...result, cached: false };
  };
}
