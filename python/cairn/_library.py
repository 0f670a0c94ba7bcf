"""libcairn through ctypes, which releases the GIL during every call. The names and types are those of include/cairn.h,
which says what each function does; a test compares the numbers here with the ones there."""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Optional

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

# cairn_code, in its order from 0.
CODES = ("ok", "invalid_argument", "not_found", "unsupported", "corrupt_file", "too_large", "out_of_memory",
         "context_length_exceeded", "queue_full", "cancelled", "unavailable", "io", "internal")
# cairn_log_level, in its order from 0.
LOG_LEVELS = ("debug", "info", "warning", "error", "off")
# cairn_event_type, in its order from 1.
EVENT_TYPES = ("text", "reasoning", "call_begin", "call_arguments", "call_end", "finish", "end")
NEXT_FAILED = -1
NEXT_TIMEOUT = 0
ADD_SPECIAL = 1
PARSE_SPECIAL = 2


class CEvent(ctypes.Structure):
    """cairn_event."""

    _fields_ = [("type", c_int), ("choice", c_int32), ("call", c_int32), ("text", c_void_p), ("text_size", c_size_t),
                ("id", c_char_p), ("tokens", POINTER(c_int32)), ("token_count", c_size_t)]


LogFunction = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)

# What a function returns and takes; where an error comes last, it is left out here. Texts that the caller frees are
# c_void_p, because ctypes would turn a c_char_p into bytes and lose the pointer.
_SIZE = POINTER(c_size_t)
_FAILING: dict[str, tuple[Any, list[Any]]] = {
    "cairn_model_open": (c_void_p, [c_char_p, c_char_p]),
    "cairn_plan": (c_void_p, [c_char_p, c_char_p, _SIZE]),
    "cairn_model_info": (c_void_p, [c_void_p, _SIZE]),
    "cairn_model_stats": (c_void_p, [c_void_p, _SIZE]),
    "cairn_tokenize": (c_void_p, [c_void_p, c_char_p, c_size_t, c_int, _SIZE]),
    "cairn_detokenize": (c_void_p, [c_void_p, POINTER(c_int32), c_size_t, _SIZE]),
    "cairn_apply_template": (c_void_p, [c_void_p, c_char_p, _SIZE]),
    "cairn_chat": (c_void_p, [c_void_p, c_char_p]),
    "cairn_complete": (c_void_p, [c_void_p, c_char_p]),
    "cairn_stream_next": (c_int, [c_void_p, c_int32, POINTER(CEvent)]),
    "cairn_stream_response": (c_void_p, [c_void_p, _SIZE]),
    "cairn_stream_warnings": (c_void_p, [c_void_p, _SIZE]),
    "cairn_embed": (c_void_p, [c_void_p, c_char_p, _SIZE, _SIZE]),
    "cairn_rerank": (c_void_p, [c_void_p, c_char_p, _SIZE]),
    "cairn_logits": (c_void_p, [c_void_p, POINTER(c_int32), c_size_t, c_int, _SIZE, _SIZE]),
}
_PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "cairn_error_code": (c_int, [c_void_p]),
    "cairn_error_message": (c_char_p, [c_void_p]),
    "cairn_error_param": (c_char_p, [c_void_p]),
    "cairn_error_json": (c_char_p, [c_void_p]),
    "cairn_error_free": (None, [c_void_p]),
    "cairn_free": (None, [c_void_p]),
    "cairn_version": (c_char_p, []),
    "cairn_set_log": (None, [c_int, LogFunction, c_void_p]),
    "cairn_model_close": (None, [c_void_p]),
    "cairn_stream_cancel": (None, [c_void_p]),
    "cairn_stream_close": (None, [c_void_p]),
}


class CairnError(RuntimeError):
    """What Cairn refused or could not do. `code` is one of CODES, such as "invalid_argument"; `param` the field that is
    wrong, such as "messages[2].content", or None; `body` the JSON with which the server answers such an error."""

    def __init__(self, message: str, code: str = "internal", param: Optional[str] = None, body: str = ""):
        super().__init__(message)
        self.code = code
        self.param = param
        self.body = body


def _load() -> ctypes.CDLL:
    name = "libcairn.so.0"
    beside = pathlib.Path(__file__).with_name(name)
    path = os.environ.get("CAIRN_LIBRARY") or (str(beside) if beside.exists() else name)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cairn: {error}; install the wheel of cairn, or set CAIRN_LIBRARY to the path of {name}") from None
    for function, (result, arguments) in _PLAIN.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    for function, (result, arguments) in _FAILING.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = [*arguments, POINTER(c_void_p)]
    return library


LIBRARY = _load()


def call(function: str, *arguments: Any) -> Any:
    """Calls a function that takes an error last, and raises that error."""
    error = c_void_p()
    result = getattr(LIBRARY, function)(*arguments, ctypes.byref(error))
    if not error.value:
        return result
    try:
        param = LIBRARY.cairn_error_param(error)
        raise CairnError(LIBRARY.cairn_error_message(error).decode(), CODES[LIBRARY.cairn_error_code(error)],
                         param.decode() if param is not None else None, LIBRARY.cairn_error_json(error).decode())
    finally:
        LIBRARY.cairn_error_free(error)


def call_for_text(function: str, *arguments: Any) -> str:
    """The same for a function that returns a text and its size."""
    size = c_size_t()
    memory = call(function, *arguments, ctypes.byref(size))
    try:
        return ctypes.string_at(memory, size.value).decode()
    finally:
        LIBRARY.cairn_free(memory)


def call_for_matrix(function: str, *arguments: Any) -> "NDArray[numpy.float32]":
    """The same for a function that returns rows of floats: a NumPy array of float32 [rows, columns]."""
    try:
        import numpy
    except ImportError:
        raise ImportError("cairn: vectors and logits are NumPy arrays: pip install numpy") from None
    rows, columns = c_size_t(), c_size_t()
    memory = call(function, *arguments, ctypes.byref(rows), ctypes.byref(columns))
    try:
        values = (c_float * (rows.value * columns.value)).from_address(memory)
        return numpy.array(values, dtype=numpy.float32).reshape(rows.value, columns.value)
    finally:
        LIBRARY.cairn_free(memory)


def version() -> str:
    """The version of the library, such as "0.1.0"."""
    return str(LIBRARY.cairn_version().decode())


_log_lock = threading.Lock()
_log_function: Any = None  # what the library calls; it must live for as long as the library may call it


def set_log(function: Optional[Callable[[str, str], None]], level: str = "info") -> None:
    """Sends the log's lines of at least `level` ("debug", "info", "warning", "error") to function(level, line), from
    any thread. It must not call Cairn. None: no log, which is the default."""
    global _log_function
    if level not in LOG_LEVELS:
        raise ValueError(f"level is one of {', '.join(LOG_LEVELS)}, not {level!r}")
    with _log_lock:
        wanted = LogFunction()
        if function is not None:
            wanted = LogFunction(lambda at, line, _: function(LOG_LEVELS[at], line.decode(errors="replace")))
        LIBRARY.cairn_set_log(LOG_LEVELS.index(level), wanted, None)
        _log_function = wanted


class Handle:
    """A pointer of the library that several threads use and one closes: it is freed when nobody uses it any more."""

    def __init__(self, pointer: int, free: Callable[[int], None], what: str):
        self._pointer = pointer
        self._free = free
        self._what = what
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False

    def __enter__(self) -> int:
        with self._lock:
            if self._closed:
                raise CairnError(f"the {self._what} is closed", "unavailable")
            self._users += 1
        return self._pointer

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            last = self._closed and self._users == 0
        if last:
            self._free(self._pointer)

    def close(self) -> None:
        with self._lock:
            last = not self._closed and self._users == 0
            self._closed = True
        if last:
            self._free(self._pointer)
