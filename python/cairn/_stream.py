"""The events of an answer while it is written, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import ctypes
import json
import threading
from dataclasses import dataclass
from typing import Any, AsyncIterator, Callable, Iterator, List, Optional, Union

from ._library import EVENT_TYPES, LIBRARY, NEXT_TIMEOUT, CairnError, CEvent, Handle, call, call_for_text

# How long a call waits at most, in milliseconds: between calls Python acts on Ctrl-C.
_WAIT_MS = 100
# Events that wait for an asyncio task. When it takes no more, the engine pauses the request.
_QUEUED_EVENTS_MAX = 256


@dataclass(frozen=True)
class Event:
    """A part of an answer."""

    type: str  #: "text", "reasoning", "call_begin", "call_arguments", "call_end" or "finish"
    choice: int  #: from 0 to n - 1
    text: str  #: of call_begin the name of the tool, of finish the reason: "stop", "length", "tool_calls", ...
    call: Optional[int] = None  #: number of the call within its choice
    id: Optional[str] = None  #: of call_begin: the id of the call
    tokens: tuple[int, ...] = ()  #: token ids that the model wrote since the previous event of the choice


class Stream:
    """The answer to a request that the engine works on: an iterator over its events. For one thread at a time, except
    cancel() and close(), which any thread may call. It cannot be pickled, or used in a child process after fork()."""

    def __init__(self, pointer: int):
        self._handle = Handle(pointer, LIBRARY.cairn_stream_close, "stream")
        self._ended = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._ended:
            event = self._next(_WAIT_MS)
            if event is not None:
                return event
        raise StopIteration

    def next(self, timeout: float) -> Optional[Event]:
        """The next event, or None if none comes within so many seconds, or none comes any more (`ended`)."""
        return None if self._ended else self._next(max(0, int(timeout * 1000)))

    def _next(self, timeout_ms: int) -> Optional[Event]:
        event = CEvent()
        with self._handle as pointer:
            if call("cairn_stream_next", pointer, timeout_ms, ctypes.byref(event)) == NEXT_TIMEOUT:
                return None
            kind = EVENT_TYPES[event.type - 1]
            if kind == "end":
                self._ended = True
                return None
            # The pointers in the event are valid until the next call, so they are read before the handle is let go.
            return Event(kind, event.choice, ctypes.string_at(event.text, event.text_size).decode(),
                         event.call if event.call >= 0 else None, event.id.decode() if event.id is not None else None,
                         tuple(event.tokens[:event.token_count]))

    @property
    def ended(self) -> bool:
        """Whether all events have come."""
        return self._ended

    def texts(self) -> Iterator[str]:
        """The text of the answer alone, piece by piece."""
        return (event.text for event in self if event.type == "text")

    def response(self) -> dict[str, Any]:
        """Waits for the end and returns the whole answer, as the server's body without streaming has it."""
        for _ in self:
            pass
        with self._handle as pointer:
            response: dict[str, Any] = json.loads(call_for_text("cairn_stream_response", pointer))
        return response

    @property
    def warnings(self) -> List[str]:
        """What of the request has no effect, and why."""
        with self._handle as pointer:
            warnings: List[str] = json.loads(call_for_text("cairn_stream_warnings", pointer))
        return warnings

    def cancel(self) -> None:
        """Ends the answer early. What has come is kept; a finish with "cancelled" follows."""
        try:
            with self._handle as pointer:
                LIBRARY.cairn_stream_cancel(pointer)
        except CairnError:
            pass  # closed already

    def close(self) -> None:
        """Cancels the request if it is still running, and frees it."""
        self.cancel()
        self._handle.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a stream cannot be pickled: it belongs to the process whose model writes the answer")


class AsyncStream:
    """A Stream for asyncio: `async for event in stream`. A thread of its own waits for the events."""

    def __init__(self, submit: Callable[[], Stream]):
        self._submit = submit
        self._stream: Optional[Stream] = None
        self._queue: Optional[asyncio.Queue[Union[Event, BaseException, None]]] = None
        self._room = threading.Semaphore(_QUEUED_EVENTS_MAX)
        self._lock = threading.Lock()
        self._closed = False
        self._ended = False

    def _start(self) -> "asyncio.Queue[Union[Event, BaseException, None]]":
        if self._queue is None:
            self._queue = asyncio.Queue()
            threading.Thread(target=self._pump, args=(asyncio.get_running_loop(), self._queue), daemon=True,
                             name="cairn-stream").start()
        return self._queue

    def _pump(self, loop: asyncio.AbstractEventLoop,
              queue: "asyncio.Queue[Union[Event, BaseException, None]]") -> None:
        def put(item: Union[Event, BaseException, None]) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop is closed: nobody waits any more
                self.close()

        try:
            stream = self._submit()
            with self._lock:
                self._stream = stream
                closed = self._closed
            if closed:
                stream.close()
                return
            for event in stream:
                while not self._room.acquire(timeout=_WAIT_MS / 1000):
                    if self._closed:
                        return
                put(event)
            put(None)
        except BaseException as error:  # pylint: disable=broad-except
            put(error)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._ended:
            raise StopAsyncIteration
        try:
            item = await self._start().get()
        except asyncio.CancelledError:
            self.close()
            raise
        if isinstance(item, Event):
            self._room.release()
            return item
        self._ended = True
        if item is None:
            raise StopAsyncIteration
        raise item

    async def texts(self) -> AsyncIterator[str]:
        """The text of the answer alone, piece by piece."""
        async for event in self:
            if event.type == "text":
                yield event.text

    async def response(self) -> dict[str, Any]:
        """Waits for the end and returns the whole answer, as the server's body without streaming has it."""
        async for _ in self:
            pass
        if self._stream is None:
            raise CairnError("the request has failed", "unavailable")
        return self._stream.response()

    def cancel(self) -> None:
        """Ends the answer early. What has come is kept; a finish with "cancelled" follows."""
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.cancel()

    def close(self) -> None:
        """Cancels the request if it is still running, and frees it."""
        with self._lock:
            self._closed = True
            stream = self._stream
        if stream is not None:
            stream.close()

    async def __aenter__(self) -> "AsyncStream":
        self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a stream cannot be pickled: it belongs to the process whose model writes the answer")
