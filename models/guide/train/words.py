"""Words and values, divided into what training may use and what only the held-out set uses."""
import hashlib
import json
import pathlib
import random
import re
from typing import Generic, Sequence, TypeVar

T = TypeVar("T")
TRAIN, HELD = "train", "held"
HELD_EVERY = 8  # one of so many entries of a pool is held out
# Further entries by the pool's name, for training only.
MORE: dict[str, list[str]] = json.loads((pathlib.Path(__file__).parent / "phrases.json").read_text())


class Pool(Generic[T]):
    """A list of phrasings, names or values; its last entries are for the held-out set only. `key` names its part of MORE."""

    def __init__(self, items: Sequence[T], key: str = "") -> None:
        more = MORE[key] if key else []
        if len({*map(str, items), *more}) != len(items) + len(more):
            raise ValueError(f"a pool holds an entry twice: {key} {items}")
        held = max(1, len(items) // HELD_EVERY)
        self._parts = {TRAIN: [*items[:-held], *more], HELD: list(items[-held:])}

    def pick(self, rng: random.Random, part: str) -> T:
        return rng.choice(self._parts[part])

    def sample(self, rng: random.Random, part: str, count: int) -> list[T]:
        items = self._parts[part]
        return rng.sample(items, min(count, len(items)))

    def part(self, part: str) -> list[T]:
        return list(self._parts[part])


def words(text: str) -> list[str]:
    """`|` where entries have spaces, else white space."""
    return [item.strip() for item in (text.split("|") if "|" in text else text.split()) if item.strip()]


def part_of(text: str) -> str:
    """The part that a made-up word or a value belongs to: a property of the text itself."""
    return HELD if hashlib.sha256(text.encode()).digest()[0] < 256 // HELD_EVERY else TRAIN


_ONSETS = words("b c d f g h j k l m n p r s t v w z br cr dr fl gl gr kl pl pr sh sk sl st str th tr ch qu zw")
_NUCLEI = words("a e i o u a e i o ai ea oo ou")
_CODAS = ["", "", "", *words("b d g k l m n p r s t x nd rt st lk mp sh")]


# Pieces of real words: glued together they use all of the vocabulary, so that each of its tokens is learnt as something
# to copy. Syllables alone use a tenth of it.
_STEMS = sorted({word for entries in MORE.values() for entry in entries for word in re.findall("[a-z]{5,}", entry)})
GLUED_SHARE = 0.35  # of training's made-up words


def _glued(rng: random.Random) -> str:
    first, second = rng.choice(_STEMS), rng.choice(_STEMS)
    return first[:rng.randrange(2, len(first))] + second[rng.randrange(1, len(second) - 1):]


def nonsense(rng: random.Random, part: str) -> str:
    if part == TRAIN and rng.random() < GLUED_SHARE:
        return _glued(rng)
    while True:
        word = "".join(rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS) for _ in range(rng.choice((1, 2, 2, 2, 3))))
        if len(word) > 4 and part_of(word) == part:
            return word


def number(rng: random.Random, part: str, low: int, high: int) -> int:
    while True:
        value = rng.randint(low, high)
        if high - low < 40 or part_of(str(value)) == part:
            return value


def decimal(rng: random.Random, part: str) -> float:
    while True:
        value = rng.randint(11, 9999) / rng.choice((10, 100))
        if value != int(value) and part_of(str(value)) == part:
            return value


NAMES = Pool(words("""Anna Ben Clara David Emma Felix Grace Henry Ida Jonas Kate Leo Mia Noah Olga Paul Rosa Sam Tina Victor
    Wendy Yusuf Zoe Alice Bruno Carmen Dora Erik Fatima Hugo Irene Jack Karim Laura Martin Nina Oscar Petra Rita Stefan
    Tom Vera Walter Amir Bella Carlos Diana Elena Frank Gina Hana Ivan Julia Kofi Lena Marco Nadia Otto Priya Ravi Sara
    Theo Uma Viola Wei Xenia Yara Zara Adam Boris Celia Dario Edith Fiona Gregor Holly Isaac Jasmin Milo Tilda Bertram
    Ottilie Ruben Saskia Tamsin Ulrich Winifred Yorick Zelda"""), "words.NAMES")
CITIES = Pool(words("""Paris|London|Berlin|Madrid|Rome|Vienna|Oslo|Lisbon|Dublin|Prague|Warsaw|Athens|Helsinki|Zurich|Geneva|
    Milan|Naples|Munich|Hamburg|Cologne|Lyon|Nice|Porto|Seville|Tokyo|Osaka|Kyoto|Seoul|Beijing|Shanghai|Delhi|Mumbai|Cairo|
    Nairobi|Lagos|Sydney|Perth|Boston|Chicago|Denver|Dallas|Seattle|New York|San Diego|Toronto|Montreal|Havana|Lima|Bogota|
    Santiago|Rio de Janeiro|Buenos Aires|Mexico City|Cape Town|Tel Aviv|Istanbul|Moscow|Kiev|Riga|Tallinn|Vilnius|Budapest|
    Sofia|Belgrade|Zagreb|Bergen|Ghent|Leipzig|Dakar|Hanoi|Quito|Utrecht|Turin"""), "words.CITIES")
ANIMALS = Pool(words("""cat dog fox rabbit bear mouse owl horse duck frog turtle hedgehog squirrel goat sheep wolf deer lion
    tiger elephant monkey penguin crow sparrow beaver otter badger mole donkey hen rooster camel swan snail whale dolphin
    seal dragon robot giraffe zebra lizard heron lynx ferret"""), "words.ANIMALS")
THINGS = Pool(words("""key lamp book bell ball drum hat boat kite map coin ring box mirror flute letter stone feather clock
    basket lantern cup ladder umbrella blanket apple pear cake pumpkin shell rope button spoon candle seed scarf violin
    acorn compass whistle teapot marble thimble"""), "words.THINGS")
PLACES = Pool(words("""forest|garden|village|old barn|river|beach|mountain|cave|meadow|castle|mill|market|harbour|library|
    island|valley|lighthouse|attic|pond|bridge|orchard|desert|tower|swamp|bakery|quarry"""), "words.PLACES")
TOPIC_WORDS = Pool(words("""dentist|team meeting|lunch|yoga class|book club|birthday party|piano lesson|doctor|haircut|
    project review|dinner|football training|job interview|school concert|car inspection|parents evening|choir|swimming|
    tax office|chess night|vet appointment|sales call|rehearsal|garden day|plumber visit|photo walk"""), "words.TOPIC_WORDS")

SYSTEMS = Pool(["You are a helpful assistant.", "Answer briefly.", "You are Cairn Guide.", "Be kind and short.",
                "You are an assistant in a terminal.", "Help the user.", "You are a friendly guide to Cairn.",
                "You are a careful assistant. Say so when you do not know something.", "Be concise.",
                "Answer the user's questions."])


def article(word: str) -> str:
    return ("an " if word[0].lower() in "aeiou" else "a ") + word


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]
