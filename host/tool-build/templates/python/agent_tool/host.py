"""The host's side of the contract: bindings when this runs as a component, stand-ins when it does not."""

import importlib
import types


def imported(name, line):
    """The bindings of an import; None without a host. `line` is what wit/world.wit needs."""
    try:
        importlib.import_module("wit_world")
    except ImportError:
        return None
    try:
        return importlib.import_module(f"wit_world.imports.{name}")
    except ImportError:
        raise ImportError(f"the component does not import that: add to the world in wit/world.wit: {line}") from None


def exported(name):
    """The types of an export; stand-ins without a host."""
    try:
        return importlib.import_module(f"wit_world.exports.{name}")
    except ImportError:
        return types.SimpleNamespace(ToolDef=types.SimpleNamespace, Output=types.SimpleNamespace, Failure=types.SimpleNamespace)


def text(value):
    """What the host can be told: halves of surrogate pairs, which JSON of a server may have, would crash the bindings."""
    return str(value).encode("utf-8", "replace").decode()


def error(value):
    """A failure as the bindings want it raised."""
    try:
        from componentize_py_types import Err
    except ImportError:
        return NativeError(value)
    return Err(value)


class NativeError(Exception):
    def __init__(self, value):
        super().__init__(value.message)
        self.value = value
