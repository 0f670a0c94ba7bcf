#!/usr/bin/env python3
"""Looks for held-out requests, tool names and argument names in the training corpus. Exit status 1: there are some.

usage: separation.py [--train N] [--held N]
"""
import argparse
import random
from typing import Any

import mix
from chat import Conversation
from words import HELD, TRAIN


def requests(conversation: Conversation) -> set[str]:
    return {message["content"] for message in conversation.messages if message["role"] == "user"}


def tool_words(conversation: Conversation) -> set[str]:
    """Names of tools and of their arguments."""
    found: set[str] = set()
    for tool in conversation.tools:
        signature: dict[str, Any] = tool["function"]
        found |= {signature["name"], *signature["parameters"]["properties"]}
    return found


def collect(part: str, count: int) -> tuple[set[str], set[str]]:
    texts: set[str] = set()
    names: set[str] = set()
    makers = [make for make, *_ in mix.SHARES.values()]
    for index in range(count):
        rng = random.Random(f"separation:{part}:{index}")
        one = makers[index % len(makers)](rng, part)
        texts |= requests(one)
        names |= tool_words(one)
    return texts, names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, default=40_000)
    parser.add_argument("--held", type=int, default=4_000)
    options = parser.parse_args()
    train_texts, train_names = collect(TRAIN, options.train)
    held_texts, held_names = collect(HELD, options.held)
    print(f"{len(held_texts)} held-out requests beside {len(train_texts)} of training, "
          f"{len(held_names)} held-out names of tools and arguments beside {len(train_names)}")
    both = sorted(held_texts & train_texts) + sorted(held_names & train_names)
    for text in both[:40]:
        print(f"in both: {text!r}")
    return int(bool(both))


if __name__ == "__main__":
    raise SystemExit(main())
