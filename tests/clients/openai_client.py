"""Every call that the official Python SDK has for the service, and what came of it as one JSON object."""

import json

from openai import APIStatusError, OpenAI, pydantic_function_tool
from pydantic import BaseModel

client = OpenAI(max_retries=0)
MODEL = "agent"
report = {}


class City(BaseModel):
    """A city."""

    name: str
    people: int


def refused(call):
    """Status, code and place of an error, and the class that the SDK makes of it."""
    try:
        call()
        return "no error"
    except APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code, error.param]


report["models"] = [model.id for model in client.models.list()]
report["model"] = client.models.retrieve(MODEL).id

chat = client.chat.completions.create(
    model=MODEL,
    max_completion_tokens=300,
    messages=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "one"}],
)
report["chat"] = [chat.choices[0].message.content, chat.choices[0].finish_reason, chat.usage.total_tokens]

with client.chat.completions.stream(
    model=MODEL,
    stream_options={"include_usage": True},
    messages=[{"role": "user", "content": [{"type": "text", "text": "two"}]}],
) as chunks:
    words = "".join(event.delta for event in chunks if event.type == "content.delta")
    streamed = chunks.get_final_completion()
report["stream"] = [words, streamed.choices[0].finish_reason, streamed.usage.total_tokens]

first = client.responses.create(model=MODEL, input="three", instructions="Be kind.")
items = [item.type for item in first.output]
report["response"] = [first.output_text, first.status, items, first.usage.total_tokens]

with client.responses.stream(
    model=MODEL,
    input=[{"role": "user", "content": "three"}, *first.output, {"role": "user", "content": "four"}],
) as events:
    types = [event.type for event in events]
    last = events.get_final_response()
report["events"] = [types, last.output_text, [item.type for item in last.output]]

# A function of the client's own, beside the agent's tools.
look = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
tools = [{"type": "function", "function": look}]
question = {"role": "user", "content": "five"}
asked = client.chat.completions.create(model=MODEL, tools=tools, messages=[question]).choices[0]
seen = {"role": "tool", "tool_call_id": asked.message.tool_calls[0].id, "content": "a cat"}
told = client.chat.completions.create(model=MODEL, tools=tools, messages=[question, asked.message, seen])
report["function"] = [
    asked.finish_reason,
    asked.message.tool_calls[0].function.name,
    told.choices[0].message.content,
]

with client.responses.stream(model=MODEL, input="six", tools=[{"type": "function", "strict": False, **look}]) as events:
    called = events.get_final_response().output[0]
output = {"type": "function_call_output", "call_id": called.call_id, "output": "a dog"}
answered = client.responses.create(model=MODEL, input=[{"role": "user", "content": "six"}, called, output])
report["function_call"] = [called.type, called.name, called.arguments, answered.output_text]

# A conversation that the service keeps, item by item, and one in fewer words.
said = [{"type": "message", "role": "user", "content": "I am Ada."}]
kept = client.conversations.create(metadata={"order": "4711"}, items=said)
client.conversations.items.create(kept.id, items=[{"type": "message", "role": "assistant", "content": "Hi, Ada."}])
told = client.responses.create(model=MODEL, input="who?", conversation=kept.id)
items = list(client.conversations.items.list(kept.id, order="asc", limit=2))
read = client.conversations.items.retrieve(items[1].id, conversation_id=kept.id)
left = client.conversations.items.delete(items[0].id, conversation_id=kept.id)
renamed = client.conversations.update(kept.id, metadata={"order": "4712"})
report["conversation"] = [
    told.output_text,
    [item.content[0].text for item in items],
    read.content[0].text,
    left.metadata,
    client.conversations.retrieve(kept.id) == renamed,
    len(client.conversations.items.list(kept.id).data),
    client.conversations.delete(kept.id).deleted,
]
asked = client.responses.input_items.list(told.id, order="asc")
report["input_items"] = [item.content[0].text for item in asked]
short = client.responses.compact(model=MODEL, input=[*said, {"role": "assistant", "content": "Hi, Ada."}])
goes_on = client.responses.create(model=MODEL, input=[*short.output, {"role": "user", "content": "and?"}])
report["compact"] = [[item.type for item in short.output], goes_on.output_text]

# An image, in both forms.
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
picture = {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}
seen = client.chat.completions.create(
    model=MODEL, messages=[{"role": "user", "content": [{"type": "text", "text": "seven"}, picture]}]
)
picture = {"type": "input_image", "image_url": PIXEL, "detail": "low"}
shown = client.responses.create(
    model=MODEL, input=[{"role": "user", "content": [{"type": "input_text", "text": "seven"}, picture]}]
)
report["image"] = [seen.choices[0].message.content, shown.output_text]

# An answer as a value of a class: the model's first reply is wrong.
ask = [{"role": "user", "content": "Which city?"}]
parsed = client.chat.completions.parse(model=MODEL, messages=ask, response_format=City)
report["parsed"] = [parsed.choices[0].message.parsed.model_dump(), parsed.usage.total_tokens]
parsed = client.responses.parse(model=MODEL, input="Which city?", text_format=City)
report["parsed_response"] = [parsed.output_parsed.model_dump(), [item.type for item in parsed.output]]

with client.chat.completions.stream(model=MODEL, messages=ask, response_format=City) as chunks:
    done = [event.parsed.model_dump() for event in chunks if event.type == "content.done"]
    parsed = chunks.get_final_completion().choices[0].message.parsed
report["parsed_stream"] = [done, parsed.model_dump()]
with client.responses.stream(model=MODEL, input="Which city?", text_format=City) as events:
    done = [event.parsed.model_dump() for event in events if event.type == "response.output_text.done"]
    parsed = events.get_final_response().output_parsed
report["parsed_events"] = [done, parsed.model_dump()]

# One that is never right.
message = client.chat.completions.parse(model=MODEL, messages=ask, response_format=City).choices[0].message
report["refusal"] = [message.refusal, message.content, message.parsed]
with client.chat.completions.stream(model=MODEL, messages=ask, response_format=City) as chunks:
    message = chunks.get_final_completion().choices[0].message
report["refusal_stream"] = [message.refusal, message.content or None, message.parsed]
failed = client.responses.parse(model=MODEL, input="Which city?", text_format=City)
report["failed"] = [failed.status, failed.error.code, failed.error.message, failed.output_parsed]
with client.responses.stream(model=MODEL, input="Which city?", text_format=City) as events:
    last = [event for event in events][-1]
report["failed_events"] = [last.type, last.response.error.message]

answer = client.chat.completions.create(model=MODEL, messages=ask, response_format={"type": "json_object"})
report["json_object"] = json.loads(answer.choices[0].message.content)
answer = client.responses.create(model=MODEL, input="Which city?", text={"format": {"type": "json_object"}})
report["json_object_response"] = [json.loads(answer.output_text), answer.text.format.type]

# The call of a function, with words beside it that are no answer.
called = client.chat.completions.parse(
    model=MODEL,
    messages=ask,
    response_format=City,
    tools=[{"type": "function", "function": {"strict": True, **look}}],
).choices[0]
name = called.message.tool_calls[0].function.name
report["looked"] = [called.finish_reason, name, called.message.parsed]

# Which tool is called first, how many are called at once, and where a reply ends.
answer = client.chat.completions.create(model=MODEL, messages=ask, tool_choice="required")
report["required"] = answer.choices[0].message.content
named = {"type": "function", "function": {"name": "City"}}
called = client.chat.completions.parse(
    model=MODEL,
    messages=ask,
    tools=[pydantic_function_tool(City)],
    tool_choice=named,
    parallel_tool_calls=False,
).choices[0]
calls = [call.function.parsed_arguments.model_dump() for call in called.message.tool_calls]
report["named"] = [called.finish_reason, calls]
named = {"type": "function", "name": "look"}
called = client.responses.create(
    model=MODEL,
    input="Which city?",
    tools=[{"type": "function", "strict": False, **look}],
    tool_choice=named,
    parallel_tool_calls=False,
)
names = [item.name for item in called.output]
report["named_response"] = [names, called.tool_choice.name, called.parallel_tool_calls]
answer = client.chat.completions.create(model=MODEL, messages=ask, stop=["END", "."])
report["stop"] = [answer.choices[0].message.content, answer.choices[0].finish_reason]
broken = {"type": "json_schema", "json_schema": {"name": "broken", "schema": {"type": "city"}}}
report["broken"] = refused(
    lambda: client.chat.completions.create(model=MODEL, messages=ask, response_format=broken)
)

report["unknown_model"] = refused(lambda: client.responses.create(model="gpt-5", input="five"))
report["unsupported"] = refused(
    lambda: client.chat.completions.create(model=MODEL, n=2, messages=[{"role": "user", "content": "five"}])
)
report["nobody"] = refused(lambda: OpenAI(api_key="sk-none", max_retries=0).models.list())

print(json.dumps(report))
