#!/usr/bin/env python3
"""Unpacks the reference data of the tests, and packs it.

usage: data.py unpack OUT       brings the folder OUT up to date with the archives beside this script; the build runs it
       data.py pack FOLDER      packs FOLDER, which has the layout of OUT, into archives beside this script: one for each
                                of its folders, and one for each model of FOLDER/converted. Other archives stay.
       data.py list             prints every file, its archive, its bytes, and those stored for it (before xz)

An archive, NAME.pack, is an xz stream of a line of JSON and data. The JSON lists files with their SHA-256; each is a
sequence of parts, and each part is made of the next bytes of the data by a transform (TRANSFORMS) that undoes what
packing found out: that weights were drawn by the rule of README.md, that a tensor takes few values, and so on.
"Adding data" in README.md says what is stored how. Needs python3-numpy.
"""
import fcntl
import functools
import hashlib
import json
import lzma
import math
import os
import pathlib
import struct
import sys

try:
    import numpy as np
except ImportError:
    sys.exit("data.py: this Python has no NumPy; scripts/setup.sh installs python3-numpy for /usr/bin/python3")

HERE = pathlib.Path(__file__).resolve().parent
ONE_ARCHIVE_EACH = "converted"  # the folder whose models have archives of their own: they come one by one
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 64 << 20}]
ELEMENT = {"f32": "<f4", "f16": "<f2", "bf16": "<u2"}  # bf16 has no type in numpy: its bits
SMALLEST_WEIGHT = 2.0**-14  # the rule of README.md makes smaller ones zero, which F16 and BF16 both hold


class DataError(Exception):
    """What is wrong with an archive or with a file to be packed, for the user."""


class Input:
    """The data of an archive, read from its beginning."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.data):
            raise DataError("its data ends too early")
        return self.data[self.at - size : self.at]


# Transforms: restore_X(input, made, ...) gives the bytes of a part back, where `made` holds the parts of the file so
# far; what follows are the part's numbers in the JSON. pack_X gives (part, data) or None where it does not fit.


def restore_bytes(source, made, size):
    return source.take(size)


def pack_bytes(data):
    return ["bytes", len(data)], data


def restore_random(source, made, seed, mean, scale, count, kind):
    return drawn(seed, mean, scale, count, kind).tobytes()


def drawn(seed, mean, scale, count, kind):
    """`count` values of the rule for random weights: mean + scale N(0, 1), rounded to BF16, those near zero made zero."""
    state = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little")
    normal = np.random.Generator(np.random.PCG64(state)).standard_normal(count)
    bits = (mean + scale * normal).astype("<f4").view("<u4").astype(np.uint64)
    bits = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u4") << 16  # to nearest, ties to even
    values = bits.view("<f4")
    values[np.abs(values) < SMALLEST_WEIGHT] = 0
    return values if kind == "f32" else values.astype("<f2") if kind == "f16" else (values.view("<u4") >> 16).astype("<u2")


def pack_random(data, seed, width, kind):
    """`width`: the length of the tensor's rows, by which the rule divides."""
    values = np.frombuffer(data, ELEMENT[kind])
    found = (values.astype("<u4") << 16).view("<f4") if kind == "bf16" else values.astype("<f4")
    if len(found) < 16 or not np.abs(found).max() < 1e4 or found.std() == 0:
        return None
    normal = drawn(seed, 0, 1, len(found), "f32")
    if np.corrcoef(found, normal)[0, 1] < 0.99:
        return None
    about, mean_about = np.polyfit(normal, found, 1)
    steps = [0.05 * i for i in range(1, 101)]
    scales = sorted(steps + [step / math.sqrt(width) for step in steps], key=lambda scale: abs(scale - about))[:4]
    for mean in (round(mean_about), round(mean_about, 1)):
        for scale in scales:
            if drawn(seed, mean, scale, len(found), kind).tobytes() == data:
                return ["random", seed, mean, scale, len(found), kind], b""
    return None


# Quantised tensors whose weights were drawn by the rule: of a block, the scales are stored, and the quants as what they
# differ by (almost never) from the nearest ones to the weights. A function takes blocks (count x bytes of a block) and
# weights (count x weights of a block) and gives the bytes of the quants that it expects, zeros in place of scales.
# The layouts are those of src/quant/blocks.h.


def half(blocks, at):
    """The F16 value at a byte of each block, as a column of float32."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype("<f4")


def nearest(values, low, high):
    """Rounded to whole numbers from `low` to `high`; a division by a scale of zero has made values that are none."""
    return np.clip(np.rint(np.nan_to_num(values)), low, high).astype("i4")


def expect_q8_0(blocks, weights):
    largest = np.abs(weights).max(axis=1, keepdims=True) / np.float32(127)
    expected = np.zeros_like(blocks)
    scaled = np.nan_to_num(weights * (1 / largest))
    expected[:, 2:] = (np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))).astype("i1").view("u1")
    return expected


def expect_q4_0(blocks, weights):
    largest = np.take_along_axis(weights, np.abs(weights).argmax(axis=1)[:, None], axis=1) / np.float32(-8)
    quants = np.clip(np.nan_to_num(weights * (1 / largest)) + np.float32(8.5), 0, 15).astype("u1")
    expected = np.zeros_like(blocks)
    expected[:, 2:] = quants[:, :16] | quants[:, 16:] << 4
    return expected


def expect_q2_k(blocks, weights):
    scales = blocks[:, :16]
    step, least = half(blocks, 80) * (scales & 15), half(blocks, 82) * (scales >> 4)
    quants = nearest((weights.reshape(-1, 16, 16) + least[:, :, None]) / step[:, :, None], 0, 3).reshape(-1, 2, 4, 32)
    expected = blocks * 0
    expected[:, 16:80] = sum(quants[:, :, i] << 2 * i for i in range(4)).reshape(-1, 64)
    return expected


def expect_q4_k(blocks, weights):
    packed = blocks[:, 4:16]
    low, high, both = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 63, both & 15 | low >> 6 << 4], axis=1)
    mins = np.concatenate([high & 63, both >> 4 | high >> 6 << 4], axis=1)
    step, least = half(blocks, 0) * scales, half(blocks, 2) * mins
    quants = nearest((weights.reshape(-1, 8, 32) + least[:, :, None]) / step[:, :, None], 0, 15).reshape(-1, 4, 2, 32)
    expected = blocks * 0
    expected[:, 16:] = (quants[:, :, 0] | quants[:, :, 1] << 4).reshape(-1, 128)
    return expected


def expect_q6_k(blocks, weights):
    step = half(blocks, 208) * np.ascontiguousarray(blocks[:, 192:208]).view("i1")
    quants = nearest(weights.reshape(-1, 16, 16) / step[:, :, None], -32, 31).reshape(-1, 2, 4, 32) + 32
    expected = blocks * 0
    low = [quants[:, :, i] & 15 | (quants[:, :, i + 2] & 15) << 4 for i in range(2)]
    expected[:, :128] = np.stack(low, axis=2).reshape(-1, 128)
    expected[:, 128:192] = sum(quants[:, :, i] >> 4 << 2 * i for i in range(4)).reshape(-1, 64)
    return expected


def expect_iq4_xs(blocks, weights):
    values = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], "<f4")
    low = np.stack([blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4], axis=2).reshape(-1, 8)
    high = np.ascontiguousarray(blocks[:, 2:4]).view("<u2") >> np.arange(0, 16, 2) & 3
    step = half(blocks, 0) * ((low | high << 4).astype("<f4") - 32)
    quants = np.searchsorted((values[1:] + values[:-1]) / 2, np.nan_to_num(weights.reshape(-1, 8, 32) / step[:, :, None]))
    quants = quants.reshape(-1, 8, 2, 16)
    expected = blocks * 0
    expected[:, 8:] = (quants[:, :, 0] | quants[:, :, 1] << 4).reshape(-1, 128)
    return expected


# type: bytes of a block, weights of a block, what is expected
QUANTISED = {"q8_0": (34, 32, expect_q8_0), "q4_0": (18, 32, expect_q4_0), "q2_k": (84, 256, expect_q2_k),
             "q4_k": (144, 256, expect_q4_k), "q6_k": (210, 256, expect_q6_k), "iq4_xs": (136, 256, expect_iq4_xs)}


def restore_rounded(source, made, seed, mean, scale, count, kind):
    """Undoes itself, so that it packs too: expected bytes are taken out of, or put into, the others by exclusive or."""
    size, width, expect = QUANTISED[kind]
    blocks = np.frombuffer(source.take(count // width * size), "u1").reshape(-1, size)
    with np.errstate(all="ignore"):
        return (blocks ^ expect(blocks, drawn(seed, mean, scale, count, "f32").reshape(-1, width))).tobytes()


def pack_rounded(data, seed, width, kind):
    """`width`: as for pack_random. The scale of the rule is the one by which most bytes are expected ones."""
    size, per_block, _ = QUANTISED[kind]
    count = len(data) // size * per_block
    scales = [0.6, 0.15, 0.05] + [step / math.sqrt(width) for step in (1.2, 1.5, 2.0)]
    parts = [["rounded", seed, 0, scale, count, kind] for scale in scales]
    packed = [(part, restore_rounded(Input(data), (), *part[1:])) for part in parts]
    best = max(packed, key=lambda one: np.count_nonzero(np.frombuffer(one[1], "u1") == 0))
    return best if np.count_nonzero(np.frombuffer(best[1], "u1")) < len(data) / 2 else None


@functools.cache
def choices(bits: int):
    """2^bits random numbers below 16, which is how tests/data/README.md lets converted models choose among 16 values."""
    return np.frombuffer(np.random.RandomState(1).bytes(4 << bits), "<u4").astype("u1") & 15  # MT19937, as torch has it


CHOICES_BITS = 22  # more than there are weights in a model of the tests


def restore_choices(source, made, rows, width):
    palette = np.frombuffer(source.take(64), "<f4")
    places = np.frombuffer(restore_steps(source, made, rows), "<u4")
    return palette[choices(CHOICES_BITS)[places[:, None] + np.arange(width)]].tobytes()


@functools.cache
def choices_by_sixteen():
    """(all runs of 16 choices as 64-bit numbers, sorted; where each begins)"""
    among = choices(CHOICES_BITS)
    runs = runs_of_sixteen(np.lib.stride_tricks.sliding_window_view(among, 16))
    order = np.argsort(runs)
    return runs[order], order


def runs_of_sixteen(rows):
    return sum(rows[:, i].astype(np.uint64) << np.uint64(4 * i) for i in range(16))


def pack_choices(data, width):
    """For float32 tensors whose rows, `width` long, are pieces of choices() among 16 values; a converter may have put the
    rows into another order."""
    palette, indices = np.unique(np.frombuffer(data, "<f4"), return_inverse=True)
    if len(palette) != 16 or palette[indices].tobytes() != data:
        return None
    rows = indices.astype("u1").reshape(-1, width if width >= 16 else indices.size)
    runs, order = choices_by_sixteen()
    places = order[np.searchsorted(runs, runs_of_sixteen(rows)) % len(order)]
    places = np.minimum(places, (1 << CHOICES_BITS) - rows.shape[1])
    if not np.array_equal(choices(CHOICES_BITS)[places[:, None] + np.arange(rows.shape[1])], rows):
        return None
    _, steps = pack_steps(places.astype("<u4").tobytes())
    return ["choices", *rows.shape], palette.tobytes() + steps


def restore_palette(source, made, colours, count, size):
    element = f"<u{size}"
    palette = np.frombuffer(source.take(colours * size), element)
    if colours > 16:
        return palette[np.frombuffer(source.take(count), "u1")].tobytes()
    pairs = np.frombuffer(source.take((count + 1) // 2), "u1")
    return palette[np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)[:count]].tobytes()


def pack_palette(data, size):
    """For tensors that take at most 256 different values, of `size` bytes."""
    values = np.frombuffer(data, f"<u{size}")
    palette, indices = np.unique(values, return_inverse=True)
    if len(palette) > 256 or len(palette) * 4 > len(values):
        return None
    indices = indices.astype("u1").reshape(-1)
    if len(palette) <= 16:
        padded = np.append(indices, np.zeros(len(indices) % 2, "u1"))
        indices = padded[0::2] | padded[1::2] << 4
    return ["palette", len(palette), len(values), size], palette.tobytes() + indices.tobytes()


def restore_planes(source, made, count):
    return np.ascontiguousarray(np.frombuffer(source.take(4 * count), "u1").reshape(4, count).T).tobytes()


def pack_planes(data):
    """For float32: the first bytes of all values, then the second ones, ...: exponents compress, mantissas do not."""
    return ["planes", len(data) // 4], np.ascontiguousarray(np.frombuffer(data, "u1").reshape(-1, 4).T).tobytes()


def restore_steps(source, made, count):
    steps = np.frombuffer(restore_planes(source, made, count), "<u4")
    return np.cumsum(steps, dtype="<u4").tobytes()


def pack_steps(data):
    """For arrays of 32-bit numbers that mostly go on as they did: their bits less those of the one before."""
    numbers = np.frombuffer(data, "<u4")
    _, planes = pack_planes(np.diff(numbers, prepend=numbers[:1] * 0).astype("<u4").tobytes())
    return ["steps", len(numbers)], planes


def string(text: bytes) -> bytes:
    """As GGUF writes it."""
    return struct.pack("<Q", len(text)) + text


def restore_texts(source, made, size):
    texts = source.take(size).split(b"\0")[:-1]
    made.texts = texts
    return b"".join(map(string, texts))


def pack_texts(texts):
    """For an array of GGUF's strings: they end with a zero byte instead of beginning with their length."""
    if any(b"\0" in text for text in texts):
        return None
    data = b"".join(text + b"\0" for text in texts)
    return ["texts", len(data)], data


def restore_merges(source, made, count):
    tokens = np.cumsum(np.frombuffer(restore_planes(source, made, count), "<u4"), dtype="<u4")
    splits = np.frombuffer(source.take(2 * count), "<u2")
    merges = []
    for token, split in zip(tokens.tolist(), splits.tolist()):
        text = made.texts[token]
        merges.append(string(text[:split] + b" " + text[split:]))
    return b"".join(merges)


def pack_merges(merges, tokens):
    """For the merges of a byte-pair vocabulary: each makes a token, so that its number and the place to cut it say all."""
    numbers = {token: number for number, token in enumerate(tokens)}
    found, splits = [], []
    for merge in merges:
        left, space, right = merge.partition(b" ")
        number = numbers.get(left + right)
        if number is None or not space or len(left) > 0xFFFF:
            return None
        found.append(number)
        splits.append(len(left))
    _, planes = pack_steps(np.array(found, "<u4").tobytes())
    return ["merges", len(found)], planes + np.array(splits, "<u2").tobytes()


TRANSFORMS = {name.removeprefix("restore_"): function for name, function in list(globals().items())
              if name.startswith("restore_")}


class Made(list):
    """The parts of a file so far, and the last array of texts among them."""

    texts = ()


def restore(source: Input, parts: list) -> bytes:
    made = Made()
    for kind, *numbers in parts:
        if kind not in TRANSFORMS:
            raise DataError(f"its part \"{kind}\" is unknown: the archive is newer than this script")
        made.append(TRANSFORMS[kind](source, made, *numbers))
    return b"".join(made)


# Packing a GGUF file (its specification: ggml-org/ggml, docs/gguf.md).

VALUE_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes; 8 is a string, 9 an array
STRING, ARRAY = 8, 9
TENSOR_TYPES = {0: ("f32", 4), 1: ("f16", 2), 30: ("bf16", 2), 26: ("i32", 4)}  # name, bytes of an element
BLOCK_TYPES = {2: "q4_0", 8: "q8_0", 10: "q2_k", 12: "q4_k", 14: "q6_k", 23: "iq4_xs"}


class Gguf:
    """Walks the header of a GGUF file: `arrays` are (first byte, end, key, type, strings or None), `tensors` (first byte,
    name, shape, type), `begin` is where their data begins."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 8
        tensors, pairs = self.take("<QQ")
        self.arrays, self.alignment = [], 32
        for _ in range(pairs):
            key = self.text().decode()
            self.value(key, self.take("<I")[0])
        listed = []
        for _ in range(tensors):
            name = self.text().decode()
            shape = self.take(f"<{self.take('<I')[0]}Q")
            listed.append((name, shape, *self.take("<IQ")))
        self.begin = -(-self.at // self.alignment) * self.alignment
        self.tensors = sorted((self.begin + offset, name, shape, kind) for name, shape, kind, offset in listed)

    def take(self, form: str) -> tuple:
        self.at += struct.calcsize(form)
        return struct.unpack_from(form, self.data, self.at - struct.calcsize(form))

    def text(self) -> bytes:
        size = self.take("<Q")[0]
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self, key: str, kind: int):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            inner, count = self.take("<IQ")
            begin = self.at
            texts = None
            if inner == STRING:
                texts = [self.text() for _ in range(count)]
            else:
                self.at += VALUE_SIZES[inner] * count
            self.arrays.append((begin, self.at, key, inner, texts))
        else:
            if key == "general.alignment":
                self.alignment = struct.unpack_from("<I", self.data, self.at)[0]
            self.at += VALUE_SIZES[kind]


def pack_array(data, key, kind, texts, tokens):
    if texts is not None:
        if key == "tokenizer.ggml.merges":
            return pack_merges(texts, tokens) or pack_texts(texts)
        return pack_texts(texts)
    return pack_steps(data) if VALUE_SIZES[kind] == 4 else None


def pack_tensor(data, name, shape, kind):
    if kind in BLOCK_TYPES:
        return pack_rounded(data, "7:" + name, shape[0], BLOCK_TYPES[kind])
    name_of, size = TENSOR_TYPES.get(kind, (None, 0))
    if name_of is None or len(data) != size * math.prod(shape):
        return None
    if name_of in ELEMENT:
        for salt in "17":  # 7: the files whose names begin with "quant-"
            packed = pack_random(data, f"{salt}:{name}", shape[0], name_of)
            if packed:
                return packed
    if name_of == "f32":
        return pack_choices(data, shape[0]) or pack_palette(data, size) or pack_planes(data)
    return pack_palette(data, size)


def bytes_of(shape, kind):
    """Of a tensor; no bound where this script does not know the type."""
    if kind in BLOCK_TYPES:
        size, width, _ = QUANTISED[BLOCK_TYPES[kind]]
        return math.prod(shape) // width * size
    return math.prod(shape) * TENSOR_TYPES[kind][1] if kind in TENSOR_TYPES else math.inf


def pack_gguf(data: bytes):
    """(parts, data) of a GGUF file: large arrays and tensors by the transform that fits, the rest as it is."""
    file = Gguf(data)
    pieces, tokens = [], ()
    for begin, end, key, kind, texts in file.arrays:
        if end - begin >= 1024 or texts:
            pieces.append((begin, end, pack_array(data[begin:end], key, kind, texts, tokens)))
        if texts and pieces[-1][2] and pieces[-1][2][0][0] == "texts":
            tokens = texts
    ends = [begin for begin, *_ in file.tensors[1:]] + [len(data)]
    for (begin, name, shape, kind), end in zip(file.tensors, ends):
        end = min(end, begin + bytes_of(shape, kind))  # without padding
        pieces.append((begin, end, pack_tensor(data[begin:end], name, shape, kind)))
    parts, stored, at = [], [], 0
    for begin, end, packed in pieces + [(len(data), len(data), None)]:
        if packed is None and begin < len(data):
            continue
        for part, content in ([pack_bytes(data[at:begin])] if begin > at else []) + ([packed] if packed else []):
            parts.append(part)
            stored.append(content)
        at = end
    return parts, b"".join(stored)


def pack_file(path: pathlib.Path):
    data = path.read_bytes()
    if data[:4] == b"GGUF":
        parts, stored = pack_gguf(data)
    elif path.suffix == ".f32":
        part, stored = pack_palette(data, 4) or pack_planes(data)
        parts = [part]
    else:
        part, stored = pack_bytes(data)
        parts = [part]
    if restore(Input(stored), parts) != data:
        raise DataError(f"{path}: does not come back as it was: a transform of this script is wrong")
    return parts, stored, hashlib.sha256(data).hexdigest()


def write_archive(archive: pathlib.Path, folder: pathlib.Path, paths: list):
    files, stored = [], []
    for path in paths:
        parts, data, digest = pack_file(path)
        files.append({"name": path.relative_to(folder).as_posix(), "sha256": digest, "parts": parts})
        stored.append(data)
    content = json.dumps({"files": files}, separators=(",", ":")).encode() + b"\n" + b"".join(stored)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(lzma.compress(content, check=lzma.CHECK_CRC32, filters=XZ))
    print(f"{archive.relative_to(HERE)}: {len(paths)} files, {archive.stat().st_size} bytes")


def pack(folder: pathlib.Path):
    archives = {}
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder).parts
        if path.is_dir() or any(part.startswith(".") for part in place):
            continue
        if len(place) == 1:
            raise DataError(f"{path}: lies in no folder; put it into one, which becomes an archive")
        name = f"{place[0]}/{place[1].split('.')[0]}" if place[0] == ONE_ARCHIVE_EACH else place[0]
        archives.setdefault(name, []).append(path)
    if not archives:
        raise DataError(f"{folder}: holds no files to pack")
    for name, paths in archives.items():
        write_archive(HERE / (name + ".pack"), folder, paths)


def read_archive(archive: pathlib.Path, content: bytes):
    """(the files that its JSON lists, its data)"""
    try:
        line, _, data = lzma.decompress(content).partition(b"\n")
        return json.loads(line)["files"], Input(data)
    except (lzma.LZMAError, EOFError, ValueError, KeyError) as error:
        raise DataError(f"{archive}: is damaged ({error}); `git checkout -- {archive}` brings it back") from None


def files_of(archive: pathlib.Path, content: bytes):
    """Yields (name, bytes) of the files in an archive; every one has been checked."""
    listed, source = read_archive(archive, content)
    for file in listed:
        try:
            data = restore(source, file["parts"])
        except DataError as error:
            raise DataError(f"{archive}: {file['name']}: {error}; `git checkout -- {archive}` brings it back") from None
        if hashlib.sha256(data).hexdigest() != file["sha256"]:
            raise DataError(f"{archive}: {file['name']} does not come out as it was packed: {why_unequal(file)}")
        yield file["name"], data


def why_unequal(file):
    if any(part[0] in ("random", "rounded") for part in file["parts"]):
        return (f"its weights are drawn by NumPy, and NumPy {np.__version__} may draw others than 1.24 and 2.4 do; take one"
                " of those, or configure with -DCAIRN_TESTS=OFF")
    return "the archive was made by another version of this script; pack it again or take both from one commit"


def write_files(out: pathlib.Path, archive: pathlib.Path, content: bytes):
    """Writes the files of an archive. A test that has one open keeps the old one. Returns their names and sizes."""
    sizes = {}
    for name, data in files_of(archive, content):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
        sizes[name] = len(data)
    return sizes


def unpack(out: pathlib.Path, archives_folder: pathlib.Path = HERE):
    """Unpacks the archives that are new or changed since the last time, which OUT/.unpacked.json tells, and deletes the
    files of those that are gone. Builds that run at once wait for one another."""
    out.mkdir(parents=True, exist_ok=True)
    with open(out / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        record = out / ".unpacked.json"
        try:
            before = json.loads(record.read_text())
        except (OSError, ValueError):
            before = {}
        script = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
        now = {}
        try:
            for archive in sorted(archives_folder.rglob("*.pack")):
                name = archive.relative_to(archives_folder).as_posix()
                content = archive.read_bytes()
                digest = hashlib.sha256(script.encode() + content).hexdigest()
                old = before.get(name, {})
                if old.get("digest") == digest and is_there(out, old["files"]):
                    now[name] = old
                else:
                    now[name] = {"digest": digest, "files": write_files(out, archive, content)}
            kept = {file for one in now.values() for file in one["files"]}
            for file in {file for one in before.values() for file in one["files"]} - kept:
                (out / file).unlink(missing_ok=True)
        finally:  # what is done is done, even if the next archive is damaged
            if now != before:
                record.write_text(json.dumps(now))


def is_there(out: pathlib.Path, sizes: dict) -> bool:
    return all((out / name).is_file() and (out / name).stat().st_size == size for name, size in sizes.items())


def show():
    for archive in sorted(HERE.rglob("*.pack")):
        listed, source = read_archive(archive, archive.read_bytes())
        for file in listed:
            before = source.at
            data = restore(source, file["parts"])
            print(f"{archive.relative_to(HERE)} {file['name']} {len(data)} {source.at - before}")


def main(arguments: list) -> int:
    try:
        if len(arguments) == 2 and arguments[0] == "unpack":
            unpack(pathlib.Path(arguments[1]))
        elif len(arguments) == 2 and arguments[0] == "pack":
            pack(pathlib.Path(arguments[1]).resolve())
        elif arguments == ["list"]:
            show()
        else:
            sys.exit(__doc__.split("\n\n")[1])
    except DataError as error:
        print(f"data.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
