"""The agent of `agent.mjs` for the engines of Python: asks a model, calls the tool it wants, asks again."""

import json
import os
import re

import httpx

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "calculate",
            "description": "Calculates an arithmetic expression.",
            "parameters": {
                "type": "object",
                "properties": {"expression": {"type": "string"}},
                "required": ["expression"],
            },
        },
    }
]

_client: httpx.AsyncClient | None = None


async def ask_model(messages: list) -> dict:
    """One model call: the reply's message."""
    global _client
    if _client is None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        _client = httpx.AsyncClient(base_url=os.environ["LLM_BASE_URL"], timeout=300, limits=limits)
    body = {"model": "bench", "messages": messages, "tools": TOOLS, "temperature": 0}
    response = await _client.post("/v1/chat/completions", json=body)
    response.raise_for_status()
    return response.json()["choices"][0]["message"]


def calculate(call: dict) -> str:
    """One tool call."""
    expression = json.loads(call["function"]["arguments"])["expression"]
    if not re.fullmatch(r"[0-9+\-*/(). ]+", expression):
        raise ValueError("That is no expression")
    return str(eval(expression))
