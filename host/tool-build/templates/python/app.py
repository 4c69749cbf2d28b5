"""What componentize-py makes a component of; your tools are in tools.py."""

import tools  # noqa: F401
from agent_tool import Component as Tool  # noqa: F401
