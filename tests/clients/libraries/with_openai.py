"""OpenAI's library for Python."""
import openai
import pydantic

from check import ANSWER, DOT, HELLO, MODEL, ODD, SUNNY, URL, WEATHER_SCHEMA, equal, is_json, run_tests, user

client = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": WEATHER_SCHEMA}}
FLAT = {"type": "function", "name": "get_weather", "description": "The weather", "parameters": WEATHER_SCHEMA}


class Answer(pydantic.BaseModel):
    city: str
    degrees: int
    sunny: bool


def chat(text="hi", **more):
    return client.chat.completions.create(model=MODEL, messages=more.pop("messages", user(text)), **more).choices[0]


def chat_stream():
    text = ""
    for piece in client.chat.completions.create(model=MODEL, messages=user("hi"), stream=True, stream_options={"include_usage": True}):
        text += (piece.choices[0].delta.content or "") if piece.choices else ""
    equal(text, HELLO)


def tool_loop(output):
    messages = user("[script weather]")
    message = chat(messages=messages, tools=[TOOL]).message
    messages += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": output}]
    equal(chat(messages=messages, tools=[TOOL]).message.content, SUNNY)


def responses_loop(output):
    items = user("[script weather]")
    first = client.responses.create(model=MODEL, input=items, tools=[FLAT])
    call = next(item for item in first.output if item.type == "function_call")
    items += first.output + [{"type": "function_call_output", "call_id": call.call_id, "output": output}]
    equal(client.responses.create(model=MODEL, input=items, tools=[FLAT]).output_text, SUNNY)


def cut():
    choice = chat("[script cut]", tools=[TOOL], max_tokens=12)
    for call in choice.message.tool_calls or []:
        assert not is_json(call.function.arguments), f"the cut call has become a whole one: {call.function.arguments}"


run_tests({
    "models": lambda: equal([model.id for model in client.models.list()], [MODEL]),
    "chat": lambda: equal(chat().message.content, HELLO),
    "chat stream": chat_stream,
    "chat tools": lambda: tool_loop("20 degrees"),
    "chat parse": lambda: equal(client.chat.completions.parse(model=MODEL, messages=user("[script json]"), response_format=Answer).choices[0].message.parsed.model_dump(), ANSWER),
    "chat binary": lambda: tool_loop(ODD),
    "chat cut": cut,
    "responses": lambda: equal(client.responses.create(model=MODEL, input="hi").output_text, HELLO),
    "responses tools": lambda: responses_loop("20 degrees"),
    "responses parse": lambda: equal(client.responses.parse(model=MODEL, input="[script json]", text_format=Answer).output_parsed.model_dump(), ANSWER),
    "responses binary": lambda: responses_loop(ODD),
    "responses image": lambda: responses_loop([{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64," + DOT}]),
    "embeddings": lambda: equal(len(client.embeddings.create(model=MODEL, input=["a", "b"]).data), 2),
})
