#!/usr/bin/env python3
"""Gives the cases of tokenizers/bert-bge.jsonl the tokens of the tokenizers library, where another engine's differ.

usage: bert_bge.py VOCABULARY.gguf CASES.jsonl OUT.jsonl

The cases came from llama.cpp, which cuts Hangul and spacing marks otherwise than the models' own tokenizer, takes two control characters for
spaces, and knows no limit of a word's length. Only those cases change; that the rules written here give the decoded texts of all the others is
checked. Cases that are no UTF-8 stay. Needs the packages gguf and tokenizers (0.23.3).
"""

import json
import re
import sys

import gguf
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

CONTROL = 3
WORD = "\u2581"
CLS, SEP = 101, 102


def read_vocabulary(path):
    fields = gguf.GGUFReader(path).fields
    return fields["tokenizer.ggml.tokens"].contents(), fields["tokenizer.ggml.token_type"].contents()


def make_tokenizer(tokens, types, special):
    """The tokenizer that bge-small's tokenizer.json describes; `special`: it finds [SEP] and the like in a text."""
    vocabulary = {}
    for i, (token, kind) in enumerate(zip(tokens, types, strict=True)):
        own = token if kind == CONTROL else token[1:] if token.startswith(WORD) else "##" + token
        vocabulary.setdefault(own, i)
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if special:
        tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, types, strict=True) if kind == CONTROL])
    return tokenizer


def decoded(tokens, ids):
    text = "".join(tokens[i].replace(WORD, " ") for i in ids)
    text = re.sub(r" ([.,?!])", r"\1", text).replace(" ' ", "'")
    return re.sub(r" '(s|m|re|ve)", r"'\1", text)


def main():
    tokens, types = read_vocabulary(sys.argv[1])
    by_special = {special: make_tokenizer(tokens, types, special) for special in (False, True)}
    changed = 0
    with open(sys.argv[2], encoding="utf-8") as cases, open(sys.argv[3], "w", encoding="utf-8") as out:
        for line in cases:
            case = json.loads(line)
            if "text" in case and "ids" in case:
                ids = by_special[case["parse_special"]].encode(case["text"], add_special_tokens=False).ids
                ids = [CLS, *ids, SEP] if case["add_special"] else ids
                if "detok" in case and decoded(tokens, case["ids"]) != case["detok"]:
                    sys.exit(f"the rules of decoding do not hold for {line}")
                if ids != case["ids"]:
                    case["ids"], case["detok"] = ids, decoded(tokens, ids)
                    line = json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n"
                    changed += 1
            out.write(line)
    print(f"{changed} cases changed")


if __name__ == "__main__":
    main()
