"""Lines for the operator's log. In unit tests they are in `lines`."""

from . import host

_host = host.imported("log", "import agent:tool/log@0.1.1;")
lines = []


def write(level, message, **fields):
    pairs = [(key, host.text(value)) for key, value in fields.items()]
    if _host:
        _host.write(level, host.text(message), pairs)
    else:
        lines.append((level, host.text(message), pairs))


def debug(message, **fields):
    write("debug", message, **fields)


def info(message, **fields):
    write("info", message, **fields)


def warn(message, **fields):
    write("warn", message, **fields)


def error(message, **fields):
    write("error", message, **fields)
