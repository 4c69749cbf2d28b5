"""Instructor, and what came of each call as one JSON object."""

import json

import instructor
from instructor.core import InstructorRetryException
from openai import OpenAI
from pydantic import BaseModel

report = {}


class City(BaseModel):
    """A city."""

    name: str
    people: int


def asks(mode):
    """Asks for a city in that mode, of which the first answer may be wrong."""
    client = instructor.from_openai(OpenAI(max_retries=0), mode=mode)
    ask = {"model": "agent", "messages": [{"role": "user", "content": "Which city?"}], "response_model": City}
    return client, ask


for mode in [
    instructor.Mode.TOOLS,
    instructor.Mode.TOOLS_STRICT,
    instructor.Mode.JSON_SCHEMA,
    instructor.Mode.JSON,
    instructor.Mode.RESPONSES_TOOLS,
]:
    client, ask = asks(mode)
    report[mode.name] = client.create(max_retries=2, **ask).model_dump()

client, ask = asks(instructor.Mode.TOOLS)
report["partial"] = list(client.create_partial(**ask))[-1].model_dump()

client, ask = asks(instructor.Mode.JSON_SCHEMA)
try:
    client.create(max_retries=0, **ask)
except InstructorRetryException as error:
    report["never"] = [error.n_attempts, error.last_completion.choices[0].message.refusal]

print(json.dumps(report))
