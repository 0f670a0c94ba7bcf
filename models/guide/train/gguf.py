"""Writes GGUF version 3: metadata, then tensors at 32-byte boundaries, little-endian."""
import pathlib
import struct
from typing import Any

import numpy as np

ALIGNMENT = 32
_SCALARS = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?")}
_STRING, _ARRAY = 8, 9


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(kind: str, value: Any) -> tuple[int, bytes]:
    if kind == "string":
        return _STRING, _string(value)
    if kind.startswith("["):
        item = kind[1:-1]
        kinds = _STRING if item == "string" else _SCALARS[item][0]
        return _ARRAY, struct.pack("<IQ", kinds, len(value)) + b"".join(_value(item, one)[1] for one in value)
    number, form = _SCALARS[kind]
    return number, struct.pack(form, value)


def write(path: pathlib.Path, metadata: list[tuple[str, str, Any]], tensors: list[tuple[str, np.ndarray]]) -> None:
    """metadata: (key, kind, value), kind one of u32, i32, f32, bool, string or one of those in brackets.
    tensors: float32, rows outermost as in NumPy; GGUF names the row's length first."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    for key, kind, value in metadata:
        number, data = _value(kind, value)
        head += _string(key) + struct.pack("<I", number) + data
    offset = 0
    for name, tensor in tensors:
        shape = tensor.shape[::-1]
        head += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
        offset += -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
    with path.open("wb") as out:
        out.write(head)
        out.write(bytes(-len(head) % ALIGNMENT))
        for _, tensor in tensors:
            out.write(np.ascontiguousarray(tensor, dtype="<f4").tobytes())
            out.write(bytes(-tensor.nbytes % ALIGNMENT))
