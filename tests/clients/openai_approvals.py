"""The official Python SDK approves calls that wait, and what came of it as one JSON object."""

import json

from openai import APIStatusError, OpenAI

client = OpenAI(max_retries=0)
MODEL = "agent"
report = {}


def answer(asked, approve, **more):
    """The answer to an approval request."""
    return {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": approve, **more}


def types(response):
    """The types of the items of a response."""
    return [item.type for item in response.output]


first = client.responses.create(model=MODEL, input="one")
asked = first.output[-1]
report["asked"] = [first.status, types(first), asked.name, json.loads(asked.arguments), asked.server_label]
second = client.responses.create(model=MODEL, previous_response_id=first.id, input=[answer(asked, True)])
report["approved"] = [types(second), second.output_text, second.output[0].approval_request_id == asked.id]
try:
    client.responses.create(model=MODEL, previous_response_id=first.id, input=[answer(asked, False)])
    report["again"] = "no error"
except APIStatusError as error:
    report["again"] = [type(error).__name__, error.status_code, error.code, error.param]

with client.responses.stream(model=MODEL, input="two") as events:
    seen = [event.type for event in events]
    first = events.get_final_response()
asked = first.output[-1]
rejected = [answer(asked, False, reason="too dear")]
with client.responses.stream(model=MODEL, previous_response_id=first.id, input=rejected) as events:
    words = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    second = events.get_final_response()
report["streamed"] = [seen[-3:], types(first), types(second), second.output[0].status, words]

# A client that keeps what was said sends all of it.
said = [{"role": "user", "content": "three"}]
first = client.responses.create(model=MODEL, store=False, input=said)
said += [*first.output, answer(first.output[-1], True)]
second = client.responses.create(model=MODEL, store=False, input=said)
said += [*second.output, {"role": "user", "content": "four"}]
third = client.responses.create(model=MODEL, store=False, input=said)
report["whole"] = [types(second), second.output_text, third.output_text]

print(json.dumps(report))
