// Health and readiness reports (host/docs/interface/endpoints.md#readiness-of-variant-b).

async function check(ask) {
  const start = Date.now();
  try {
    await ask();
    return { status: "ok", latency: Date.now() - start };
  } catch {
    return { status: "error" };
  }
}

const isOk = ({ status }) => status === "ok";

/** The two handlers over what can be asked: `{ database, redis, llm }`, each a function that may throw. */
export function createReports({ database, redis, llm }) {
  async function health(_request, response) {
    const names = { database, redis, llm };
    const results = await Promise.all(Object.values(names).map(check));
    const checks = Object.fromEntries(Object.keys(names).map((name, index) => [name, results[index]]));
    const healthy = results.every(isOk);
    response.status(healthy ? 200 : 503).json({
      status: healthy ? "healthy" : "unhealthy",
      timestamp: new Date().toISOString(),
      uptime: process.uptime(),
      checks,
    });
  }

  async function ready(_request, response) {
    const [databaseCheck, cacheCheck] = await Promise.all([check(database), check(redis)]);
    // The agent is set up before the server listens.
    const report = { initialized: true, database: databaseCheck, cache: cacheCheck };
    response.status(isOk(databaseCheck) && isOk(cacheCheck) ? 200 : 503).json(report);
  }

  return { health, ready };
}
