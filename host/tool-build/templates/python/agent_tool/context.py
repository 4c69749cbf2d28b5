"""Facts about the call under way. In unit tests: `facts`."""

from . import host

_host = host.imported("context", "import agent:tool/context@0.1.1;")
facts = {"request_id": "native", "remaining_ms": 10_000, "cancelled": False, "run_id": "run_native", "call_id": "call_native",
         "attempt": 1, "user": None}


def __getattr__(name):
    """`request_id()`, `remaining_ms()`, `cancelled()`, `run_id()`, `call_id()`, `attempt()`, `user()`."""
    if name not in facts:
        raise AttributeError(name)
    return getattr(_host, name) if _host else lambda: facts[name]
