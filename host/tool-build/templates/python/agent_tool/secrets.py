"""Which secrets the operator gave the component. The host adds their values to requests. In unit tests: `names`."""

from . import host

_host = host.imported("secrets", "import agent:tool/secrets@0.1.1;")
names = set()


def exists(name):
    return _host.exists(name) if _host else name in names
