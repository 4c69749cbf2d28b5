"""Values that outlive the call, under a grant of the policy. Values are bytes. In unit tests: `store`."""

from . import host
from .failure import Failure

_host = host.imported("key_value", "include agent:tool/keeping@0.1.1;")
store = {}


def _asked(operation, *arguments):
    from componentize_py_types import Err

    try:
        return operation(*arguments)
    except Err as error:
        raise Failure(error.value.code, error.value.message) from None


def get(key):
    return _asked(_host.get, key) if _host else store.get(key)


def set(key, value, ttl_ms=None):  # noqa: A001
    if _host:
        _asked(_host.set, key, value, ttl_ms)
    else:
        store[key] = value


def delete(key):
    return _asked(_host.delete, key) if _host else store.pop(key, None) is not None


def add(key, delta):
    """Adds to the number under a key and returns the sum."""
    if _host:
        return _asked(_host.add, key, delta)
    store[key] = str(int(store.get(key, b"0")) + delta).encode()
    return int(store[key])


def swap(key, expected, value):
    """Puts a value if what is there is `expected`. False, and nothing done, if it is something else."""
    if _host:
        return _asked(_host.swap, key, expected, value)
    if store.get(key) != expected:
        return False
    store[key] = value
    return True


def list_keys(prefix="", after=None, most=1000):
    """Keys that begin with `prefix` and come after `after`, in the order of their bytes: at most `most`, and at most 1,000."""
    if _host:
        return _asked(_host.list_keys, prefix, after, most)
    return sorted(key for key in store if key.startswith(prefix) and key > (after or ""))[: min(most, 1000)]
