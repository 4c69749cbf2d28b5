"""What the operator configured for the component (`config = { … }` in the policy). In unit tests: `values`."""

from . import host

_host = host.imported("config", "import agent:tool/config@0.1.1;")
values = {}


def get(key):
    return _host.get(key) if _host else values.get(key)
