"""A server of the official Python SDK, for tests/it/mcp: over its standard input and output, or over HTTP on a free port of this
machine, which it prints as a line of JSON."""

import json
import os
import socket
import sys

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("tests")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def addNumbers(a: int, b: int) -> int:
    """Adds two whole numbers."""
    return a + b


@server.tool()
def fail(reason: str) -> str:
    """Fails for that reason."""
    raise ToolError(reason)


@server.tool()
def environment() -> list[str]:
    """Names the environment variables."""
    return sorted(os.environ)


@server.tool()
def forbidden() -> str:
    """Is in nobody's list of what is allowed."""
    return "called"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])
