"""Write a tool for agent-host as a plain function: its arguments' types become the JSON Schema, its docstring the description.

    from typing import Annotated
    from agent_tool import Failure, tool

    @tool("read-only", "idempotent")
    def greet(name: Annotated[str, "Whom to greet"]) -> dict:
        \"\"\"Greets someone by name. Use it when the user asks to be greeted.\"\"\"
        if not name.strip():
            raise Failure.invalid_arguments("`name` is blank: say whom to greet")
        return {"text": f"Hello, {name}!"}

What the host offers is in modules beside this one: `log`, `clock`, `config`, `secrets`, `context`, `progress`, `key_value`,
`ask` and `http`. A component imports what wit/world.wit says, so add the line there that the module names. Without a
host, in unit tests, each module has a double.
"""

from .component import Component
from .failure import Failure
from .tools import Tools, tool

__all__ = ["Component", "Failure", "Tools", "tool"]
