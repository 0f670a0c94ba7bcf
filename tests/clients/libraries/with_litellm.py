"""LiteLLM with five of its providers."""
import os

import litellm

from check import HELLO, MODEL, ODD, SUNNY, URL, WEATHER_SCHEMA, equal, run_tests, user

os.environ["OLLAMA_API_BASE"] = URL  # where it asks whether a model has tools
litellm.telemetry = False
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": WEATHER_SCHEMA}}
PROVIDERS = {
    "openai": {"model": f"openai/{MODEL}", "api_base": URL + "/v1"},
    "hosted_vllm": {"model": f"hosted_vllm/{MODEL}", "api_base": URL + "/v1"},
    "anthropic": {"model": f"anthropic/{MODEL}", "api_base": URL},
    "ollama_chat": {"model": f"ollama_chat/{MODEL}", "api_base": URL},
    "ollama": {"model": f"ollama/{MODEL}", "api_base": URL},
}


def ask(provider, messages, **more):
    return litellm.completion(**PROVIDERS[provider], messages=messages, api_key="any", num_retries=0, **more)


def stream(provider):
    parts = ask(provider, user("hi"), stream=True)
    equal("".join(part.choices[0].delta.content or "" for part in parts), HELLO)


def tool_loop(provider, output):
    messages = user("[script weather]")
    message = ask(provider, messages, tools=[TOOL]).choices[0].message
    call = message.tool_calls[0]
    messages += [message.model_dump(), {"role": "tool", "tool_call_id": call.id, "name": "get_weather", "content": output}]
    equal(ask(provider, messages, tools=[TOOL]).choices[0].message.content, SUNNY)


def full():
    try:
        ask("openai", user("word " * 300000))
    except litellm.ContextWindowExceededError:
        return
    raise AssertionError("no error")


def tests_of(provider):
    tests = {
        f"{provider}: chat": lambda: equal(ask(provider, user("hi")).choices[0].message.content, HELLO),
        f"{provider}: stream": lambda: stream(provider),
    }
    if provider != "ollama":  # which speaks /api/generate: no tools
        tests[f"{provider}: tools"] = lambda: tool_loop(provider, "20 degrees")
        tests[f"{provider}: binary"] = lambda: tool_loop(provider, ODD)
    return tests


run_tests({**{test: body for provider in PROVIDERS for test, body in tests_of(provider).items()}, "openai: full": full})
