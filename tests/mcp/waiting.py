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
ASKING = ("order", {"thing": "hat"})


def say(step, value):
    print(json.dumps({step: value}), flush=True)


def brief(result):
    return {"isError": result.is_error, "text": result.content[0].text, "meta": result.meta}


async def call(mode, answer=None, wanted=CALL):
    """The result of a call, and what the client's user was asked. Of several answers each is for one question."""
    answers = answer if isinstance(answer, list) else [answer]
    questions = []

    async def ask(context, params):
        questions.append(params.message)
        return types.ElicitResult(**answers[min(len(questions), len(answers)) - 1])

    headers = {"authorization": f"Bearer {ASKED['token']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        server = streamable_http_client(ASKED["url"], http_client=http)
        callback = ask if answer else None
        async with Client(server, mode=mode, elicitation_callback=callback) as client:
            result = await client.call_tool(*wanted)
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
    accepted = [{"action": "accept", "content": {"answer": said}} for said in ["red", 3]]
    say("answered", await call("auto", accepted, ASKING))
    say("unanswered", await call("auto", {"action": "decline"}, ASKING))
    say("unasked", await call("legacy", None, ASKING))
    say("done", True)


asyncio.run(main())
