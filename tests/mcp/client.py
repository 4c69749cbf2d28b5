"""The official Python SDK: does what tests/it/mcp asks for and prints a line of JSON for each step."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ToolListChangedNotification

ASKED = json.loads(sys.argv[1])


def say(step, value):
    print(json.dumps({step: value}), flush=True)


async def target(stack):
    if "command" in ASKED:
        return StdioServerParameters(command=ASKED["command"], args=ASKED["args"], env=ASKED["env"])
    headers = {"authorization": f"Bearer {ASKED['token']}"} if "token" in ASKED else {}
    http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
    return streamable_http_client(ASKED["url"], http_client=http)


async def steps(client, changed):
    say("version", client.protocol_version)
    tools = (await client.list_tools()).tools
    say("tools", [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
    for step, name, arguments in [
        ("answer", "calculate", {"expression": "6 * 7"}),
        ("failure", "fail", {"message": "no luck", "code": "unlucky"}),
        ("misfit", "calculate", {"expresion": "6 * 7"}),
    ]:
        result = await client.call_tool(name, arguments)
        say(step, {"isError": result.is_error, "text": result.content[0].text})
    try:
        await client.call_tool("nobody_knows", {})
    except MCPError as error:
        say("unknown", error.code)
    # The SDK tells the server of a call that is given up.
    try:
        async with asyncio.timeout(0.5):
            await client.call_tool("loop_until_cancelled", {})
    except TimeoutError:
        say("cancelled", True)
    if client.protocol_version >= "2026-07-28":
        async with client.listen(tools_list_changed=True) as subscription:
            say("listening", True)
            async for _ in subscription:
                break
    else:
        # Its stream is opened in the background.
        await asyncio.sleep(1)
        say("listening", True)
        await changed.wait()
    tools = (await client.list_tools(cache_mode="refresh")).tools
    say("changed", [tool.name for tool in tools])


async def main():
    changed = asyncio.Event()

    async def notice(message):
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    async with AsyncExitStack() as stack:
        server = await target(stack)
        try:
            client = Client(server, mode=ASKED.get("mode", "auto"), message_handler=notice)
            client = await stack.enter_async_context(client)
        except Exception as error:  # What an SDK makes of a refusal is not ours to say.
            say("refused", repr(error))
            return
        await steps(client, changed)
    say("done", True)


asyncio.run(main())
