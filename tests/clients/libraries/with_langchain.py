"""LangChain for Python with four providers, and its agent."""
import pydantic
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from check import ANSWER, HELLO, MODEL, ODD, SUNNY, URL, equal, run_tests

OPENAI = {"model": MODEL, "base_url": URL + "/v1", "api_key": "any", "max_retries": 0}
MODELS = {
    "openai": ChatOpenAI(**OPENAI),
    "responses": ChatOpenAI(**OPENAI, use_responses_api=True),
    "anthropic": ChatAnthropic(model=MODEL, base_url=URL, api_key="any", max_retries=0),
    "ollama": ChatOllama(model=MODEL, base_url=URL),
}


class Answer(pydantic.BaseModel):
    """What the weather is."""
    city: str
    degrees: int
    sunny: bool


def weather(output):
    @tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return output
    return get_weather


def text(message):
    return message.text() if callable(message.text) else message.text


def agent(model, output):
    state = create_agent(model, [weather(output)]).invoke({"messages": [{"role": "user", "content": "[script weather]"}]})
    equal(str(text(state["messages"][-1])), SUNNY)


def tests_of(name, model):
    return {
        f"{name}: invoke": lambda: equal(str(text(model.invoke("hi"))), HELLO),
        f"{name}: stream": lambda: equal("".join(str(text(part)) for part in model.stream("hi")), HELLO),
        f"{name}: agent": lambda: agent(model, "20 degrees"),
        f"{name}: structured": lambda: equal(model.with_structured_output(Answer).invoke("[script json]").model_dump(), ANSWER),
        f"{name}: binary": lambda: agent(model, ODD),
    }


run_tests({
    **{test: body for name, model in MODELS.items() for test, body in tests_of(name, model).items()},
    "embeddings": lambda: equal(len(OpenAIEmbeddings(**OPENAI, check_embedding_ctx_length=False).embed_documents(["a", "b"])), 2),
})
