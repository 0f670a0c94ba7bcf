"""Choosing among tools, filling their arguments from the request, and using what they return.

A good part of the tools have invented names, arguments and purposes, so that what is learnt is to read the
signatures in the prompt.
"""
import random
from dataclasses import dataclass
from typing import Any

from chat import Conversation, Message, answer, call, result, user
from noise import framed, said
from skills import facts, smalltalk
from skills.tool_families import MAIN, OTHER, Argument, Family, Values, amount, name, nonsense
from words import HELD, Pool, number, upper_first, words

NONE_FITS = "I have no tool for that."
FRAMES = Pool(["Please help: {q}", "Hi! {q}", "{q} Thanks!", "Hello. {q}", "Could you help me? {q}", "{q} Thank you.", "Hey, {q}",
               "One thing: {q}", "I have a task for you. {q}", "Good day. {q}"], "tools.FRAMES")
ERRORS = Pool(words("not found|permission denied|time out|service unavailable|no connection|invalid value|try again later|"
                    "too many requests|unknown error|quota exceeded|out of range"), "tools.ERRORS")
VERBS = words("get find show check fetch read list count measure make")
INVENTED_ABOUT = Pool(["{v} the {w} of a {o}", "{v} the {w} of some {o}", "Can {v} the {w} of any {o}", "{v} what {w} a {o} has",
                       "For a {o}: {v} its {w}", "Used to {v} the {w} of a {o}", "Will {v} the {w} of the given {o}"], "tools.INVENTED_ABOUT")
INVENTED_ASKS = Pool(["{v} the {w} of {x}.", "What is the {w} of {x}?", "I need the {w} of {x}.", "Please {v} the {w} of {x}.",
                      "Tell me the {w} of {x}.", "Can you {v} the {w} of {x}?", "{x}: what is its {w}?", "Which {w} has {x}?",
                      "Give me the {w} of {x}.", "How about the {w} of {x}?", "{v} the {w} for {x}, please.",
                      "I wonder what {w} {x} has.", "Let me know the {w} of {x}."], "tools.INVENTED_ASKS")


@dataclass
class Tool:
    """One signature of a prompt, a request for it, and what it would answer."""
    family: Family | None
    signature: dict[str, Any]
    name: str
    request: str
    arguments: Values
    reply: tuple[str, Any]
    answer: str


def _name(rng: random.Random, part: str, known: Pool[str]) -> str:
    chance = rng.random()
    if chance < 0.4:
        return known.pick(rng, part)
    first, second = nonsense(rng, part), nonsense(rng, part)
    if chance < 0.6:
        return f"{rng.choice(VERBS)}_{first}"
    if chance < 0.75:
        return first
    return rng.choice([f"{first}_{second}", first + second.capitalize(), f"{first}.{second}", f"{first}-{second}"])


def _schema(rng: random.Random, part: str, arguments: list[tuple[str, Argument]], all_optional: bool) -> dict[str, Any]:
    described = rng.random() < 0.6
    properties = {}
    for label, argument in arguments:
        properties[label] = {"type": argument.kind}
        if described or label not in argument.names.part(part):
            properties[label]["description"] = argument.about.pick(rng, part)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if not all_optional:
        schema["required"] = list(properties)
    return schema


def _labels(rng: random.Random, part: str, family: Family) -> list[str]:
    while True:
        labels = [argument.names.pick(rng, part) if rng.random() < 0.65 else nonsense(rng, part) for argument in family.arguments]
        if len(set(labels)) == len(labels):
            return labels


def tool_of(rng: random.Random, part: str, family: Family) -> Tool:
    labels = _labels(rng, part, family)
    pairs = list(zip(labels, family.arguments))
    title = _name(rng, part, family.names)
    signature = {"name": title, "description": family.about.pick(rng, part), "parameters": _schema(rng, part, pairs, rng.random() < 0.2)}
    return _asked(rng, part, family, signature)


def _asked(rng: random.Random, part: str, family: Family, signature: dict[str, Any]) -> Tool:
    """A request for a signature of the family."""
    values, returned = family.values(rng, part), family.result(rng, part)
    labels = signature["parameters"]["properties"]
    return Tool(family, signature, signature["name"], said(family.requests, rng, part).format(**values),
                {label: values[argument.key] for label, argument in zip(labels, family.arguments)}, (family.result_key, returned),
                family.answer.format(r=returned, **values))


def again(rng: random.Random, part: str, tool: Tool) -> Tool:
    """Another request for the same tool, where its values can be drawn anew."""
    return _asked(rng, part, tool.family, tool.signature) if tool.family else tool


def invented_tool(rng: random.Random, part: str) -> Tool:
    """A purpose made of words that mean nothing."""
    thing, quality, verb = nonsense(rng, part), nonsense(rng, part), rng.choice(VERBS)
    numeric = rng.random() < 0.3
    value: Any = number(rng, part, 2, 9999) if numeric else rng.choice([nonsense(rng, part), nonsense(rng, part).capitalize(), name(rng, part)])
    slots = {"v": verb, "w": quality, "o": thing, "x": f"{thing} {value}" if numeric or rng.random() < 0.5 else f"the {thing} {value}"}
    label = rng.choice([thing, nonsense(rng, part), *([] if part == HELD else ["id", "name", "value", "x"])])
    title = rng.choice([f"{verb}_{quality}", f"{thing}_{quality}", f"{quality}_of_{thing}", nonsense(rng, part)])
    schema = {"type": "object", "properties": {label: {"type": "integer" if numeric else "string"}}}
    if rng.random() < 0.7:
        schema["required"] = [label]
    if rng.random() < 0.5:
        schema["properties"][label]["description"] = f"The {thing}"
    returned = amount(rng, part) if rng.random() < 0.5 else nonsense(rng, part)
    signature = {"name": title, "description": upper_first(INVENTED_ABOUT.pick(rng, part).format(**slots)), "parameters": schema}
    return Tool(None, signature, title, upper_first(said(INVENTED_ASKS, rng, part).format(**slots)), {label: value}, (quality, returned),
                f"The {quality} of {thing} {value} is {returned}.")


def choose(rng: random.Random, part: str, count: int) -> list[Tool]:
    """Tools of different kinds; half of them of the six main kinds."""
    families: list[Family] = rng.sample(MAIN, min(count, len(MAIN))) + rng.sample(OTHER, count)
    picked = rng.sample(families, count)
    while True:
        tools = [invented_tool(rng, part) if rng.random() < 0.3 else tool_of(rng, part, family) for family in picked]
        if len({tool.name for tool in tools}) == len(tools):
            return tools


def wrap(tools: list[Tool]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": tool.signature} for tool in tools]


def request(rng: random.Random, part: str, tool: Tool) -> Message:
    return user(framed(rng, part, FRAMES, 0.2, tool.request))


def exchange(rng: random.Random, part: str, tool: Tool) -> list[Message]:
    """Request, call, result and answer."""
    messages = [request(rng, part, tool), call(tool.name, tool.arguments)]
    if rng.random() < 0.12:
        error = ERRORS.pick(rng, part)
        return messages + [result({"error": error}), answer(f"That did not work: {error}.")]
    return messages + [result({tool.reply[0]: tool.reply[1]}), answer(tool.answer)]


def make_call(rng: random.Random, part: str) -> Conversation:
    """One request, one call."""
    tools = choose(rng, part, rng.choices((1, 2, 3, 4), (0.15, 0.35, 0.3, 0.2))[0])
    tool = rng.choice(tools)
    return Conversation([request(rng, part, tool), call(tool.name, tool.arguments)], wrap(tools), skill="tool call")


def make_result(rng: random.Random, part: str) -> Conversation:
    """Up to the answer that uses the result. In training several requests share one list of tools, as it is long."""
    tools = choose(rng, part, rng.choice((1, 2, 2, 3)))
    messages: list[Message] = []
    for _ in range(1 if part == HELD else rng.choice((1, 2, 3))):
        if messages and rng.random() < 0.15:
            messages += smalltalk.turn(rng, part)
        tool = rng.choice(tools)
        messages += exchange(rng, part, again(rng, part, tool) if messages else tool)
    return Conversation(messages, wrap(tools), skill="tool result")


def make_none(rng: random.Random, part: str) -> Conversation:
    """Tools are there, but the request is not for one of them."""
    tools = choose(rng, part, rng.choice((2, 3, 4)))
    chance = rng.random()
    if chance < 0.35:
        messages = facts.turn(rng, part)
    elif chance < 0.6:
        messages = smalltalk.turn(rng, part)
    else:
        asked = tools.pop()
        messages = [request(rng, part, asked), answer(NONE_FITS)]
    return Conversation(messages, wrap(tools), skill="no tool")
