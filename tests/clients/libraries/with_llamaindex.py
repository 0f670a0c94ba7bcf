"""LlamaIndex for Python."""
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai_like import OpenAILike

from check import HELLO, MODEL, ODD, SUNNY, URL, equal, run_tests

MODELS = {
    "openai": OpenAILike(model=MODEL, api_base=URL + "/v1", api_key="any", is_chat_model=True, is_function_calling_model=True, max_retries=0),
    "ollama": Ollama(model=MODEL, base_url=URL),
}


def tool_loop(model, output):
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return output

    tool = FunctionTool.from_defaults(get_weather)
    equal(str(model.predict_and_call([tool], "[script weather]", allow_parallel_tool_calls=False)).strip("\0"), output.strip("\0"))
    history = [ChatMessage(role="user", content="[script weather]")]
    answer = model.chat_with_tools([tool], chat_history=history)
    calls = model.get_tool_calls_from_response(answer)
    history += [answer.message, ChatMessage(role="tool", content=output, additional_kwargs={"tool_call_id": calls[0].tool_id, "name": "get_weather"})]
    equal(model.chat_with_tools([tool], chat_history=history).message.content, SUNNY)


def tests_of(name, model):
    user = [ChatMessage(role="user", content="hi")]
    return {
        f"{name}: chat": lambda: equal(model.chat(user).message.content, HELLO),
        f"{name}: stream": lambda: equal("".join(part.delta or "" for part in model.stream_chat(user)), HELLO),
        f"{name}: tools": lambda: tool_loop(model, "20 degrees"),
        f"{name}: binary": lambda: tool_loop(model, ODD),
    }


run_tests({test: body for name, model in MODELS.items() for test, body in tests_of(name, model).items()})
