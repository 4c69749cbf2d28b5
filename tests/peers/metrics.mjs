// The three series of the interface (host/docs/interface/errors-and-limits.md#metrics) and prom-client's
// default ones.
import { readFileSync } from "node:fs";

import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";

const { version } = JSON.parse(readFileSync(new URL("package.json", import.meta.url)));

/** `{ registry, counted }`: `counted` puts the series around an `invoke`. */
export function createMetrics(environment) {
  const registry = new Registry();
  registry.setDefaultLabels({ environment, version });
  collectDefaultMetrics({ register: registry, prefix: "agent_" });
  const registers = [registry];
  const total = new Counter({ name: "agent_invocations_total", help: "Total agent invocations", registers });
  const seconds = new Histogram({ name: "agent_duration_seconds", help: "Agent execution duration", registers });
  const active = new Gauge({ name: "agent_active_requests", help: "Requests in progress", registers });

  const counted = (invoke) => async (ask) => {
    total.inc();
    active.inc();
    const stop = seconds.startTimer();
    try {
      return await invoke(ask);
    } finally {
      stop();
      active.dec();
    }
  };
  return { registry, counted };
}
