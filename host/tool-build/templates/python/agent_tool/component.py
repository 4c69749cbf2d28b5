"""What the host calls: `describe` once, when it loads the component, and `call` for each call, in a fresh instance."""

import json
import traceback

from . import host, log
from .failure import Failure
from .tools import Tools

wit = host.exported("tool")


class Component:
    def describe(self):
        return [
            wit.ToolDef(
                name=name,
                description=tool.description,
                input_schema=json.dumps(tool.input),
                output_schema=None if tool.output is None else json.dumps(tool.output),
                hints=tool.hints,
            )
            for name, tool in Tools.items()
        ]

    def call(self, name, arguments):
        try:
            if name not in Tools:
                raise Failure.not_found(f"there is no tool `{name}` here, only: {', '.join(Tools)}")
            return wit.Output(value=Tools[name].call(arguments), meta=[])
        except Failure as failure:
            meta = [(key, host.text(value)) for key, value in failure.meta]
            raise host.error(wit.Failure(code=host.text(failure.code), message=host.text(failure.message), meta=meta)) from None
        except Exception as error:  # the operator reads why, the model that it happened
            log.error("".join(traceback.format_exception(error)))
            message = f"the tool has a defect: {type(error).__name__}; its log says more"
            raise host.error(wit.Failure(code="internal", message=message, meta=[])) from None
