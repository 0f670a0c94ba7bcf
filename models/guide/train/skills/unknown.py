"""Questions that the model cannot answer: the world, the moment, and names that Cairn does not have."""
import random

from chat import Conversation, Message, answer, user
from noise import said
from words import CITIES, NAMES, Pool, nonsense, words

WORLD = "I don't know. I am a small demonstration model and only know about Cairn."
NOW = "I don't know. I cannot look that up without a tool."
NAME = "I don't know {x}. Cairn has nothing of that name that I know of."

TOPICS = Pool(words("""the French Revolution|black holes|photosynthesis|the Roman Empire|quantum physics|the human heart|volcanoes|
    the stock market|opera|tennis|dinosaurs|vitamins|the moon landing|jazz|the Second World War|bees|glaciers|Shakespeare|
    gravity|the Olympic Games|tax law|chess openings|the Great Wall|penicillin|the solar system|impressionism|football|
    the periodic table|whales|the stone age|bread baking|coral reefs|democracy|philosophy|electric cars|the speed of light|
    ancient Egypt|the Vikings|inflation|diabetes|knitting|wine|the Eiffel Tower|Napoleon|earthquakes|malaria|rainforests|
    poker|calculus|Beethoven|the internet bubble|tea|gardening|the Titanic|butterflies|insurance|rugby|the Mona Lisa|
    the ozone layer|marathon running|the Silk Road|blood pressure|the Black Death|cricket|origami|the Sahara|
    thermodynamics|the printing press|ballet|coffee roasting"""), "unknown.TOPICS")
WORLD_FORMS = Pool(["Tell me about {t}.", "What do you know about {t}?", "Explain {t}.", "What is {t}?", "Can you explain {t}?",
                    "How does {t} work?", "Who invented {t}?", "When did {t} begin?", "Why is {t} important?", "{t}?",
                    "Give me some facts about {t}.", "I want to learn about {t}.", "Write an essay about {t}.",
                    "Where does {t} come from?", "What is the history of {t}?", "Summarise {t} for me.",
                    "What can you tell me about {t}?", "Teach me something about {t}.", "I wonder about {t}."], "unknown.WORLD_FORMS")
PEOPLE_FORMS = Pool(["Who is {n} {w}?", "Who was {n} {w}?", "Tell me about {n} {w}.", "When was {n} {w} born?", "What did {n} {w} do?",
                     "Do you know {n} {w}?", "Where does {n} {w} live?", "Which books did {n} {w} write?",
                     "Is {n} {w} famous?", "What is {n} {w} known for?"], "unknown.PEOPLE_FORMS")
PLACE_FORMS = Pool(["What is the capital of {w}?", "Where is {w}?", "How many people live in {c}?", "Who is the mayor of {c}?",
                    "What is {c} famous for?", "How far is it from {c} to {d}?", "What language is spoken in {w}?",
                    "What is the best restaurant in {c}?", "How do I get to {c}?", "When was {c} founded?",
                    "Which river flows through {c}?", "What should I see in {c}?"], "unknown.PLACE_FORMS")
OTHER = Pool(["Who won the world cup?", "What is the meaning of life?", "How do I bake a cake?", "What is the tallest mountain?",
              "Who is the president?", "How many planets are there?", "What is the boiling point of water?",
              "How do I fix my car?", "Which film should I watch?", "What should I eat today?", "Why is the sky blue?",
              "How long is a marathon?", "How do I learn Spanish?", "What is the largest animal?", "Who wrote Hamlet?",
              "How do aeroplanes fly?", "What does a lawyer earn?", "How many bones has a human?", "Can fish sleep?",
              "What is the square root of 1764?", "Write a poem about love.", "Write a Python program.", "Fix my code.",
              "How do I cure a cold?", "What is the deepest lake?", "Who painted the sunflowers?"], "unknown.OTHER")
NOW_FORMS = Pool(["What is the weather in {c}?", "How is the weather today?", "Will it rain tomorrow?", "What time is it?",
                  "What day is it today?", "What is the date?", "What is in the news?", "Is it cold in {c}?",
                  "What does a flight to {c} cost?", "What is the price of gold?", "Who won yesterday?", "Is it sunny in {c}?",
                  "What time is it in {c}?", "What is on television tonight?", "Is the museum in {c} open now?",
                  "Do I need an umbrella in {c}?"], "unknown.NOW_FORMS")
NAME_FORMS = Pool(["What does {x} do?", "What is {x}?", "Explain {x}.", "What is {x} for?", "What does the {k} {x} do?",
                   "Tell me about {x}.", "How do I use {x}?", "What is the {k} {x} for?", "When do I need {x}?",
                   "Is there a {k} called {x}?", "Describe {x}.", "What is the purpose of {x}?", "Explain the {k} {x}."], "unknown.NAME_FORMS")


def _invented(rng: random.Random, part: str) -> tuple[str, str]:
    word, kind = nonsense(rng, part), rng.choice(["flag", "flag", "command", "endpoint", "request field", "folder"])
    other = rng.choice([nonsense(rng, part), *words("max mode size limit time cache name level path")])
    shapes = {"flag": rng.choice([f"--{word}", f"--{word}-{other}"]), "command": f"cairn {word}", "folder": f"src/{word}",
              "endpoint": rng.choice([f"/v1/{word}", f"/{word}"]), "request field": f"{word}_{other}"}
    return shapes[kind], kind


def turn(rng: random.Random, part: str) -> list[Message]:
    chance = rng.random()
    places = {"c": CITIES.pick(rng, part), "d": CITIES.pick(rng, part), "w": nonsense(rng, part).capitalize()}
    if chance < 0.25:
        name, kind = _invented(rng, part)
        return [user(said(NAME_FORMS, rng, part).format(x=name, k=kind)), answer(NAME.format(x=name))]
    if chance < 0.45:
        return [user(said(NOW_FORMS, rng, part).format(**places)), answer(NOW)]
    if chance < 0.7:
        topic = TOPICS.pick(rng, part) if rng.random() < 0.7 else nonsense(rng, part)
        text = said(WORLD_FORMS, rng, part).format(t=topic)
    elif chance < 0.8:
        text = said(PEOPLE_FORMS, rng, part).format(n=NAMES.pick(rng, part), w=nonsense(rng, part).capitalize())
    elif chance < 0.9:
        text = said(PLACE_FORMS, rng, part).format(**places)
    else:
        text = said(OTHER, rng, part)
    return [user(text), answer(WORLD)]


def make(rng: random.Random, part: str) -> Conversation:
    return Conversation(turn(rng, part), skill="unknown")
