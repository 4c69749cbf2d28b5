"""How far a call has got. False when nobody waits any more. In unit tests: `reports`."""

from . import host

_host = host.imported("progress", "import agent:tool/progress@0.1.1;")
reports = []


def report(message, fraction=None):
    message = host.text(message)
    if _host:
        return _host.report(message, fraction)
    reports.append((message, fraction))
    return True
