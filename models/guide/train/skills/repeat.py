"""Saying again what was said, and counting: useful for tests, and the shortest way to learn copying."""
import random

from chat import Conversation, Message, answer, user
from noise import said
from words import CITIES, NAMES, THINGS, Pool, nonsense, number, part_of

FORMS = Pool(["Repeat: {t}", "Say: {t}", "Repeat after me: {t}", "Write this again: {t}", "Copy this: {t}", "Echo: {t}",
              "Say exactly this: {t}", "Please repeat the following: {t}", "Answer with these words: {t}", "say {t}", "Repeat \"{t}\"",
              "Say \"{t}\" and nothing else.", "Type this: {t}", "Can you say \"{t}\"?", "Give me this text back: {t}",
              "Please echo these words: {t}", "Just write: {t}"], "repeat.FORMS")
COUNTS = Pool(["Count from {a} to {b}.", "Count from {a} up to {b}.", "Please count from {a} to {b}.", "List the numbers from {a} to {b}.",
               "Write the numbers {a} to {b}.", "Can you count from {a} to {b}?", "Numbers from {a} to {b}, please.",
               "Say all numbers between {a} and {b}, both included.", "Start at {a} and count up to {b}."], "repeat.COUNTS")


def _word(rng: random.Random, part: str) -> str:
    chance = rng.random()
    if chance < 0.55:
        word = nonsense(rng, part)
        return word.capitalize() if rng.random() < 0.2 else word
    if chance < 0.7:
        return THINGS.pick(rng, part)
    if chance < 0.8:
        return rng.choice([NAMES, CITIES]).pick(rng, part)
    if chance < 0.9:
        return str(number(rng, part, 10, 9999))
    return f"{nonsense(rng, part)}{rng.choice('_-./')}{nonsense(rng, part)}"


def text(rng: random.Random, part: str) -> str:
    words = [_word(rng, part) for _ in range(rng.choice((1, 2, 3, 3, 4, 5, 6, 8, 10)))]
    return rng.choice([" ", " ", " ", ", "]).join(words)


def turn(rng: random.Random, part: str) -> list[Message]:
    if rng.random() < 0.85:
        words = text(rng, part)
        return [user(said(FORMS, rng, part).format(t=words)), answer(words)]
    while True:
        first = rng.randint(1, 90)
        last = first + rng.randint(2, 12)
        if part_of(f"{first} to {last}") == part:
            counted = ", ".join(map(str, range(first, last + 1)))
            return [user(said(COUNTS, rng, part).format(a=first, b=last)), answer(counted)]


def make(rng: random.Random, part: str) -> Conversation:
    return Conversation(turn(rng, part), skill="repeat")
