"""The official Python SDK creates responses over a WebSocket and limits tools, and what came of it as one JSON object."""

import json

from openai import OpenAI

client = OpenAI(max_retries=0)
MODEL = "agent"
report = {}


def ask(connection, **more):
    """The types of the events of a response, and the last one."""
    connection.send({"type": "response.create", "model": MODEL, **more})
    types = []
    while True:
        event = connection.recv()
        types.append(event.type)
        if event.type in ("error", "response.completed", "response.failed", "response.incomplete"):
            return types, event


with client.responses.connect() as connection:
    types, event = ask(connection, input="one", store=False)
    first = event.response
    report["events"] = [types, first.output_text, first.store]
    _, event = ask(connection, input="two", store=False, previous_response_id=first.id)
    report["went_on"] = [event.response.output_text, event.response.previous_response_id == first.id]
    _, event = ask(connection, input="three", previous_response_id=first.id)
    report["missing"] = [event.type, event.status, event.error.code, event.error.param]

# Of the agent's tools and a function of the client's one may be called, and has to be.
look = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
allowed = [{"type": "function", "name": "look"}]
called = client.responses.create(
    model=MODEL,
    input="four",
    tools=[{"type": "function", "strict": False, **look}],
    tool_choice={"type": "allowed_tools", "mode": "required", "tools": allowed},
)
report["allowed"] = [[item.name for item in called.output], called.tool_choice.type]
calculate = [{"type": "function", "function": {"name": "calculate"}}]
chat = client.chat.completions.create(
    model=MODEL,
    messages=[{"role": "user", "content": "five"}],
    tools=[{"type": "function", "function": look}],
    tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": calculate}},
)
report["allowed_chat"] = chat.choices[0].message.content

print(json.dumps(report))
