// DBOS: a library in one process, which journals steps in PostgreSQL. It goes on with what an earlier process
// of the same executor left when it starts.
import { DBOS } from "@dbos-inc/dbos-sdk";

import { runAgent, serveRuns } from "./agent.mjs";

const step = (name, act) => DBOS.runStep(act, { name });
const agent = DBOS.registerWorkflow((query) => runAgent(query, step), { name: "agent" });

DBOS.setConfig({ name: "bench", systemDatabaseUrl: process.env.DATABASE_URL, logLevel: "error" });
await DBOS.launch();

// A handle of this process is told of the end; one that is retrieved looks for it in the database.
const handles = new Map();

serveRuns(
  async (id, query) => handles.set(id, await DBOS.startWorkflow(agent, { workflowID: id })(query)),
  async (id) => {
    const handle = handles.get(id) ?? DBOS.retrieveWorkflow(id);
    handles.delete(id);
    return handle.getResult();
  },
);
