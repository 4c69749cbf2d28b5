"""Requests to what the operator's policy grants. Credentials are no business of a tool: the host adds them. In unit tests
`double` is what answers: a function from a `Request` to a `Response`."""

import json as _json
from dataclasses import dataclass, field

from . import host
from .failure import Failure

LINE = "import wasi:http/outgoing-handler@0.2.0;"
CHUNK = 4096
MOST_BYTES = 1 << 20
NOT_VALID = "the request is not valid: its URL, its method or a header cannot be sent"

_handler = host.imported("outgoing_handler", LINE)
double = None


@dataclass
class Request:
    method: str
    url: str
    headers: dict = field(default_factory=dict)
    body: bytes = b""


@dataclass
class Response:
    status: int
    headers: dict = field(default_factory=dict)  # names in lower case
    body: bytes = b""

    def check(self):
        """Raises the failure that a status means; returns the response when it is 2xx."""
        if 200 <= self.status < 300:
            return self
        message = f"the server answered HTTP {self.status}"
        if self.status in (401, 403):
            raise Failure.denied(message + ": the operator's policy has to give this tool a secret that it accepts")
        if self.status in (404, 410):
            raise Failure.not_found(message)
        if self.status in (408, 425, 429) or self.status >= 500:
            seconds = self.headers.get("retry-after", "").strip()
            is_number = seconds.isdecimal() and len(seconds) < 10  # int() takes neither "²", a digit too, nor any length
            raise Failure.unavailable(message, int(seconds) * 1000 if is_number else None)
        raise Failure("http-status", message)

    def json(self):
        try:
            return _json.loads(self.body)
        except ValueError as error:
            raise Failure.unavailable(f"the server's answer is no JSON: {error}") from None


def get_json(url, headers=None):
    return send(Request("GET", url, {"accept": "application/json", **(headers or {})})).check().json()


def post_json(url, value, headers=None):
    headers = {"accept": "application/json", "content-type": "application/json", **(headers or {})}
    return send(Request("POST", url, headers, _json.dumps(value).encode())).check().json()


def send(request):
    if _handler:
        return _send(request)
    if double is None:
        raise Failure.denied("without a host, a test sets `agent_tool.http.double`")
    return double(request)


def _send(request):
    scheme, separator, rest = request.url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in ("https", "http"):
        raise Failure.invalid_arguments("the URL has to begin with https://")
    end = min([rest.find(mark) for mark in "/?#" if mark in rest] + [len(rest)])
    authority, path = rest[:end], rest[end:].split("#")[0]
    fields = [(name.lower(), str(value).encode()) for name, value in request.headers.items()]
    method = getattr(_t, f"Method_{request.method.capitalize()}", None)
    try:
        outgoing = _t.OutgoingRequest(_t.Fields.from_list(fields))
        outgoing.set_method(method() if method else _t.Method_Other(request.method))
        outgoing.set_scheme(_t.Scheme_Https() if scheme == "https" else _t.Scheme_Http())
        outgoing.set_authority(authority)
        outgoing.set_path_with_query(path if path.startswith("/") else "/" + path)
    except Err:
        raise Failure.invalid_arguments(NOT_VALID) from None
    body = outgoing.body()
    try:
        future = _handler.handle(outgoing, None)
    except Err as error:
        raise _failure(error.value) from None
    unsent = _write(body, request.body)
    with future.subscribe() as ready:
        ready.block()
    answer = future.get()
    if not isinstance(answer, Ok):
        raise unsent or Failure.unavailable("the response was taken before")
    if isinstance(answer.value, Err):
        raise _failure(answer.value.value)
    # A server may answer before it has read everything.
    response = answer.value.value
    headers = {name.lower(): value.decode("latin-1") for name, value in response.headers().entries()}
    return Response(response.status(), headers, _read(response.consume()))


def _write(body, data):
    """Sends the body. What goes wrong is returned: the host drops the body of a request that it refuses, and why it did
    stands in its answer."""
    try:
        if data:
            with body.write() as stream:
                for start in range(0, len(data), CHUNK):
                    stream.blocking_write_and_flush(data[start : start + CHUNK])
    except Err:
        body.__exit__(None, None, None)  # a server that waits for the rest is told that there is none
        return Failure.unavailable("the request could not be sent")
    try:
        _t.OutgoingBody.finish(body, None)
    except Err as error:
        return _failure(error.value)
    return None


def _read(incoming):
    body = b""
    with incoming.stream() as stream:
        while True:
            try:
                body += stream.blocking_read(CHUNK)
            except Err as error:
                if isinstance(error.value, StreamError_Closed):
                    return body
                raise Failure.unavailable("the answer broke off") from None
            if len(body) > MOST_BYTES:
                raise Failure("too-large", f"the server's answer has more than {MOST_BYTES} bytes: ask for less")


def _failure(error):
    if isinstance(error, _t.ErrorCode_InternalError) and error.value:
        return Failure.denied(error.value)  # the host says there why it refused
    if isinstance(error, _t.ErrorCode_HttpRequestDenied):
        return Failure.denied("the policy does not grant this request")
    if isinstance(error, _t.ErrorCode_HttpResponseContentCoding):
        # Asked again, the server would answer in the same coding.
        return Failure.denied(
            "the server answered with an encoded body (gzip or the like), which the host does not hand on: ask for one that "
            "is not encoded"
        )
    if isinstance(error, (_t.ErrorCode_HttpRequestUriInvalid, _t.ErrorCode_HttpRequestMethodInvalid)):
        return Failure.invalid_arguments(NOT_VALID)
    return Failure.unavailable(f"the request failed: {type(error).__name__.removeprefix('ErrorCode_')}")


if _handler:
    from componentize_py_types import Err, Ok
    from wit_world.imports.streams import StreamError_Closed

    # Named `types`, or longer if another interface of that name is imported.
    _t = next(module for module in vars(_handler).values() if hasattr(module, "OutgoingRequest"))
