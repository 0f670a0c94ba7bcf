"""Instructor in its modes over chat and over Anthropic's messages."""
import anthropic
import instructor
import openai
import pydantic

from check import ANSWER, MODEL, URL, equal, run_tests, user

chat = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
messages = anthropic.Anthropic(base_url=URL, api_key="any", max_retries=0)


class Answer(pydantic.BaseModel):
    city: str
    degrees: int
    sunny: bool


def over_chat(mode):
    client = instructor.from_openai(chat, mode=mode)
    answer = client.chat.completions.create(model=MODEL, messages=user("[script json]"), response_model=Answer, max_retries=0)
    equal(answer.model_dump(), ANSWER)


def over_messages(mode):
    client = instructor.from_anthropic(messages, mode=mode)
    answer = client.chat.completions.create(model=MODEL, max_tokens=200, messages=user("[script json]"), response_model=Answer, max_retries=0)
    equal(answer.model_dump(), ANSWER)


run_tests({
    "chat: tools": lambda: over_chat(instructor.Mode.TOOLS),
    "chat: json": lambda: over_chat(instructor.Mode.JSON),
    "chat: json schema": lambda: over_chat(instructor.Mode.JSON_SCHEMA),
    "chat: markdown json": lambda: over_chat(instructor.Mode.MD_JSON),
    "anthropic: tools": lambda: over_messages(instructor.Mode.ANTHROPIC_TOOLS),
    "anthropic: json": lambda: over_messages(instructor.Mode.ANTHROPIC_JSON),
})
