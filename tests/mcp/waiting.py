"""The official Python SDK: calls that wait for somebody, and a line of JSON for each of them."""

import asyncio
import json
import sys

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

ASKED = json.loads(sys.argv[1])
CALL = ("calculate", {"expression": "6 * 7"})


def say(step, value):
    print(json.dumps({step: value}), flush=True)


def brief(result):
    return {"isError": result.is_error, "text": result.content[0].text, "meta": result.meta}


async def call(mode, answer=None):
    """The result of a call, and what the client's user was asked."""
    questions = []

    async def ask(context, params):
        questions.append(params.message)
        return types.ElicitResult(**answer)

    headers = {"authorization": f"Bearer {ASKED['token']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        server = streamable_http_client(ASKED["url"], http_client=http)
        callback = ask if answer else None
        async with Client(server, mode=mode, elicitation_callback=callback) as client:
            result = await client.call_tool(*CALL)
            return {"version": client.protocol_version, **brief(result), "asked": questions}


async def main():
    for step, mode, answer in [
        ("approved", "auto", {"action": "accept", "content": {"decision": "approve"}}),
        ("rejected", "auto", {"action": "decline"}),
        ("open", "auto", {"action": "cancel"}),
        ("silent", "auto", None),
        ("legacy", "legacy", None),
    ]:
        say(step, await call(mode, answer))
    say("done", True)


asyncio.run(main())
