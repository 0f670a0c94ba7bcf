"""Ollama's library for Python."""
import json

import ollama

from check import ANSWER, HELLO, MODEL, ODD, SUNNY, URL, WEATHER_SCHEMA, equal, run_tests, user

client = ollama.Client(host=URL)
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": WEATHER_SCHEMA}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}, "sunny": {"type": "boolean"}},
          "required": ["city", "degrees", "sunny"]}


def chat(messages=None, **more):
    return client.chat(model=MODEL, messages=messages or user("hi"), **more).message


def tool_loop(output):
    messages = user("[script weather]")
    first = chat(messages, tools=[TOOL])
    messages += [first, {"role": "tool", "content": output, "tool_name": "get_weather"}]
    equal(chat(messages, tools=[TOOL]).content, SUNNY)


run_tests({
    "list": lambda: equal(len(client.list().models), 1),
    "show": lambda: client.show(MODEL),
    "pull": lambda: equal(client.pull(MODEL).status, "success"),
    "chat": lambda: equal(chat().content, HELLO),
    "chat stream": lambda: equal("".join(part.message.content for part in client.chat(model=MODEL, messages=user("hi"), stream=True)), HELLO),
    "tools": lambda: tool_loop("20 degrees"),
    "format": lambda: equal(json.loads(chat(user("[script json]"), format=SCHEMA).content), ANSWER),
    "binary": lambda: tool_loop(ODD),
    "cut": lambda: equal(chat(user("[script cut]"), tools=[TOOL], options={"num_predict": 12}).tool_calls, None),
    "generate": lambda: equal(client.generate(model=MODEL, prompt="hi").response, HELLO),
    "embed": lambda: equal(len(client.embed(model=MODEL, input=["a", "", "b"]).embeddings), 3),
})
