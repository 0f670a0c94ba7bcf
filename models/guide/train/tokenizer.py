"""Byte-level BPE: trained here, split as GGUF's pre-tokenizer `qwen2` splits (each digit alone).

Two rules make words easy to copy from one place to another. A merge never joins a letter with a quote, bracket or
underscore, so a word has the same tokens in a sentence and in JSON. Spaces are joined to words last, and only to
whole frequent ones, so a rare word is the same pieces with and without a space before it.
"""
import collections
import functools
import json
import pathlib
import re
import sys
import unicodedata
from typing import Iterable

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]  # control tokens: never shown
SHOWN = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>"]
CONTROL_TYPE, USER_DEFINED_TYPE, NORMAL_TYPE = 3, 4, 1


@functools.cache
def _class(kind: str) -> str:
    """The code points of a Unicode category's first letter, as the inside of a character class."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] == kind:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges)


@functools.cache
def _splitter() -> re.Pattern[str]:
    letter, number = _class("L"), _class("N")
    return re.compile(
        r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
        rf"|[^\r\n{letter}{number}]?[{letter}]+|[{number}]"
        rf"| ?[^\s{letter}{number}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


@functools.cache
def byte_letters() -> list[str]:
    """The letter that stands for each byte in a GGUF vocabulary of kind gpt2."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = [""] * 256, 0
    for byte in range(256):
        if byte in plain:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(256 + extra)
            extra += 1
    return letters


def _is_word(piece: str) -> bool:
    """Letters of any alphabet, in the byte letters' spelling."""
    return all(letter.isascii() and letter.isalpha() or ord(letter) >= 128 and letter not in "ĠĊčĉ" for letter in piece)


def _may_join(left: str, right: str) -> bool:
    return _is_word(left) == _is_word(right) and not (left + right).isdigit()


def _count_words(texts: Iterable[str]) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    names = re.compile("|".join(re.escape(name) for name in SPECIAL + SHOWN))
    for text in texts:
        for part in names.split(text):
            counts.update(_splitter().findall(part))
    letters = byte_letters()
    spelled: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        spelled["".join(letters[byte] for byte in word.encode())] += count
    return spelled


def train(texts: Iterable[str], size: int, spaced_share: float = 0.28) -> list[tuple[str, str]]:
    """Merges for a vocabulary of `size`; about `spaced_share` of them join a space to a word."""
    counts = _count_words(texts)
    room = size - 256 - len(SPECIAL) - len(SHOWN)
    words = [(list(word), count) for word, count in counts.items() if count > 1]
    pairs: collections.Counter[tuple[str, str]] = collections.Counter()
    where: dict[tuple[str, str], set[int]] = collections.defaultdict(set)

    def note(index: int, sign: int) -> None:
        pieces, count = words[index]
        for pair in zip(pieces, pieces[1:]):
            if _may_join(*pair):
                pairs[pair] += sign * count
                where[pair].add(index)

    for index in range(len(words)):
        note(index, 1)
    merges: list[tuple[str, str]] = []
    while len(merges) < room - int(room * spaced_share):
        best = max(pairs, key=lambda pair: (pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            break
        merges.append(best)
        for index in where.pop(best):
            note(index, -1)
            _join(words[index][0], best)
            note(index, 1)
        del pairs[best]
    whole = collections.Counter({pieces[1]: count for pieces, count in words
                                 if len(pieces) == 2 and pieces[0] == "Ġ" and _is_word(pieces[1])})
    merges += [("Ġ", word) for word, _ in sorted(whole.items(), key=lambda item: (-item[1], item[0]))[:room - len(merges)]]
    return merges


def _join(pieces: list[str], pair: tuple[str, str]) -> None:
    at = 0
    while at + 1 < len(pieces):
        if (pieces[at], pieces[at + 1]) == pair:
            pieces[at:at + 2] = [pair[0] + pair[1]]
        at += 1


class Tokenizer:
    """Text to ids and back. Ids: 256 bytes, merges, shown special tokens, control tokens."""

    def __init__(self, merges: list[tuple[str, str]], size: int) -> None:
        tokens = byte_letters() + [left + right for left, right in merges]
        # Two ways to the same text would be two ids for it; a file may not hold a token twice.
        self.tokens = list(dict.fromkeys(tokens))
        self.merges = merges
        self.types = [NORMAL_TYPE] * len(self.tokens)
        for names, kind in ((SHOWN, USER_DEFINED_TYPE), (SPECIAL, CONTROL_TYPE)):
            self.tokens += names
            self.types += [kind] * len(names)
        while len(self.tokens) < size:
            self.types.append(5)  # unused
            self.tokens.append(f"<|unused_{len(self.tokens)}|>")
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._names = re.compile("(" + "|".join(re.escape(name) for name in SPECIAL + SHOWN) + ")")
        self._cache: dict[str, list[int]] = {}

    @classmethod
    def load(cls, path: pathlib.Path) -> "Tokenizer":
        stored = json.loads(path.read_text())
        return cls([tuple(pair.split(" ")) for pair in stored["merges"]], stored["size"])

    def save(self, path: pathlib.Path) -> None:
        path.write_text(json.dumps({"size": len(self.tokens), "merges": [" ".join(pair) for pair in self.merges]},
                                   ensure_ascii=False, indent=0) + "\n")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self._names.split(text):
            if part in self.ids and self._names.fullmatch(part):
                ids.append(self.ids[part])
                continue
            for word in _splitter().findall(part):
                found = self._cache.get(word)
                if found is None:
                    found = self._cache[word] = self._encode_word(word)
                    if len(self._cache) > 200_000:
                        self._cache.clear()
                ids += found
        return ids

    def _encode_word(self, word: str) -> list[int]:
        pieces = [byte_letters()[byte] for byte in word.encode()]
        while len(pieces) > 1:
            pair = min(zip(pieces, pieces[1:]), key=lambda pair: self._ranks.get(pair, sys.maxsize))
            if pair not in self._ranks:
                break
            _join(pieces, pair)
        return [self.ids[piece] for piece in pieces]

    def decode(self, ids: Iterable[int]) -> str:
        bytes_of = {letter: byte for byte, letter in enumerate(byte_letters())}
        out = bytearray()
        for index in ids:
            token = self.tokens[index]
            out += token.encode() if self.types[index] != NORMAL_TYPE else bytes(bytes_of[letter] for letter in token)
        return out.decode(errors="replace")
