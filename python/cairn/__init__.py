"""Language models in GGUF files, run inside this process by Cairn's engine.

    from cairn import Model

    with Model("qwen3-4b.gguf", ctx=8192) as model:
        print(model.generate("Once upon a time", max_tokens=50, seed=1))
        print(model.chat([{"role": "user", "content": "Why is the sky blue?"}]).text)

One model answers many requests at once, from any threads, in one batch, as `cairn serve` does; fields of requests have
the names, defaults and limits that they have there (docs/api/openai.md), and the same request gives the same bytes.
docs/python.md in the repository has more examples.
"""

from ._library import CairnError, set_log, version
from ._model import Answer, Model, plan
from ._stream import AsyncStream, Event, Stream

__all__ = ["Answer", "AsyncStream", "CairnError", "Event", "Model", "Stream", "plan", "set_log", "version"]
__version__ = version()
