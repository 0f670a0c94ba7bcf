"""JSON by a given schema, filled from a text or made up."""
import random
from typing import Any

from chat import Conversation, answer, tojson, user
from noise import said
from words import CITIES, NAMES, THINGS, Pool, nonsense, number, words

KEYS = {
    "string": Pool(words("name title city color author street country animal brand product material owner label team email_name job "
                         "hobby model nickname subject planet shape dish vendor artist surname"), "json_schema.KEYS.string"),
    "integer": Pool(words("age count year price size width height weight number total pages rooms seats stock points level floor "
                          "miles votes speed minutes members wheels score"), "json_schema.KEYS.integer"),
    "boolean": Pool(words("active open paid ready valid married new public enabled finished member urgent visible used heated broken"), "json_schema.KEYS.boolean"),
    "array": Pool(words("tags colors items friends parts toppings words cities guests tools animals things languages children gifts"), "json_schema.KEYS.array"),
    "enum": Pool(words("status kind mode category grade type state season direction phase priority quality"), "json_schema.KEYS.enum"),
}
ASKS = Pool(["Return JSON for this schema: {s}\nData: {d}", "Write JSON that follows this schema: {s}\n{d}", "{d}\nAs JSON with the schema {s}",
             "Answer in JSON only. Schema: {s}\n{d}", "Extract JSON: {d}\nSchema: {s}", "{d} Give me that as JSON. Schema: {s}",
             "Fill this JSON schema: {s}\nText: {d}", "Schema: {s}\n{d}\nAnswer with JSON.", "Turn this into JSON. {d}\nUse this schema: {s}",
             "JSON please, by the schema {s}\n{d}", "Here is a schema: {s} Here is the text: {d} Answer as JSON."], "json_schema.ASKS")
INVENTS = Pool(["Make up JSON for this schema: {s}", "Give an example of this schema: {s}", "Write any JSON that follows this schema: {s}",
                "{s}\nWrite a JSON object for this schema.", "An example in JSON, please. Schema: {s}", "Invent data for this schema: {s}",
                "Answer in JSON. Schema: {s}", "Write a JSON object that is valid for {s}"], "json_schema.INVENTS")
SAYS = Pool(["The {k} is {v}.", "{k}: {v}.", "{k} = {v}.", "Its {k} is {v}.", "{k} is {v}.", "As {k} we have {v}.", "For {k} take {v}.",
             "Set {k} to {v}."], "json_schema.SAYS")
SYSTEMS = Pool(["Answer in JSON only.", "You write JSON.", "Reply with JSON that follows the schema, nothing else.", "Output JSON.",
                "You are a JSON writer."], "json_schema.SYSTEMS")


def text_value(rng: random.Random, part: str) -> str:
    return rng.choice([nonsense(rng, part), nonsense(rng, part).capitalize(), NAMES.pick(rng, part), CITIES.pick(rng, part), THINGS.pick(rng, part)])


def _property(rng: random.Random, part: str, kind: str) -> tuple[dict[str, Any], Any]:
    """A property's schema and a value for it."""
    if kind == "string":
        return {"type": "string"}, text_value(rng, part)
    if kind == "integer":
        return {"type": "integer"}, number(rng, part, 1, 999)
    if kind == "boolean":
        return {"type": "boolean"}, rng.random() < 0.5
    if kind == "enum":
        choices = list(dict.fromkeys(nonsense(rng, part) for _ in range(rng.choice((2, 3)))))
        return {"type": "string", "enum": choices}, rng.choice(choices)
    values = [text_value(rng, part) for _ in range(rng.choice((1, 2, 2, 3)))]
    return {"type": "array", "items": {"type": "string"}}, values


def schema(rng: random.Random, part: str, depth: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """An object schema and an object that follows it."""
    properties, values = {}, {}
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4)) if depth == 0 else rng.choice((1, 2))):
        kind = rng.choices(["string", "integer", "boolean", "array", "enum", "object"], [8, 6, 3, 3, 3, 2 if depth == 0 else 0])[0]
        pool = KEYS.get(kind, KEYS["string"])
        key = pool.pick(rng, part) if rng.random() < 0.6 else nonsense(rng, part)
        if key in properties:
            continue
        properties[key], values[key] = schema(rng, part, 1) if kind == "object" else _property(rng, part, kind)
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if rng.random() < 0.8:
        made["required"] = list(properties)
    return made, values


def _say(rng: random.Random, part: str, values: dict[str, Any]) -> list[str]:
    said: list[str] = []
    for key, value in values.items():
        if isinstance(value, dict):
            said += _say(rng, part, value)
            continue
        shown = " and ".join(value) if isinstance(value, list) else ("yes" if value else "no") if isinstance(value, bool) else str(value)
        said.append(SAYS.pick(rng, part).format(k=key, v=shown))
    return said


def make(rng: random.Random, part: str) -> Conversation:
    made, values = schema(rng, part)
    if rng.random() < 0.7:
        lines = _say(rng, part, values)
        if rng.random() < 0.3:
            rng.shuffle(lines)
        text = said(ASKS, rng, part).format(s=tojson(made), d=" ".join(lines))
    else:
        # Made-up values follow the schema in a way that can be foreseen: nothing is gained by learning dice.
        values = _example(made)
        text = said(INVENTS, rng, part).format(s=tojson(made))
    messages = [user(text), answer(tojson(values))]
    if rng.random() < 0.25:
        messages.insert(0, {"role": "system", "content": SYSTEMS.pick(rng, part)})
    return Conversation(messages, skill="json")


def _example(made: dict[str, Any]) -> Any:
    if made["type"] == "object":
        return {key: _example(one) for key, one in made["properties"].items()}
    if made["type"] == "array":
        return ["one", "two"]
    return made["enum"][0] if "enum" in made else {"string": "example", "integer": 1, "boolean": True}[made["type"]]
