"""Questions about Cairn, from the facts file."""
import functools
import json
import pathlib
import random

from chat import Conversation, Message, answer, user
from noise import framed, vary
from words import HELD, MORE, TRAIN, Pool, upper_first

FACTS = pathlib.Path(__file__).resolve().parent.parent.parent / "facts.json"

# How one asks about a named thing; {x} is its name, {kind} what it is.
NAMED = Pool(["What does {x} do?", "What is {x}?", "What is {x} for?", "Explain {x}.", "Tell me about {x}.",
              "What does the {kind} {x} do?", "What is the {kind} {x} for?", "Explain the {kind} {x}.",
              "what does {x} mean", "Can you explain {x}?", "I do not understand {x}.", "Describe {x}.",
              "What do I use {x} for?", "What is the meaning of {x}?", "{x}?", "the {kind} {x}, what is it?",
              "Please tell me what {x} does.", "How does {x} work?", "When do I need {x}?", "Why would I use {x}?",
              "What happens with {x}?", "Do you know {x}?", "Is there a {kind} called {x}?", "what's {x}",
              "Could you tell me what the {kind} {x} is for?", "Help me with {x}.", "I read about {x}. What is it?",
              "Which {kind} is {x}?", "Give me a short explanation of {x}.", "Hey, what does {x} do in Cairn?",
              "What is {x} in Cairn?", "Say something about {x}.", "What's the purpose of {x}?",
              "Can you describe the {kind} {x} to me?", "I saw {x} in the documentation. What is that?",
              "What can I do with {x}?"], "facts.NAMED")
FRAMES = Pool(["Hi! {q}", "Hello, {q}", "Please: {q}", "{q} Thanks.", "One question: {q}",
               "I have a question. {q}", "Can you help me? {q}", "Quick question: {q}", "{q} I am new here.",
               "Tell me, {q}", "Hey. {q}", "So, {q}", "{q} Please be brief.", "About Cairn: {q}",
               "Sorry to bother you. {q}", "Here is something I wonder about: {q}", "{q} Thank you in advance."], "facts.FRAMES")


@functools.cache
def load() -> list[dict]:
    return json.loads(FACTS.read_text())["facts"]


@functools.cache
def kinds() -> dict[str, str]:
    return json.loads(FACTS.read_text())["kinds"]


def questions(fact: dict, part: str) -> list[str]:
    """Every way that `part` may ask for a fact, without frames; {x} is its name, {kind} what it is."""
    own = fact.get("held", []) if part == HELD else fact.get("ask", []) + MORE.get(f"facts.{fact['id']}", [])
    return own + (NAMED.part(part) if "name" in fact else [])


def question(rng: random.Random, part: str, fact: dict) -> str:
    form = rng.choice(questions(fact, part))
    if part == TRAIN:
        form = vary(rng, form)
    text = form.format(x=fact["name"], kind=kinds()[fact["kind"]]) if "name" in fact else form
    if "name" in fact and rng.random() < 0.15:
        text = text.replace(fact["name"], f"`{fact['name']}`")
    if rng.random() < 0.1:
        text = text.rstrip("?.")
    if rng.random() < 0.1:
        text = text[:1].lower() + text[1:]
    text = framed(rng, part, FRAMES, 0.3, text)
    return upper_first(text) if rng.random() < 0.9 else text


def turn(rng: random.Random, part: str) -> list[Message]:
    fact = rng.choice(load())
    return [user(question(rng, part, fact)), answer(fact["answer"])]


def make(rng: random.Random, part: str) -> Conversation:
    return Conversation(turn(rng, part), skill="facts")
