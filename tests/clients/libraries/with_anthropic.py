"""Anthropic's library for Python."""
import anthropic
import pydantic

from check import ANSWER, DOT, HELLO, MODEL, ODD, SUNNY, URL, WEATHER_SCHEMA, equal, is_json, run_tests, user

client = anthropic.Anthropic(base_url=URL, api_key="any", max_retries=0)
TOOL = {"name": "get_weather", "description": "The weather", "input_schema": WEATHER_SCHEMA}


class Answer(pydantic.BaseModel):
    city: str
    degrees: int
    sunny: bool


def create(**more):
    return client.messages.create(**{"model": MODEL, "max_tokens": 200, "messages": user("hi"), **more})


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


def stream():
    with client.messages.stream(model=MODEL, max_tokens=200, messages=user("hi")) as events:
        equal(events.get_final_text(), HELLO)


def tool_loop(output):
    first = create(messages=user("[script weather]"), tools=[TOOL])
    call = next(block for block in first.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": output}
    messages = user("[script weather]") + [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    equal(text(create(messages=messages, tools=[TOOL])), SUNNY)


def runner():
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return "20 degrees in " + city

    last = client.beta.messages.tool_runner(model=MODEL, max_tokens=200, messages=user("[script weather]"), tools=[get_weather]).until_done()
    equal(text(last), SUNNY)


def cut():
    arguments = ""
    for event in create(messages=user("[script cut]"), tools=[TOOL], max_tokens=12, stream=True):
        if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            arguments += event.delta.partial_json
    assert not is_json(arguments), f"the cut call has become a whole one: {arguments}"


run_tests({
    "models": lambda: equal([model.id for model in client.models.list()], [MODEL]),
    "create": lambda: equal(text(create()), HELLO),
    "stream": stream,
    "count": lambda: client.messages.count_tokens(model=MODEL, messages=user("hi")),
    "tools": lambda: tool_loop("20 degrees"),
    "tool runner": runner,
    "parse": lambda: equal(client.messages.parse(model=MODEL, max_tokens=200, messages=user("[script json]"), output_format=Answer).parsed_output.model_dump(), ANSWER),
    "binary": lambda: tool_loop(ODD),
    "image": lambda: tool_loop([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DOT}}]),
    "cut": cut,
})
