"""People write as they like: training's requests with small words left out, put in or misspelt.

What is held out is asked as it is written. Without this a model of this size learns the phrasings by heart.
"""
import random

from words import MORE, TRAIN, Pool, words

SHARE = 0.45  # of requests that are changed at all
# They may go, come or change without a request meaning something else.
SMALL = set(words("""a an the is are am do does did to of for in on at it its this that i me my you your can could would will
    shall should please just now some any there be was with by as and so then want need like have get tell give show what's"""))
FILLERS = words("""please just now actually maybe kindly quickly again today here simply really well ok hey so then also
    right exactly honestly basically perhaps finally first next""")


def _misspelt(rng: random.Random, word: str) -> str:
    at = rng.randrange(1, len(word) - 2)
    return rng.choice([word[:at] + word[at + 1] + word[at] + word[at + 2:], word[:at] + word[at + 1:], word[:at] + word[at] + word[at:]])


def _change(rng: random.Random, listed: list[str]) -> None:
    """One change of a form's words; those with a slot or a line end stay, and so do all but small words."""
    free = [i for i, word in enumerate(listed) if "{" not in word and "\n" not in word]
    small = [i for i in free if listed[i].strip(".,?!:").lower() in SMALL]
    long = [i for i in free if len(listed[i]) > 4 and listed[i].isalpha()]
    kind = rng.random()
    if kind < 0.25 and small and len(listed) > 3:
        del listed[rng.choice(small)]
    elif kind < 0.4 and small:
        listed[rng.choice(small)] = rng.choice(sorted(SMALL))
    elif kind < 0.65 and free:
        listed.insert(rng.choice(free), rng.choice(FILLERS))
    elif kind < 0.8 and long:
        at = rng.choice(long)
        listed[at] = _misspelt(rng, listed[at])
    elif kind < 0.9 and (pairs := [i for i in free if i + 1 in free]):
        at = rng.choice(pairs)
        listed[at], listed[at + 1] = listed[at + 1], listed[at]
    elif listed[-1][-1:] in ".?!" and len(listed[-1]) > 1:
        listed[-1] = listed[-1][:-1] + rng.choice(["", "", "!", "...", " "]).strip()


def vary(rng: random.Random, form: str) -> str:
    """A form with slots in braces, or a changed one with the same slots."""
    if rng.random() > SHARE:
        return form
    listed = form.split(" ")
    for _ in range(rng.choice((1, 1, 2))):
        _change(rng, listed)
    text = " ".join(word for word in listed if word)
    chance = rng.random()
    if chance < 0.1 and "{" not in text:
        return text.lower()
    return text[:1].lower() + text[1:] if chance < 0.25 else text


def said(pool: Pool[str], rng: random.Random, part: str) -> str:
    """One of a pool's forms, as somebody may write it."""
    form = pool.pick(rng, part)
    return vary(rng, form) if part == TRAIN else form


def framed(rng: random.Random, part: str, frames: Pool[str], share: float, text: str) -> str:
    """A question or a request, in a share of all cases with a greeting or the like around it.

    Training meets many more of them than there are frames, so that it learns to pass over what stands around a question.
    """
    if part != TRAIN:
        return frames.pick(rng, part).format(q=text) if rng.random() < share else text
    if rng.random() > 1.5 * share:
        return text
    if rng.random() < 0.3:
        return frames.pick(rng, part).format(q=text)
    chance = rng.random()
    before = rng.choice(MORE["facts.BEFORE"]) + " " if chance < 0.65 else ""
    after = " " + rng.choice(MORE["facts.AFTER"]) if chance > 0.45 else ""
    if before and before.rstrip()[-1] not in ".!?" and rng.random() < 0.5:
        text = text[:1].lower() + text[1:]
    return before + text + after
