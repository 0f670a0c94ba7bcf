#!/usr/bin/env python3
"""Tests of data.py: what is packed comes back, damage is told, and only what has changed is unpacked again."""
import contextlib
import io
import json
import lzma
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import data


def gguf(arrays: dict, tensors: list) -> bytes:
    """A GGUF file: `arrays` maps keys to lists of texts or float32 arrays, `tensors` are (name, shape, type, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(arrays) + 1)
    head += data.string(b"general.architecture") + struct.pack("<I", 8) + data.string(b"llama")
    for key, values in arrays.items():
        texts = isinstance(values, list)
        head += data.string(key.encode()) + struct.pack("<IIQ", 9, 8 if texts else 6, len(values))
        head += b"".join(map(data.string, values)) if texts else values.astype("<f4").tobytes()
    body = b""
    for name, shape, kind, content in tensors:
        head += data.string(name.encode()) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(body))
        body += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + body


class Transforms(unittest.TestCase):
    def comes_back(self, content: bytes, packed):
        part, stored = packed
        source = data.Input(stored)
        self.assertEqual(data.restore(source, [part]), content)
        self.assertEqual(source.at, len(stored))
        return part, len(stored)

    def test_weights_drawn_by_the_rule_take_no_bytes(self):
        for kind in data.ELEMENT:
            content = data.drawn("1:blk.0.attn_q.weight", 0, 1.5 / 8, 4096, kind).tobytes()
            part, size = self.comes_back(content, data.pack_random(content, "1:blk.0.attn_q.weight", 64, kind))
            self.assertEqual((part[0], size), ("random", 0))

    def test_the_rule_draws_what_it_always_drew(self):
        values = data.drawn("1:output_norm.weight", 1, 0.15, 4, "f32")
        self.assertEqual(values.tolist(), EXPECTED_NORM)

    def test_other_weights_are_not_taken_for_drawn_ones(self):
        content = data.drawn("1:blk.0.attn_q.weight", 0, 0.2, 4096, "f32").copy()
        self.assertIsNone(data.pack_random(content.tobytes(), "1:blk.0.attn_k.weight", 64, "f32"))
        content[7] += 1
        self.assertIsNone(data.pack_random(content.tobytes(), "1:blk.0.attn_q.weight", 64, "f32"))

    def test_quantised_weights_of_the_rule_leave_zeros(self):
        seed = "7:blk.0.ffn_up.weight"
        weights = data.drawn(seed, 0, 1.2 / 16, 256 * 64, "f32").reshape(-1, 32)
        for kind, size in (("q8_0", 34), ("q4_0", 18)):
            blocks = data.QUANTISED[kind][2](np.zeros((len(weights), size), "u1"), weights)
            blocks[:, :2] = 7  # the scales
            blocks[3, 9] ^= 1  # a quant that is not the nearest
            part, stored = data.pack_rounded(blocks.tobytes(), seed, 256, kind)
            self.assertEqual((part[:3], part[-1]), (["rounded", seed, 0], kind))
            self.assertEqual(np.count_nonzero(np.frombuffer(stored, "u1")), 2 * len(blocks) + 1)
            self.comes_back(blocks.tobytes(), (part, stored))

    def test_all_quantised_bytes_come_back_whatever_they_are(self):
        for kind, (size, width, _) in data.QUANTISED.items():
            part = ["rounded", "7:x", 0, 1, 64 * width, kind]
            content = np.random.default_rng(1).integers(256, size=64 * size, dtype="u1").tobytes()
            stored = data.restore(data.Input(content), [part])  # undoes itself
            self.assertNotEqual(stored, content)
            self.comes_back(content, (part, stored))
            self.assertIsNone(data.pack_rounded(content, "7:x", 256, kind))

    def test_few_values_take_a_nibble_or_a_byte_each(self):
        random = np.random.default_rng(1)
        for colours, count, size in ((16, 4095, 4), (200, 4096, 4), (2, 100, 2)):
            content = random.normal(size=colours).astype(f"<f{size}")[random.integers(colours, size=count)].tobytes()
            part, stored = self.comes_back(content, data.pack_palette(content, size))
            self.assertEqual(stored, part[1] * size + (count if colours > 16 else (count + 1) // 2))
        self.assertIsNone(data.pack_palette(random.normal(size=4096).astype("<f4").tobytes(), 4))

    def test_rows_of_choices_take_their_places_in_any_order(self):
        values = np.linspace(-1, 1, 16, dtype="<f4")
        rows = values[data.choices(data.CHOICES_BITS)[1000 : 1000 + 64 * 32].reshape(32, 64)]
        mixed = rows[np.random.default_rng(1).permutation(32)]
        for content in (rows.tobytes(), mixed.tobytes()):
            _, stored = self.comes_back(content, data.pack_choices(content, 64))
            self.assertEqual(stored, 16 * 4 + 32 * 4)
        mixed[3, 5] = values[0] if mixed[3, 5] != values[0] else values[1]
        self.assertIsNone(data.pack_choices(mixed.tobytes(), 64))

    def test_planes_and_steps(self):
        values = np.random.default_rng(1).normal(size=99).astype("<f4").tobytes()
        self.comes_back(values, data.pack_planes(values))
        self.comes_back(values, data.pack_steps(values))
        self.comes_back(b"", data.pack_steps(b""))
        counted = (-np.arange(1000, dtype="<f4")).tobytes()
        _, stored = data.pack_steps(counted)
        self.assertLess(len(lzma.compress(stored)), len(lzma.compress(counted)) / 4)

    def test_texts_and_merges(self):
        tokens = [b"a", b"b", b"ab", "\u00e4".encode(), b"x" * 600, b"abb", b""]
        merges = [b"a b", b"ab b", b"x" * 300 + b" " + b"x" * 300]
        texts, merged = data.pack_texts(tokens), data.pack_merges(merges, tokens)
        restored = data.restore(data.Input(texts[1] + merged[1]), [texts[0], merged[0]])
        self.assertEqual(restored, b"".join(map(data.string, tokens + merges)))
        self.assertIsNone(data.pack_merges([b"a a"], tokens))  # makes no token
        self.assertIsNone(data.pack_texts([b"with\0zero"]))


class Archives(unittest.TestCase):
    """In a folder of their own instead of the script's."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.files, self.archives, self.out = (self.root / name for name in ("files", "archives", "out"))
        before = data.HERE
        data.HERE = self.archives
        self.addCleanup(setattr, data, "HERE", before)
        tokens = [b"a", b"b", b"ab"] + [b"token %d" % number for number in range(500)]
        weights = data.drawn("1:token_embd.weight", 0, 0.6, 64 * 503, "f32").tobytes()
        few = np.arange(16, dtype="<f4")[np.random.default_rng(1).integers(16, size=64 * 64)].tobytes()
        arrays = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": -np.arange(503), "tokenizer.ggml.merges": [b"a b"]}
        listed = [("token_embd.weight", (64, 503), 0, weights), ("output.weight", (64, 64), 0, few), ("x", (32,), 8, bytes(range(34)))]
        self.write("models/one.gguf", gguf(arrays, listed))
        self.write("models/one.ref.json", b'{"logits": [1.5]}')
        self.write("converted/two.gguf", gguf({}, listed[1:]))
        self.write("converted/two.ref.json", b"{}")
        self.write("converted/three.ref.json", b"{}")
        self.pack()

    def write(self, name: str, content: bytes):
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def pack(self):
        with contextlib.redirect_stdout(io.StringIO()):
            data.pack(self.files)

    def unpack(self):
        data.unpack(self.out, self.archives)

    def tree(self, folder: pathlib.Path) -> dict:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*")
                if path.is_file() and not path.name.startswith(".")}

    def test_everything_comes_back(self):
        self.assertEqual(sorted(self.tree(self.archives)), ["converted/three.pack", "converted/two.pack", "models.pack"])
        self.assertLess((self.archives / "models.pack").stat().st_size, 6000)  # of 133,000 bytes
        self.unpack()
        self.assertEqual(self.tree(self.out), self.tree(self.files))

    def test_only_what_has_changed_is_unpacked_again(self):
        self.unpack()
        before = {path: path.stat().st_ino for path in self.out.rglob("*.json") if not path.name.startswith(".")}
        self.write("converted/two.ref.json", b"[]")
        (self.out / "converted/three.ref.json").unlink()
        self.pack()
        self.unpack()
        self.assertEqual(self.tree(self.out), self.tree(self.files))
        one = self.out / "models/one.ref.json"
        self.assertEqual(one.stat().st_ino, before[one])

    def test_files_of_archives_that_are_gone_go(self):
        self.unpack()
        (self.archives / "converted/two.pack").unlink()
        self.unpack()
        self.assertEqual(sorted(self.tree(self.out)), ["converted/three.ref.json", "models/one.gguf", "models/one.ref.json"])

    def test_a_damaged_archive_is_named(self):
        path = self.archives / "models.pack"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with self.assertRaisesRegex(data.DataError, r"models\.pack: is damaged .*git checkout"):
            self.unpack()
        path.write_bytes(content[:100])
        with self.assertRaisesRegex(data.DataError, r"models\.pack: is damaged"):
            self.unpack()

    def change_json(self, change):
        path = self.archives / "models.pack"
        line, _, stored = lzma.decompress(path.read_bytes()).partition(b"\n")
        listed = json.loads(line)
        change(listed["files"])
        path.write_bytes(lzma.compress(json.dumps(listed).encode() + b"\n" + stored))

    def test_other_bytes_than_were_packed_are_told_with_the_files_name(self):
        self.change_json(lambda files: files[1].update(sha256="0" * 64))
        with self.assertRaisesRegex(data.DataError, r"models\.pack: models/one\.ref\.json does not come out"):
            self.unpack()

    def test_weights_drawn_otherwise_are_blamed_on_numpy(self):
        def other_seed(files):
            part = next(part for part in files[0]["parts"] if part[0] == "random")
            part[1] += "!"

        self.change_json(other_seed)
        with self.assertRaisesRegex(data.DataError, r"models/one\.gguf does not come out.*NumPy"):
            self.unpack()

    def test_too_little_data_and_unknown_parts_are_told(self):
        self.change_json(lambda files: files[1]["parts"][0].__setitem__(1, 10**6))
        with self.assertRaisesRegex(data.DataError, r"one\.ref\.json: its data ends too early"):
            self.unpack()
        self.change_json(lambda files: files[1]["parts"][0].__setitem__(0, "new"))
        with self.assertRaisesRegex(data.DataError, r"one\.ref\.json: its part \"new\" is unknown"):
            self.unpack()

    def test_builds_that_run_at_once_wait_for_one_another(self):
        command = f"import pathlib, data; data.unpack(pathlib.Path({str(self.out)!r}), pathlib.Path({str(self.archives)!r}))"
        here = pathlib.Path(data.__file__).resolve().parent
        builds = [subprocess.Popen([sys.executable, "-c", command], cwd=here) for _ in range(4)]
        self.assertEqual([build.wait() for build in builds], [0] * 4)
        self.assertEqual(self.tree(self.out), self.tree(self.files))

    def test_a_file_outside_a_folder_cannot_be_packed(self):
        self.write("alone.json", b"{}")
        with self.assertRaisesRegex(data.DataError, "alone.json: lies in no folder"):
            self.pack()


EXPECTED_NORM = [0.875, 1.1484375, 0.921875, 1.0078125]

if __name__ == "__main__":
    unittest.main()
