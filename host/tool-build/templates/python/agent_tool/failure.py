"""Failures of a tool: a word for programs and a sentence for the model, which reads it and tries again."""


class Failure(Exception):
    """Raise it. `code` is a word of the contract (`invalid-arguments`, `not-found`, `denied`, `unavailable`) or your own;
    the message says what is wrong and what would do instead."""

    def __init__(self, code, message, **meta):
        super().__init__(message)
        self.code = code
        self.message = message
        self.meta = [(key.replace("_", "-"), str(value)) for key, value in meta.items() if value is not None]

    @classmethod
    def invalid_arguments(cls, message):
        return cls("invalid-arguments", message)

    @classmethod
    def not_found(cls, message):
        return cls("not-found", message)

    @classmethod
    def denied(cls, message):
        return cls("denied", message)

    @classmethod
    def unavailable(cls, message, retry_after_ms=None):
        """The same call may work later; `retry_after_ms` says when."""
        # The host reads whole numbers, and 0.5 * 1000 is 500.0.
        return cls("unavailable", message, retry_after_ms=None if retry_after_ms is None else int(retry_after_ms))
