"""What the programs for libraries share: each test prints a line of JSON, {test, problems}."""
import json
import os

URL = os.environ["CAIRN_URL"]
MODEL = "scripted"
HELLO = "Hello from the scripted model, all is well."
SUNNY = "It is sunny in Oslo."
ANSWER = {"city": "Oslo", "degrees": 20, "sunny": True}
ODD = "a\0b \x1b[31m"
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
WEATHER_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def user(text):
    return [{"role": "user", "content": text}]


def equal(got, wanted):
    assert got == wanted, f"{got!r} is not {wanted!r}"


def is_json(text):
    try:
        json.loads(text)
        return True
    except ValueError:
        return False


def run_tests(tests):
    for test, body in tests.items():
        problems = []
        try:
            body()
        except Exception as error:  # every kind of error of every library is a finding
            problems = [f"{type(error).__name__}: {error}"[:600]]
        print(json.dumps({"test": test, "problems": problems}), flush=True)
