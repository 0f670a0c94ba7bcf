"""Conversations as text: the model's own template, rendered by Jinja2 as a server renders it."""
import json
import pathlib
from dataclasses import dataclass, field
from typing import Any

import jinja2

TEMPLATE = pathlib.Path(__file__).resolve().parent.parent / "template.jinja"
Message = dict[str, Any]


@dataclass
class Conversation:
    """What one request holds, with the answers that are to be learnt."""
    messages: list[Message]
    tools: list[dict[str, Any]] = field(default_factory=list)
    thinks: bool = True
    skill: str = ""


def tojson(value: Any) -> str:
    """As chat templates mean it: no HTML escapes, letters as they are."""
    return json.dumps(value, ensure_ascii=False)


_environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False)
_environment.filters["tojson"] = tojson
_template = _environment.from_string(TEMPLATE.read_text())


def render(conversation: Conversation, prompt: bool = False) -> str:
    """The whole text, or with `prompt` the text after which the next answer begins."""
    variables: dict[str, Any] = {} if conversation.thinks else {"enable_thinking": False}
    return _template.render(messages=conversation.messages, tools=conversation.tools or None,
                            add_generation_prompt=prompt, **variables)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def answer(text: str, thought: str = "") -> Message:
    message: Message = {"role": "assistant", "content": text}
    if thought:
        message["reasoning_content"] = thought
    return message


def call(name: str, arguments: dict[str, Any]) -> Message:
    return {"role": "assistant", "content": "",
            "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}


def result(value: Any) -> Message:
    return {"role": "tool", "content": value if isinstance(value, str) else tojson(value)}
