"""Short stories: a hero, a wish, an obstacle, a helper and an end, all kept apart by name."""
import random
import re

from chat import Conversation, Message, answer, user
from noise import said
from words import ANIMALS, HELD, NAMES, PLACES, THINGS, TRAIN, Pool, article, nonsense, words

ASKS = Pool(["Tell me a story.", "Tell me a short story.", "Write a story.", "I would like to hear a story.", "Story please.",
             "Can you tell me a story?", "Make up a story.", "Once more, a story please.", "Write me a little tale.",
             "Do you know a story?", "A bedtime story, please.", "Please tell a short story.", "Read me a story."], "stories.ASKS")
ASKS_ANIMAL = Pool(["Tell me a story about {a}.", "Write a short story about {a}.", "A story about {a}, please.",
                    "Can you tell a story about {a}?", "Make up a story with {a}.", "I want a story about {a}.",
                    "Do you know a story about {a}?", "Give me a tale about {a}.", "A tale of {a}, please."], "stories.ASKS_ANIMAL")
ASKS_NAME = Pool(["Tell me a story about {a} named {n}.", "Write a story about {a} called {n}.", "A story about {n} the {k}, please.",
                  "Can you tell a story about {n}, {a}?", "Make up a story about {n} the {k}.", "I want to hear about {a} called {n}.",
                  "Tell a short story. The hero is {n}, {a}.", "Please write about {a} whose name is {n}."], "stories.ASKS_NAME")
ASKS_THING = Pool(["Tell me a story about {a} and {t}.", "Write a story with {a} and {t} in it.", "A story about {a} that finds {t}, please.",
                   "Make up a story about {a} who looks for {t}.", "Can you tell a story with {a} and {t}?",
                   "I would love a tale of {a} and {t}."], "stories.ASKS_THING")
ADJECTIVES = words("small young old brave shy clever kind curious quiet happy")
FEELINGS = words("happy proud glad cheerful")

# {n} hero's name, {k} kind, {t} thing, {p} place, {m} helper's name, {h} helper's kind, {j} adjective, {f} feeling
BEGIN = ["Once upon a time there was {aj} {k} named {n}.", "In a quiet place lived {aj} {k} called {n}.", "There was once {aj} {k}. The name of the {k} was {n}."]
HOME = ["{n} lived near the {p}.", "Every day {n} went to the {p}.", "The home of {n} was beside the {p}."]
PLOTS: list[list[list[str]]] = [
    [["One day {n} lost {at}.", "One morning the {t} of {n} was gone."], ["{n} looked everywhere, but the {t} was not to be found.", "{n} searched all day and could not find the {t}."],
     ["Then {n} met {ah} named {m}.", "At last {ah} called {m} came by."], ["\"I saw your {t} in the {p},\" said {m}.", "{m} said, \"Your {t} is in the {p}. Come with me!\""],
     ["Together they found the {t}.", "They went there together, and there was the {t}."]],
    [["One day {n} found {at} in the {p}.", "In the {p} {n} saw {at}."], ["\"Whose {t} is this?\" asked {n}.", "{n} wondered who had lost the {t}."],
     ["Behind a tree {n} heard {ah} cry.", "Not far away sat {ah} and cried."], ["It was {m}, who had lost the {t}.", "The name of the {h} was {m}, and the {t} belonged to {m}."],
     ["{n} gave the {t} back to {m}.", "So {n} gave {m} the {t}."]],
    [["{n} wanted to have {at}.", "More than anything {n} wished for {at}."], ["But there was no {t} anywhere near.", "But nobody in the {p} had {at}."],
     ["One day {ah} named {m} came along.", "Then {n} met {m}, {ah} from far away."], ["{m} knew how to make {at}.", "\"I can show you how to make {at},\" said {m}."],
     ["They worked all day, and in the evening the {t} was ready.", "They worked together until the {t} was done."]],
    [["One night there was a great storm.", "One evening a storm came over the {p}."], ["{n} was afraid and hid behind {at}.", "{n} held {at} and shook with fear."],
     ["Then somebody knocked. It was {m}, {ah}.", "Then came {m}, {ah}, all wet."], ["\"May I stay with you?\" asked {m}.", "{m} was afraid too."],
     ["They sat close together until the storm was over.", "Together they waited, and the storm went away."]],
    [["One day {n} wanted to see the world.", "One morning {n} set out on a journey."], ["{n} took only {at} along.", "All that {n} carried was {at}."],
     ["On the way {n} met {m}, {ah}.", "In the {p} stood {ah} named {m}."], ["\"May I come with you?\" asked {m}.", "{m} asked to come along."],
     ["They walked far and saw many things.", "They went on together and the {t} helped them."]],
]
END = ["From that day on {n} and {m} were friends.", "{n} was very {f}, and {m} stayed for dinner.", "{n} and {m} laughed and went home {f}."]


def _name(rng: random.Random, part: str, names: list[str]) -> str:
    """In training now and then one that nobody has: names are to be carried on, not known."""
    return nonsense(rng, part).capitalize() if part == TRAIN and rng.random() < 0.4 else rng.choice(names)


def story(rng: random.Random, part: str, kind: str, name: str, thing: str) -> str:
    helper = rng.choice([one for one in ANIMALS.part(part) if one != kind])
    friend = _name(rng, part, [one for one in NAMES.part(part) if one != name])
    slots = {"n": name, "k": kind, "t": thing, "at": article(thing), "p": PLACES.pick(rng, part), "m": friend, "h": helper,
             "ah": article(helper), "aj": article(f"{rng.choice(ADJECTIVES)}"), "f": rng.choice(FEELINGS)}
    lines = [BEGIN, HOME, *rng.choice(PLOTS), END]
    return " ".join(rng.choice(line) for line in lines).format(**slots)


def turn(rng: random.Random, part: str) -> list[Message]:
    kind, name, thing = ANIMALS.pick(rng, part), _name(rng, part, NAMES.part(part)), THINGS.pick(rng, part)
    asks = rng.choice([ASKS, ASKS_ANIMAL, ASKS_NAME, ASKS_THING])
    text = said(asks, rng, part).format(a=article(kind), k=kind, n=name, t=article(thing))
    return [user(text), answer(story(rng, part, kind, name, thing))]


def make(rng: random.Random, part: str) -> Conversation:
    return Conversation(turn(rng, part), skill="stories")


def coherent(asked: str, text: str) -> bool:
    """One hero and one helper from beginning to end, who and what was asked for, whole sentences."""
    everyone = [name for part in (TRAIN, HELD) for name in NAMES.part(part)]
    present = [name for name in everyone if re.search(rf"\b{name}\b", text)]
    wanted = [word for kinds in (ANIMALS, THINGS) for part in (TRAIN, HELD) for word in kinds.part(part) if re.search(rf"\b{word}\b", asked)]
    wanted += [name for name in everyone if re.search(rf"\b{name}\b", asked)]
    hero = re.search(r"(?:named|called|was) (\w+)\.", text)
    return (len(present) == 2 and 6 <= len(re.findall(r"[.!?]\"?(?= |$)", text)) <= 14 and text.rstrip().endswith(".")
            and all(re.search(rf"\b{word}\b", text) for word in wanted)
            and hero is not None and hero[1] in present and text.count(hero[1]) >= 3)
