"""The decorator `tool`: a function's signature and docstring become what the host and the model are told."""

import inspect
import json
import re
import types
import typing

from . import host
from .failure import Failure

# What each hint is to the host: `never-asks` is of a tool whose component can ask somebody.
HINTS = {hint: (hint, "true") for hint in ("read-only", "idempotent", "destructive", "pure")} | {"never-asks": ("asks", "false")}

# Under which names tools are called.
Tools = {}


def tool(*hints, timeout_ms=None, output=None):
    """Makes a function a tool. `hints` are promises that the host acts on (read-only, idempotent, destructive, pure, never-asks);
    `output` is the JSON Schema of what it returns, if that is to be checked."""
    unknown = [hint for hint in hints if hint not in HINTS]
    if unknown:
        raise TypeError(f"there is no hint {unknown[0]!r}: it is one of {', '.join(HINTS)}")

    def register(function):
        name = function.__name__
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name):
            raise TypeError(f"`{name}` cannot be a tool's name: a lower-case letter, then up to 62 of a-z, 0-9 and _")
        if not inspect.getdoc(function):
            raise TypeError(f"the tool `{name}` has no description: write a docstring that says what it does and when to use it")
        pairs = [HINTS[hint] for hint in hints]
        if timeout_ms is not None:
            pairs.append(("timeout-ms", str(int(timeout_ms))))
        Tools[name] = Tool(function, pairs, output)
        return function

    return register


class Tool:
    def __init__(self, function, hints, output):
        self.function = function
        self.hints = hints
        self.output = output
        self.input = input_schema(function)
        self.description = "\n\n".join(" ".join(part.split()) for part in inspect.getdoc(function).split("\n\n"))

    def call(self, arguments):
        try:
            given = json.loads(arguments)
        except ValueError as error:
            raise Failure.invalid_arguments(f"the arguments are no JSON: {error}") from None
        if not isinstance(given, dict):
            raise Failure.invalid_arguments("the arguments are no JSON object")
        unknown = [key for key in given if key not in self.input["properties"]]
        missing = [key for key in self.input["required"] if key not in given]
        if unknown or missing:
            word, names = ("does not take", unknown) if unknown else ("also needs", missing)
            raise Failure.invalid_arguments(f"the tool {word} {', '.join(names)}")
        given = {key: as_whole(value, self.input["properties"][key]) for key, value in given.items()}
        # With NaN in it a host would say only that the answer is no JSON; so the log says where it comes from.
        return host.text(json.dumps(self.function(**given), ensure_ascii=False, allow_nan=False))


def as_whole(value, schema):
    """2.0 is an integer to JSON Schema, and none to Python."""
    parts = schema.get("anyOf", [schema])
    if isinstance(value, list):
        items = next((part["items"] for part in parts if isinstance(part.get("items"), dict)), {})
        return [as_whole(item, items) for item in value]
    kinds = [part.get("type") for part in parts]
    is_whole = isinstance(value, float) and value.is_integer() and "integer" in kinds and "number" not in kinds
    return int(value) if is_whole else value


def input_schema(function):
    hints = typing.get_type_hints(function, include_extras=True)
    properties, required = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) or name not in hints:
            raise TypeError(f"`{function.__name__}`: the parameter `{name}` needs a type, such as `{name}: str`")
        properties[name] = schema_of(hints[name], f"{function.__name__}: {name}")
        if parameter.default is parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            properties[name]["default"] = parameter.default
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def answer_schema(kind):
    return schema_of(kind, "the answer")


PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(kind, where):
    """JSON Schema of a type: str, int, float, bool, list[…], dict, Literal[…], X | None, and Annotated[…, "description"]."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        schema = schema_of(arguments[0], where)
        for note in arguments[1:]:
            schema.update({"description": note} if isinstance(note, str) else note)
        return schema
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if kind is list or origin is list:
        return {"type": "array", "items": schema_of(arguments[0], where) if arguments else {}}
    if kind is dict or origin is dict:
        return {"type": "object"}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(part, where) for part in arguments]}
    raise TypeError(f"{where}: no JSON Schema can be made of {kind}: take str, int, float, bool, list, dict, Literal or X | None")
