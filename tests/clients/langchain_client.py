"""LangChain's client of OpenAI, and what came of each call as one JSON object."""

import json

from langchain_openai import ChatOpenAI

chat = ChatOpenAI(model="agent", max_retries=0, stream_usage=True)
responses = ChatOpenAI(model="agent", max_retries=0, use_responses_api=True)
report = {}

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

print(json.dumps(report))
