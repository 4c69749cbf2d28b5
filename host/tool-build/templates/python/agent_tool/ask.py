"""A person's answer in the middle of a call, under a grant of the policy (`ask = true`).

The call ends at `ask`, and is made again from its beginning when somebody has answered: `ask` returns the answer then. So act
behind the last question. In unit tests: `answers` are given in their order, and `asked` has the questions.
"""

import json

from . import host
from .failure import Failure
from .tools import answer_schema

_host = host.imported("ask", "include agent:tool/asking@0.1.2;")
answers = []
asked = []


def ask(question, type=str):  # noqa: A002
    """What the user answers, as a value of this type (`str`, `int`, `bool`, `list[str]`, …). Nobody's answer is a `Failure`
    with the code `rejected`."""
    return json.loads(ask_json(question, answer_schema(type)))


def ask_json(question, schema=None):
    """The JSON text of the answer, which the JSON Schema `schema` allows if there is one."""
    question = host.text(question)
    if not _host:
        asked.append(question)
        if not answers:
            raise Failure("rejected", "nobody answered")
        return json.dumps(answers.pop(0))
    from componentize_py_types import Err

    try:
        return _host.ask(question, None if schema is None else json.dumps(schema))
    except Err as error:
        raise Failure(error.value.code, error.value.message) from None
