"""LangChain's client of OpenAI, and what came of each call as one JSON object."""

import json

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

chat = ChatOpenAI(model="agent", max_retries=0, stream_usage=True)
responses = ChatOpenAI(model="agent", max_retries=0, use_responses_api=True)
report = {}


class City(BaseModel):
    """A city."""

    name: str
    people: int


@tool
def look() -> str:
    """Looks at what is there."""
    return "fur"


said = chat.invoke([("system", "Be brief."), ("user", "one")], max_tokens=300)
report["chat"] = [said.text, said.response_metadata["finish_reason"], said.usage_metadata["total_tokens"]]

whole = None
for chunk in chat.stream([("user", "two")]):
    whole = chunk if whole is None else whole + chunk
report["stream"] = [whole.text, whole.response_metadata["finish_reason"], whole.usage_metadata["total_tokens"]]

said = responses.invoke([("user", "three")])
report["response"] = [said.text, said.response_metadata["status"], len(said.tool_calls)]

events = "".join(chunk.text for chunk in responses.stream([("user", "three"), said, ("user", "four")]))
report["events"] = [events]

# An answer as a value of a class, by each method that LangChain has.
report["structured"] = {}
for method in ["json_schema", "function_calling", "json_mode"]:
    city = chat.with_structured_output(City, method=method).invoke([("user", "Which city?")])
    report["structured"][method] = city.model_dump()
structured = responses.with_structured_output(City, method="json_schema")
report["structured"]["responses"] = structured.invoke([("user", "Which city?")]).model_dump()
streamed = list(chat.with_structured_output(City, method="json_schema").stream([("user", "Which city?")]))
report["structured"]["stream"] = streamed[-1].model_dump()
never = chat.with_structured_output(City, method="json_schema", include_raw=True)
said = never.invoke([("user", "Which city?")])
report["never"] = [said["parsed"], said["raw"].additional_kwargs["refusal"]]

# Which tool is called first, and where a reply ends.
for choice in ["any", "look"]:
    said = chat.bind_tools([look], tool_choice=choice, parallel_tool_calls=False).invoke([("user", "Which city?")])
    report[f"choice_{choice}"] = [call["name"] for call in said.tool_calls]
report["stop"] = chat.invoke([("user", "Which city?")], stop=["END"]).text

print(json.dumps(report))
