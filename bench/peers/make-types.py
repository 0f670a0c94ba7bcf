"""Writes a llama-architecture GGUF file for each tensor type, so that the speeds of all of them can be compared.

usage: python3 make-types.py TEST_DATA OUT_FOLDER [TYPE...]     e.g. make-types.py build/test-data /tmp/types q4_k iq2_xxs
Six layers of the shape of a 1B model under a vocabulary of 32,000. Its weights are blocks of the tests' reference data
(quants/), shuffled: real ones for that type, though the model says nothing. The embeddings are Q4_0 in all files, so
that the types differ in the layers alone. Needs python3-numpy.
"""
import json
import struct
import sys
from pathlib import Path

import numpy as np

EMBD, LAYERS, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 2048, 6, 32, 8, 64, 8192, 32000
# Bytes of a metadata value, by its type (GGUF specification, "File Structure"); 8 is a string and 9 an array.
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
ALIGNMENT = 32


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


class Metadata:
    """Walks the key-value pairs of a GGUF file."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 8
        self.take("<Q")  # tensors
        self.count = self.take("<Q")

    def take(self, form: str) -> int:
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def skip(self, kind: int) -> None:
        if kind == 8:
            length = self.take("<Q")
            self.at += length
        elif kind == 9:
            kind, count = self.take("<I"), self.take("<Q")
            for _ in range(count):
                self.skip(kind)
        else:
            self.at += SIZES[kind]

    def pairs(self):
        """Yields (key, the pair's bytes)."""
        for _ in range(self.count):
            begin = self.at
            length = self.take("<Q")
            key = self.data[self.at : self.at + length].decode()
            self.at += length
            self.skip(self.take("<I"))
            yield key, self.data[begin : self.at]


def metadata(reference: Path, name: str) -> list[bytes]:
    vocabulary = (reference / "tokenizers/ggml-vocab-llama-spm.gguf").read_bytes()
    pairs = [pair for key, pair in Metadata(vocabulary).pairs() if key.startswith("tokenizer.")]
    strings = {"general.architecture": "llama", "general.name": name}
    numbers = {
        "context_length": 8192, "embedding_length": EMBD, "block_count": LAYERS, "feed_forward_length": FFN,
        "vocab_size": VOCAB, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM, "rope.dimension_count": HEAD_DIM,
    }
    pairs += [text(key) + struct.pack("<I", 8) + text(value) for key, value in strings.items()]
    pairs += [text("llama." + key) + struct.pack("<II", 4, value) for key, value in numbers.items()]
    pairs.append(text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5))
    return pairs


def tensors(kind: str) -> list[tuple[str, list[int], str]]:
    """(name, shape, type) of all tensors; the output is tied to the embeddings."""
    found = [("token_embd.weight", [EMBD, VOCAB], "q4_0"), ("output_norm.weight", [EMBD], "f32")]
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        found += [(block + name + ".weight", [EMBD], "f32") for name in ("attn_norm", "ffn_norm")]
        shapes = {
            "attn_q": [EMBD, HEADS * HEAD_DIM], "attn_k": [EMBD, KV_HEADS * HEAD_DIM],
            "attn_v": [EMBD, KV_HEADS * HEAD_DIM], "attn_output": [HEADS * HEAD_DIM, EMBD],
            "ffn_gate": [EMBD, FFN], "ffn_up": [EMBD, FFN], "ffn_down": [FFN, EMBD],
        }
        found += [(block + name + ".weight", shape, kind) for name, shape in shapes.items()]
    return found


def write(reference: Path, folder: Path, kind: str, types: dict) -> None:
    random = np.random.default_rng(1)
    listed = tensors(kind)
    header, offset, sizes = b"", 0, []
    for name, shape, of in listed:
        size = int(np.prod(shape)) // types[of]["block_size"] * types[of]["bytes_per_block"]
        header += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        header += struct.pack("<IQ", types[of]["ggml_type"], offset)
        sizes.append(size)
        offset += size + -size % ALIGNMENT
    pairs = metadata(reference, kind)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(pairs)) + b"".join(pairs) + header
    with open(folder / f"type-{kind}.gguf", "wb") as out:
        out.write(head + bytes(-len(head) % ALIGNMENT))
        for (_, shape, of), size in zip(listed, sizes):
            if len(shape) == 1:
                data = np.ones(shape[0], np.float32).tobytes()
            else:
                blocks = np.fromfile(reference / f"quants/{of}.bin", np.uint8).reshape(-1, types[of]["bytes_per_block"])
                data = blocks[random.integers(len(blocks), size=size // types[of]["bytes_per_block"])].tobytes()
            out.write(data + bytes(-len(data) % ALIGNMENT))


def main() -> None:
    reference, folder = Path(sys.argv[1]), Path(sys.argv[2])
    listed = json.loads((reference / "quants/index.json").read_text())["types"]
    types = {one["name"]: one for one in listed}
    folder.mkdir(parents=True, exist_ok=True)
    for kind in sys.argv[3:] or [name for name in types if name != "f32"]:
        write(reference, folder, kind, types)
        print(folder / f"type-{kind}.gguf")


if __name__ == "__main__":
    main()
