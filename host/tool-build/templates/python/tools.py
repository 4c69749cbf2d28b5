"""The tools of this component. `.venv/bin/python -m unittest` tests them; `agent-tool build` makes the component."""

from typing import Annotated

from agent_tool import Failure, log, tool


@tool("read-only", "idempotent", timeout_ms=1000)
def {{tool}}(name: Annotated[str, "Whom to greet, by their first name"]) -> dict:
    """Writes a greeting to someone. Use it when the user asks to greet a person by name."""
    if not name.strip():
        raise Failure.invalid_arguments("`name` is blank: give the first name of the one to greet")
    log.debug("greeting", length=len(name))
    return {"text": f"Hello, {name}!"}
