"""A client that is generated from /openapi.json, and what came of each call as one JSON object."""

import json
import os

from agent_host_client import AuthenticatedClient
from agent_host_client.api.agent import ask_agent
from agent_host_client.api.jobs import read_job, submit_job
from agent_host_client.models import (
    AgentAnswer,
    AgentRequest,
    AgentRequestOptions,
    AgentResult,
    Error,
    Job,
    JobAccepted,
    JobRequest,
    ValidationError,
)

client = AuthenticatedClient(base_url=os.environ["BASE_URL"], token=os.environ["TOKEN"], timeout=60)  # type: ignore[arg-type]

options = AgentRequestOptions(max_tokens=300)
answer = ask_agent.sync(client=client, body=AgentRequest(query="one for Python", options=options))
assert isinstance(answer, AgentAnswer), answer

submitted = submit_job.sync(client=client, body=JobRequest(query="two for Python"))
assert isinstance(submitted, JobAccepted), submitted
job = None
while not (isinstance(job, Job) and job.finished_at):
    job = read_job.sync(submitted.job_id, client=client, wait=20)
    assert isinstance(job, Job), job
assert isinstance(job.result, AgentResult), job

refused = ask_agent.sync_detailed(client=client, body=AgentRequest(query=""))
assert isinstance(refused.parsed, ValidationError), refused
issues = [[str(issue.code), issue.path, issue.minimum] for issue in refused.parsed.error]

unknown = read_job.sync_detailed("nope", client=client)
assert isinstance(unknown.parsed, Error), unknown

print(
    json.dumps(
        {
            "answer": [answer.output, str(answer.stop_reason), answer.cached],
            "job": [str(job.status), job.result.output],
            "refused": [refused.status_code, issues],
            "unknown": [unknown.status_code, unknown.parsed.to_dict()],
        }
    )
)
