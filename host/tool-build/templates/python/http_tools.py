"""The tools of this component. `.venv/bin/python -m unittest` tests them; `agent-tool build` makes the component.

Where the service is stands in the operator's policy (`config`), and so does the key that it wants: the host adds it to the
requests, and the tool never sees it."""

from typing import Annotated
from urllib.parse import quote

from agent_tool import Failure, config, http, tool


@tool("read-only", "idempotent", timeout_ms=5000)
def {{tool}}(part: Annotated[str, "The part's number, such as A-100"]) -> dict:
    """Looks up how many of a part are in stock and what it is called. Use it when the user asks about a part by its number."""
    endpoint = config.get("endpoint")
    if not endpoint:
        raise Failure("not-configured", 'the operator adds config = { endpoint = "https://HOST" } to the tools policy')
    if not part.strip():
        raise Failure.invalid_arguments("`part` is blank: give the part's number")
    found = http.get_json(f"{endpoint}/parts/{quote(part, safe='')}")
    return {"name": found["name"], "in_stock": found["in_stock"]}
