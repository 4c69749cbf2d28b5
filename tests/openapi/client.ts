// A client that is generated from /openapi.json, and what came of each call as one JSON object.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string | undefined> };

// Its answers are JSON: it asks for no streams.
const client = createClient<paths, "application/json">({
  baseUrl: process.env.BASE_URL ?? "",
  headers: { Authorization: `Bearer ${process.env.TOKEN}` },
});

const asked = await client.POST("/api/agent", { body: { query: "one for TypeScript", options: { maxTokens: 300 } } });
if (!asked.data) throw new Error(`no answer: ${asked.response.status}`);
// A run that waits for somebody goes on as a job: 202.
if ("jobId" in asked.data) throw new Error(`it waits as job ${asked.data.jobId}`);
const answer: components["schemas"]["AgentAnswer"] = asked.data;

const submitted = await client.POST("/api/agent/async", { body: { query: "two for TypeScript" } });
if (!submitted.data) throw new Error(`no job: ${submitted.response.status}`);
const { jobId } = submitted.data;
let job: components["schemas"]["Job"] | undefined;
while (!job?.finishedAt) {
  const read = await client.GET("/api/agent/jobs/{jobId}", { params: { path: { jobId }, query: { wait: 20 } } });
  if (!read.data) throw new Error(`no job: ${read.response.status}`);
  job = read.data;
}

const refused = await client.POST("/api/agent", { body: { query: "" } });
// What is wrong with the body, unless it is refused for another reason.
const told = typeof refused.error === "object" ? refused.error.error : "";
const issues = typeof told === "string" ? [] : told;
const unknown = await client.GET("/api/agent/jobs/{jobId}", { params: { path: { jobId: "nope" } } });

console.log(
  JSON.stringify({
    answer: [answer.output, answer.stopReason, answer.cached],
    job: [job.status, job.result?.output],
    refused: [refused.response.status, issues.map(({ code, path, minimum }) => [code, path, minimum])],
    unknown: [unknown.response.status, unknown.error],
  }),
);
