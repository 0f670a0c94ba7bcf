"""A model: texts, conversations, vectors, tokens and logits."""

from __future__ import annotations

import ctypes
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, List, Literal, Mapping, Optional, Sequence, Union, overload

from ._library import ADD_SPECIAL, LIBRARY, PARSE_SPECIAL, Handle, call, call_for_matrix, call_for_text
from ._stream import AsyncStream, Stream

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

Prompt = Union[str, Sequence[int], Sequence[str]]
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """The answer to a conversation."""

    text: str  #: "" if the model only called tools
    reasoning: Optional[str]  #: what the model thought before it answered
    tool_calls: List[dict[str, Any]]  #: as OpenAI's API has them: "id", "function": {"name", "arguments"}
    finish_reason: str  #: "stop", "length" or "tool_calls"
    response: dict[str, Any] = field(repr=False)  #: the whole answer, with "usage" and "timings"; other choices too
    warnings: List[str] = field(default_factory=list, repr=False)  #: what of the request had no effect

    def json(self) -> Any:
        """The text read as JSON, for an answer with a schema."""
        return json.loads(self.text)


def _options(options: Mapping[str, Any]) -> bytes:
    return json.dumps({name.replace("_", "-"): value for name, value in options.items()}).encode()


def _request(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def _tokens(tokens: Sequence[int]) -> Any:
    return (ctypes.c_int32 * len(tokens))(*tokens)


def plan(path: Union[str, "os.PathLike[str]"], **options: Any) -> dict[str, Any]:
    """How much memory a model would take, without loading it; the options are those of Model."""
    memory: dict[str, Any] = json.loads(call_for_text("cairn_plan", os.fsencode(path), _options(options)))
    return memory


class Model:
    """A model that is loaded, with its engine. Any number of threads and tasks may use it at once: their requests share
    one batch. It cannot be pickled, or used in a child process after fork(): open it there.

    `path` is a GGUF file, or a name that `cairn list` shows. The options are the settings of `cairn serve --help-all`
    with underscores: Model("model.gguf", ctx=8192, threads=4, kv_type="q8_0")."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], **options: Any):
        pointer = call("cairn_model_open", os.fsencode(path), _options(options))
        self._handle = Handle(pointer, LIBRARY.cairn_model_close, "model")

    def close(self) -> None:
        """Frees the model once no call and no stream uses it any more."""
        self._handle.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_handle"):  # not set if the model could not be opened
            self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a model cannot be pickled: it belongs to this process; open it in the other one")

    # ---- what it is and does ----

    @property
    def info(self) -> dict[str, Any]:
        """Its name, architecture, parameters, context, vocabulary, and what it can do."""
        with self._handle as pointer:
            info: dict[str, Any] = json.loads(call_for_text("cairn_model_info", pointer))
        return info

    def stats(self) -> dict[str, Any]:
        """What its engine is doing and has done so far, as GET /stats of the server has it."""
        with self._handle as pointer:
            stats: dict[str, Any] = json.loads(call_for_text("cairn_model_stats", pointer))
        return stats

    # ---- tokens ----

    def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> List[int]:
        """The token ids of a text. add_special: with the tokens that a text begins and ends with; parse_special: texts
        such as "<|im_start|>" are special tokens."""
        data = text.encode()
        flags = ADD_SPECIAL * add_special + PARSE_SPECIAL * parse_special
        count = ctypes.c_size_t()
        with self._handle as pointer:
            memory = call("cairn_tokenize", pointer, data, len(data), flags, ctypes.byref(count))
        try:
            return list((ctypes.c_int32 * count.value).from_address(memory))
        finally:
            LIBRARY.cairn_free(memory)

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of token ids, special tokens included."""
        with self._handle as pointer:
            return call_for_text("cairn_detokenize", pointer, _tokens(tokens), len(tokens))

    def apply_template(self, messages: Sequence[Message], **fields: Any) -> str:
        """The text that the model would continue for the conversation."""
        with self._handle as pointer:
            return call_for_text("cairn_apply_template", pointer, _request({"messages": messages, **fields}))

    # ---- texts ----

    def submit_completion(self, prompt: Prompt, **fields: Any) -> Stream:
        """Begins to continue a prompt, or several at once. The fields are those of POST /v1/completions."""
        with self._handle as pointer:
            return Stream(call("cairn_complete", pointer, _request({"prompt": prompt, **fields})))

    @overload
    def generate(self, prompt: str, *, stream: Literal[False] = False, **fields: Any) -> str: ...
    @overload
    def generate(self, prompt: str, *, stream: Literal[True], **fields: Any) -> Iterator[str]: ...
    @overload
    def generate(self, prompt: Sequence[int], *, stream: Literal[False] = False, **fields: Any) -> str: ...
    @overload
    def generate(self, prompt: Sequence[int], *, stream: Literal[True], **fields: Any) -> Iterator[str]: ...
    @overload
    def generate(self, prompt: Sequence[str], *, stream: Literal[False] = False, **fields: Any) -> List[str]: ...
    @overload
    def generate(self, prompt: Sequence[str], *, stream: Literal[True], **fields: Any) -> Iterator[tuple[int, str]]: ...
    def generate(self, prompt: Prompt, *, stream: bool = False, **fields: Any) -> Any:
        """Continues a text, or token ids: returns what the model wrote. For a list of texts, which are continued at
        once, and with n, it returns a list. With stream=True it returns an iterator: over pieces of text, or for a list
        over pairs of a number in that list and a piece."""
        several = not isinstance(prompt, str) and len(prompt) > 0 and not isinstance(prompt[0], int)
        several = several or fields.get("n", 1) not in (1, None)
        if stream:
            return _pieces(self.submit_completion(prompt, **fields), several)
        with self.submit_completion(prompt, **fields) as answer:
            choices = sorted(answer.response()["choices"], key=lambda choice: choice["index"])
        texts = [choice["text"] for choice in choices]
        return texts if several else texts[0]

    async def generate_async(self, prompt: Prompt, **fields: Any) -> AsyncIterator[str]:
        """Continues a text, for asyncio: `async for piece in model.generate_async("Once")`."""
        async with AsyncStream(lambda: self.submit_completion(prompt, **fields)) as stream:
            async for piece in stream.texts():
                yield piece

    # ---- conversations ----

    def submit_chat(self, messages: Sequence[Message], *, schema: Optional[Mapping[str, Any]] = None,
                    **fields: Any) -> Stream:
        """Begins to answer a conversation. The fields are those of POST /v1/chat/completions; `schema` is a JSON Schema
        that the answer follows."""
        if schema is not None:
            form = {"name": "answer", "schema": schema, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": form}
        with self._handle as pointer:
            return Stream(call("cairn_chat", pointer, _request({"messages": messages, **fields})))

    @overload
    def chat(self, messages: Sequence[Message], *, stream: Literal[False] = False, **fields: Any) -> Answer: ...
    @overload
    def chat(self, messages: Sequence[Message], *, stream: Literal[True], **fields: Any) -> Stream: ...
    def chat(self, messages: Sequence[Message], *, stream: bool = False, **fields: Any) -> Union[Answer, Stream]:
        """Answers a conversation: returns an Answer, or with stream=True a Stream of Events. See submit_chat."""
        if stream:
            return self.submit_chat(messages, **fields)
        with self.submit_chat(messages, **fields) as answer:
            return _answer(answer.response(), answer.warnings)

    def chat_async(self, messages: Sequence[Message], **fields: Any) -> AsyncStream:
        """Answers a conversation, for asyncio: `async for event in model.chat_async(messages)`, or
        `await model.chat_async(messages).response()`."""
        return AsyncStream(lambda: self.submit_chat(messages, **fields))

    # ---- vectors, relevance and logits ----

    def embed(self, texts: Union[str, Sequence[str]], **fields: Any) -> "NDArray[numpy.float32]":
        """The vectors of texts: a NumPy array of float32 [texts, dimensions], or [dimensions] for one text. The fields
        are those of POST /v1/embeddings."""
        with self._handle as pointer:
            vectors = call_for_matrix("cairn_embed", pointer, _request({"input": texts, **fields}))
        return vectors.reshape(-1) if isinstance(texts, str) else vectors

    def rerank(self, query: str, documents: Sequence[str], **fields: Any) -> List[dict[str, Any]]:
        """How well documents go with a query, best first: [{"index": 2, "relevance_score": 0.97}, ...]."""
        request = _request({"query": query, "documents": documents, **fields})
        with self._handle as pointer:
            results: List[dict[str, Any]] = json.loads(call_for_text("cairn_rerank", pointer, request))["results"]
        return results

    def logits(self, tokens: Sequence[int], *, last_only: bool = False) -> "NDArray[numpy.float32]":
        """The logits after each token, or after the last one alone: a NumPy array of float32 [rows, vocabulary]."""
        with self._handle as pointer:
            return call_for_matrix("cairn_logits", pointer, _tokens(tokens), len(tokens), int(last_only))


def _pieces(stream: Stream, several: bool) -> Iterator[Any]:
    with stream:
        for event in stream:
            if event.type == "text":
                yield (event.choice, event.text) if several else event.text


def _answer(response: dict[str, Any], warnings: List[str]) -> Answer:
    choice = response["choices"][0]
    message = choice["message"]
    return Answer(message.get("content") or "", message.get("reasoning_content"), message.get("tool_calls") or [],
                  choice["finish_reason"], response, warnings)
