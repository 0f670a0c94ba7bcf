"""OpenAI's agents library for Python over both of its protocols."""
import agents
import openai
import pydantic

from check import ANSWER, HELLO, MODEL, ODD, SUNNY, URL, equal, run_tests

agents.set_tracing_disabled(True)
agents.set_default_openai_client(openai.AsyncOpenAI(base_url=URL + "/v1", api_key="any", max_retries=0), use_for_tracing=False)


class Answer(pydantic.BaseModel):
    city: str
    degrees: int
    sunny: bool


def weather(output):
    @agents.function_tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return output
    return get_weather


def ask(api, text, **more):
    agents.set_default_openai_api(api)
    return agents.Runner.run_sync(agents.Agent(name="A", instructions="Be kind", model=MODEL, **more), text).final_output


def tests_of(api):
    return {
        f"{api}: hello": lambda: equal(ask(api, "hi"), HELLO),
        f"{api}: tools": lambda: equal(ask(api, "[script weather]", tools=[weather("20")]), SUNNY),
        f"{api}: output": lambda: equal(ask(api, "[script json]", output_type=Answer).model_dump(), ANSWER),
        f"{api}: binary": lambda: equal(ask(api, "[script weather]", tools=[weather(ODD)]), SUNNY),
    }


run_tests({**tests_of("responses"), **tests_of("chat_completions")})
