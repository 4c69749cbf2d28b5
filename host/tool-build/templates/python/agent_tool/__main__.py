"""`python -m agent_tool`: loads tools.py as a host would and says what a host would refuse."""

import sys
import traceback

from . import Tools

sys.path.insert(0, ".")
try:
    import tools  # noqa: F401
except TypeError as error:
    print(f"tools.py: {error}")
    sys.exit(1)
except Exception:
    traceback.print_exc(limit=-3)
    sys.exit(1)
if not Tools:
    print("tools.py has no tool: put `@tool()` above a function")
    sys.exit(1)
