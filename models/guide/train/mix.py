"""What training reads: conversations of every skill, alone and one after the other, as ids with a weight each."""
import random
from typing import Callable, NamedTuple

import numpy as np

from chat import Conversation, Message, answer, render
from skills import arithmetic, facts, json_schema, repeat, smalltalk, stories, tools, unknown
from tokenizer import Tokenizer
from words import SYSTEMS, TRAIN

Maker = Callable[[random.Random, str], Conversation]
# Shares of conversations, in the first shards and after them. Tools have the longest prompts: with the first shares they
# take two thirds of all tokens. Copying is learnt as well, and much cheaper, from what is short.
FIRST_SHARDS = 42
SHARES: dict[str, tuple[Maker, float, float]] = {
    "facts": (facts.make, 16, 24), "arithmetic": (arithmetic.make, 9, 14), "smalltalk": (smalltalk.make, 3, 8),
    "unknown": (unknown.make, 9, 10), "stories": (stories.make, 4, 10), "tool call": (tools.make_call, 16, 40),
    "tool result": (tools.make_result, 11, 8), "no tool": (tools.make_none, 5, 9), "json": (json_schema.make, 11, 24),
    "repeat": (repeat.make, 8, 12),
}
SEVERAL_SHARE = 0.13  # of conversations with several exchanges
TURNS: list[tuple[Callable[[random.Random, str], list[Message]], float]] = [
    (facts.turn, 10), (smalltalk.turn, 4), (unknown.turn, 4), (arithmetic.turn, 4), (stories.turn, 1), (repeat.turn, 2)]
PROMPT_WEIGHT = 0.4  # of those prompt tokens that take part in the loss at all
PROMPT_SHARE = 0.2   # how many do: enough to learn the language, few enough to cost little
TOKENS_MAX = 1024


class Example(NamedTuple):
    ids: np.ndarray      # [rows] uint16
    weights: np.ndarray  # [rows] float32: what predicting each token counts for


def several(rng: random.Random, part: str) -> Conversation:
    """Two to six exchanges; sometimes with a name that is asked for later."""
    makers, weights = zip(*TURNS)
    turns = [make(rng, part) for make in rng.choices(makers, weights, k=rng.choice((2, 2, 3, 3, 4, 5, 6)))]
    if rng.random() < 0.3:
        said = smalltalk.introduction(rng, part)
        turns = [said, *turns[1:], smalltalk.recall(rng, part, said)]
    return Conversation([message for turn in turns for message in turn], skill="several")


def dress(rng: random.Random, part: str, conversation: Conversation) -> Conversation:
    """Now and then a system message, now and then thinking switched off."""
    messages = conversation.messages
    if messages[0]["role"] != "system" and rng.random() < 0.15:
        messages = [{"role": "system", "content": SYSTEMS.pick(rng, part)}, *messages]
    thinks = rng.random() > 0.12
    if not thinks and "reasoning_content" in messages[-1]:
        messages = [*messages[:-1], answer(messages[-1]["content"])]
    return Conversation(messages, conversation.tools, thinks, conversation.skill)


def conversation(rng: random.Random, part: str = TRAIN, shard: int = 0) -> Conversation:
    if rng.random() < SEVERAL_SHARE:
        return dress(rng, part, several(rng, part))
    makers, first, later = zip(*SHARES.values())
    return dress(rng, part, rng.choices(makers, first if shard < FIRST_SHARDS else later)[0](rng, part))


def _learnt_turns(conversation: Conversation) -> list[bool]:
    """For each assistant message: is it shown as the model would have written it? A template drops earlier thoughts."""
    last = max(i for i, message in enumerate(conversation.messages) if message["role"] == "user")
    return [i > last or "reasoning_content" not in message
            for i, message in enumerate(conversation.messages) if message["role"] == "assistant"]


def encode(tokenizer: Tokenizer, conversation: Conversation, rng: random.Random) -> Example:
    text = render(conversation)
    ids = np.array(tokenizer.encode(text), dtype=np.uint16)
    start, end = tokenizer.ids["<|im_start|>"], tokenizer.ids["<|im_end|>"]
    assistant, newline = tokenizer.encode("assistant\n")[:-1], tokenizer.encode("\n")
    head = [start, *assistant, *newline]
    empty = tokenizer.encode("<think>\n\n</think>\n\n")
    weights = np.array([PROMPT_WEIGHT if rng.random() < PROMPT_SHARE else 0.0 for _ in ids], dtype=np.float32)
    learnt = iter(_learnt_turns(conversation))
    at, listed = 0, ids.tolist()
    while at < len(listed):
        if listed[at:at + len(head)] != head:
            at += 1
            continue
        at += len(head)
        if listed[at:at + len(empty)] == empty:
            at += len(empty)
        stop = listed.index(end, at) + 1
        weights[at:stop] = 1.0 if next(learnt) else 0.0
        at = stop
    return Example(ids, weights)


def examples(tokenizer: Tokenizer, seed: int, shard: int, count: int) -> list[Example]:
    """Shard `shard` of the endless corpus of `seed`."""
    rng = random.Random(f"{seed}:{shard}")
    found: list[Example] = []
    while len(found) < count:
        example = encode(tokenizer, conversation(rng, shard=shard), rng)
        if len(example.ids) <= TOKENS_MAX:
            found.append(example)
    return found


class Batch(NamedTuple):
    ids: np.ndarray      # [examples, rows] int64, filled up with 0
    targets: np.ndarray  # [wanted] int64
    wanted: np.ndarray   # [wanted] int64: flat indices of the rows whose next token counts
    weights: np.ndarray  # [wanted] float32


def batches(found: list[Example], rows_max: int, rng: random.Random) -> list[Batch]:
    """Examples of like length together, so that little is filled up; the batches in random order."""
    order = sorted(found, key=lambda example: len(example.ids))
    groups: list[list[Example]] = [[]]
    for example in order:
        if groups[-1] and (len(groups[-1]) + 1) * len(example.ids) > rows_max:
            groups.append([])
        groups[-1].append(example)
    rng.shuffle(groups)
    return [_batch(group) for group in groups]


def _batch(group: list[Example]) -> Batch:
    rows = max(len(example.ids) for example in group) - 1
    ids = np.zeros((len(group), rows), dtype=np.int64)
    targets = np.zeros((len(group), rows), dtype=np.int64)
    weights = np.zeros((len(group), rows), dtype=np.float32)
    for line, example in enumerate(group):
        length = len(example.ids) - 1
        ids[line, :length] = example.ids[:-1]
        targets[line, :length] = example.ids[1:]
        weights[line, :length] = example.weights[1:]
    wanted = np.flatnonzero(weights)
    return Batch(ids, targets.ravel()[wanted], wanted, weights.ravel()[wanted])
