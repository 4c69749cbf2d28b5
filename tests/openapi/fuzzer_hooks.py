"""What the document cannot say, told to schemathesis: each is something that no schema has words for."""

import re
import uuid

import schemathesis

KEY = re.compile(r"[!#-\[\]-~]{1,255}")


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    for name in schemas.keys() & {"AgentRequest", "InvokeRequest", "JobRequest"}:
        options = schemas[name]["properties"]["options"]["properties"]
        # Which tools a service has is its own affair: this one has the calculator.
        options["tools"]["items"]["enum"] = ["calculate"]
        # Models want a conversation to begin with the user.
        options["history"]["items"]["properties"]["role"]["enum"] = ["user"]
    # A service without a secret for webhooks refuses the field, and one with a secret would send to strangers.
    schemas.get("JobRequest", {"properties": {}})["properties"].pop("webhookUrl", None)
    # These have to fit each other.
    if "TrialRequest" in schemas:
        thresholds = schemas["TrialRequest"]["properties"]["thresholds"]["properties"]
        for name in ["minCalls", "passAfter", "promote", "maxP99Ratio"]:
            thresholds[name] = {"enum": [thresholds[name]["default"]]}
    converse(schemas)
    for path in raw_schema["paths"].values():
        for operation in path.values():
            known_values(operation)
            answers(operation["responses"])


def converse(schemas):
    """A call has its answer right behind it, and a conversation of instructions alone asks nothing: the user's messages are left."""
    if "OpenAiChatRequest" in schemas:
        # Which object is a JSON Schema, and which tools there are, no schema says.
        for name in ["OpenAiChatRequest", "OpenAiResponseRequest"]:
            for parameter in ["response_format", "text", "tool_choice"]:
                schemas[name]["properties"].pop(parameter, None)
        # A chat asks something.
        message = schemas["UiChatRequest"]["properties"]["messages"]["items"]["properties"]
        message["role"]["enum"] = ["user"]
        messages = schemas["OpenAiChatRequest"]["properties"]["messages"]["items"]
        messages["anyOf"] = messages["anyOf"][:1]
        messages["anyOf"][0]["properties"]["role"]["enum"] = ["user"]
        # Of the items the user's messages, which are the first of their forms.
        item = schemas["OpenAiInputItem"]
        item["anyOf"] = item["anyOf"][:1]
        # Only one of the two can be there, and this one would have to be the id of a response.
        schemas["OpenAiResponseRequest"]["properties"].pop("previous_response_id")
        compact = schemas["OpenAiCompactRequest"]
        compact["properties"].pop("previous_response_id")
        compact["required"] = ["model", "input"]


def known_values(operation):
    known = {
        # The newest version demands more of a message than its schema says.
        "MCP-Protocol-Version": ["2025-03-26", "2025-06-18", "2025-11-25"],
        # Base64 of at most 1,024 bytes is more than a length says.
        "Agent-Tool-Signature": ["c2lnbmF0dXJl"],
        # The fuzzer forgets the pattern of this one.
        "If-Match": ['"1"', '"7"', "*"],
    }
    # The cursor of these lists is a run that there is, or a place in the one of two lists that it was given for.
    if operation.get("operationId") in {"listRuns", "listWaits"}:
        operation["parameters"] = [each for each in operation["parameters"] if each.get("name") != "cursor"]
    # An item that a page ends with.
    if operation.get("operationId") in {"listOpenAiInputItems", "listOpenAiConversationItems"}:
        operation["parameters"] = [each for each in operation["parameters"] if each.get("name") != "after"]
    for parameter in operation.get("parameters", []):
        # A cursor is what a page has given, and its example is such a one.
        if parameter["name"] == "cursor":
            parameter["schema"]["enum"] = parameter["schema"]["examples"]
        if parameter["name"] in known:
            parameter["schema"]["enum"] = known[parameter["name"]]
        # Where it has to name a revision, any is none.
        if parameter["name"] == "If-Match" and parameter.get("required"):
            parameter["schema"]["enum"] = ['"1"', '"7"']


def answers(responses):
    for response in responses.values():
        # The document has the schema of the whole stream, and the fuzzer takes it for that of one event.
        response.get("content", {}).get("text/event-stream", {}).pop("schema", None)
    # Without a body when the token is not valid, and with one otherwise.
    responses.get("403", {}).pop("content", None)


@schemathesis.hook
def before_call(context, case, kwargs):
    """A key is for one request, and the fuzzer has one for all."""
    headers = case.headers or {}
    for name in [name for name in headers if name.lower() == "idempotency-key"]:
        if isinstance(headers[name], str) and KEY.fullmatch(headers[name]):
            headers[name] = str(uuid.uuid4())
