"""Tests of the Python package with the demonstration model and tiny files. CAIRN_LIBRARY is libcairn.so.0, and
CAIRN_TEST_DATA the folder that tests/data is unpacked into; ctest sets both."""

import asyncio
import contextlib
import io
import multiprocessing
import os
import pathlib
import pickle
import re
import threading
import time
import unittest

import numpy

import cairn
from cairn import _library

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "models/guide/guide.gguf"
DATA = pathlib.Path(os.environ.get("CAIRN_TEST_DATA", ROOT / "build/test-data"))
QUESTION = [{"role": "user", "content": "Can I use Cairn without a GPU?"}]
THREADS = 16


def uses_model_of_parent(model, pipe):
    try:
        model.generate("Once", max_tokens=1)
        pipe.send("no error")
    except cairn.CairnError as error:
        pipe.send(error.code)
    os._exit(0)


class BindingTest(unittest.TestCase):
    """What is written here again must be what the header says."""

    header = (ROOT / "include/cairn.h").read_text()

    def names(self, enum, prefix):
        body = re.search(r"typedef enum %s \{(.*?)\} %s;" % (enum, enum), self.header, re.S).group(1)
        found = re.findall(r"%s(\w+) = (-?\d+)" % prefix, body)
        self.assertTrue(found)
        return {name.lower(): int(value) for name, value in found}

    def test_codes_and_levels_are_those_of_the_header(self):
        self.assertEqual(self.names("cairn_code", "CAIRN_"), {name: i for i, name in enumerate(_library.CODES)})
        self.assertEqual(self.names("cairn_log_level", "CAIRN_LOG_"),
                         {name: i for i, name in enumerate(_library.LOG_LEVELS)})

    def test_events_are_those_of_the_header(self):
        self.assertEqual(self.names("cairn_event_type", "CAIRN_EVENT_"),
                         {name: i + 1 for i, name in enumerate(_library.EVENT_TYPES)})
        fields = re.search(r"typedef struct cairn_event \{(.*?)\} cairn_event;", self.header, re.S).group(1)
        self.assertEqual(re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", fields, flags=re.S)),
                         [name for name, _ in _library.CEvent._fields_])

    def test_every_function_of_the_header_is_declared(self):
        functions = set(re.findall(r"CAIRN_API [^;(]*?(cairn_\w+)\(", self.header))
        # The callback form is of no use here: a Python program loops over events.
        self.assertEqual(functions - {"cairn_stream_run"}, set(_library._FAILING) | set(_library._PLAIN))


class ModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = cairn.Model(GUIDE, threads=2)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_a_seed_gives_the_same_text_in_every_form(self):
        text = self.model.generate("The fox", max_tokens=20, seed=7)
        self.assertGreater(len(text), 10)
        self.assertEqual("".join(self.model.generate("The fox", max_tokens=20, seed=7, stream=True)), text)
        self.assertEqual(self.model.generate(self.model.tokenize("The fox", add_special=True), max_tokens=20, seed=7),
                         text)
        self.assertNotEqual(self.model.generate("The fox", max_tokens=20, seed=8), text)

    def test_a_list_is_answered_in_its_order(self):
        prompts = ["The fox", "A house", "One day"]
        texts = self.model.generate(prompts, max_tokens=12, seed=3)
        self.assertEqual(len(texts), 3)
        pieces = ["", "", ""]
        for index, piece in self.model.generate(prompts, max_tokens=12, seed=3, stream=True):
            pieces[index] += piece
        self.assertEqual(pieces, texts)

    def test_a_conversation_is_answered(self):
        answer = self.model.chat(QUESTION, seed=1, max_tokens=60)
        self.assertTrue(answer.text)
        self.assertIn(answer.finish_reason, ("stop", "length"))
        self.assertGreater(answer.response["usage"]["completion_tokens"], 0)
        with self.model.chat(QUESTION, seed=1, max_tokens=60, stream=True) as stream:
            events = list(stream)
            response = stream.response()
        self.assertEqual("".join(e.text for e in events if e.type == "text"), answer.text)
        self.assertEqual(events[-1].type, "finish")
        self.assertEqual(response["choices"][0]["message"]["content"], answer.text)
        self.assertEqual(self.model.detokenize([t for e in events for t in e.tokens]), answer.text)

    def test_an_answer_follows_a_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
                  "required": ["n", "ok"], "additionalProperties": False}
        value = self.model.chat(QUESTION, schema=schema, max_tokens=200, seed=5).json()
        self.assertEqual(set(value), {"n", "ok"})
        self.assertIsInstance(value["ok"], bool)

    def test_a_tool_is_called(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"],
            "additionalProperties": False}}}]
        choice = {"type": "function", "function": {"name": "weather"}}
        with self.model.chat(QUESTION, tools=tools, tool_choice=choice, seed=2, stream=True) as stream:
            events = list(stream)
            call = stream.response()["choices"][0]["message"]["tool_calls"][0]
        begin = next(e for e in events if e.type == "call_begin")
        self.assertEqual((begin.text, begin.id, begin.call), ("weather", call["id"], 0))
        self.assertEqual("".join(e.text for e in events if e.type == "call_arguments"), call["function"]["arguments"])
        self.assertRegex(call["function"]["arguments"], "Oslo|Rome")

    def test_many_threads_generate_at_once(self):
        expected = [self.model.generate("The fox", max_tokens=16, seed=i) for i in range(THREADS)]
        got = [None] * THREADS

        def work(i):
            got[i] = self.model.generate("The fox", max_tokens=16, seed=i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, expected)

    def test_the_gil_is_free_while_the_model_works(self):
        counted = 0
        done = threading.Event()

        def count():
            nonlocal counted
            while not done.is_set():
                counted += 1
                time.sleep(0.0005)

        thread = threading.Thread(target=count)
        thread.start()
        self.model.generate("The fox", max_tokens=60, ignore_eos=True)
        done.set()
        thread.join()
        self.assertGreater(counted, 5)

    def test_asyncio_tasks_share_the_model(self):
        async def one(seed):
            return "".join([piece async for piece in self.model.generate_async("The fox", max_tokens=12, seed=seed)])

        async def several():
            return await asyncio.gather(*(one(seed) for seed in range(8)))

        expected = [self.model.generate("The fox", max_tokens=12, seed=seed) for seed in range(8)]
        self.assertEqual(asyncio.run(several()), expected)

    def test_asyncio_gets_events_errors_and_the_whole_answer(self):
        async def run():
            stream = self.model.chat_async(QUESTION, seed=1, max_tokens=20)
            text = "".join([piece async for piece in stream.texts()])
            response = await stream.response()
            self.assertEqual(response["choices"][0]["message"]["content"], text)
            with self.assertRaises(cairn.CairnError) as raised:
                async for _ in self.model.chat_async(QUESTION, temperature="hot"):
                    pass
            self.assertEqual(raised.exception.param, "temperature")

        asyncio.run(run())

    def test_a_cancelled_task_ends_the_request(self):
        async def run():
            async def endless():
                async for _ in self.model.generate_async("The fox", max_tokens=-1, ignore_eos=True):
                    pass

            task = asyncio.create_task(endless())
            await asyncio.sleep(0.2)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(run())
        self.wait_until_idle()

    def wait_until_idle(self):
        for _ in range(100):
            if self.model.stats()["active_requests"] == 0:
                return
            time.sleep(0.05)
        self.fail("a request is still running")

    def test_a_stream_is_cancelled_from_another_thread(self):
        with self.model.submit_completion("The fox", max_tokens=-1, ignore_eos=True) as stream:
            next(stream)
            threading.Thread(target=stream.cancel).start()
            events = list(stream)
        self.assertEqual((events[-1].type, events[-1].text), ("finish", "cancelled"))
        self.wait_until_idle()

    def test_errors_name_the_field(self):
        with self.assertRaises(cairn.CairnError) as raised:
            self.model.chat([{"role": "user", "content": 5}])
        self.assertEqual(raised.exception.code, "invalid_argument")
        self.assertEqual(raised.exception.param, "messages[0].content")
        with self.assertRaisesRegex(cairn.CairnError, "nosuch"):
            cairn.Model("nosuch.gguf")
        with self.assertRaisesRegex(cairn.CairnError, "threads"):
            cairn.Model(GUIDE, thread=2)

    def test_fields_without_effect_are_told(self):
        self.assertIn("nosuch", " ".join(self.model.chat(QUESTION, max_tokens=1, nosuch=1).warnings))

    def test_pickling_and_forking_are_refused_in_words(self):
        with self.assertRaisesRegex(TypeError, "open it in the other"):
            pickle.dumps(self.model)
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe()
        child = context.Process(target=uses_model_of_parent, args=(self.model, there))
        child.start()
        self.assertTrue(here.poll(30), "the child says nothing")
        self.assertEqual(here.recv(), "unavailable")
        child.join(30)

    def test_a_closed_model_says_so_and_its_streams_go_on(self):
        model = cairn.Model(GUIDE, threads=1)
        stream = model.submit_completion("The fox", max_tokens=5, seed=7)
        model.close()
        with self.assertRaisesRegex(cairn.CairnError, "closed"):
            model.generate("x")
        self.assertEqual(stream.response()["choices"][0]["text"], self.model.generate("The fox", max_tokens=5, seed=7))
        stream.close()

    def test_tokens_are_the_text_again(self):
        for text in ("", "The fox runs.", "naïve 🦊"):
            self.assertEqual(self.model.detokenize(self.model.tokenize(text)), text)

    def test_logits_choose_what_greedy_writes(self):
        tokens = self.model.tokenize("The fox", add_special=True)
        logits = self.model.logits(tokens)
        self.assertEqual((logits.shape[0], logits.dtype), (len(tokens), numpy.float32))
        last = self.model.logits(tokens, last_only=True)
        numpy.testing.assert_array_equal(last[0], logits[-1])
        stream = self.model.submit_completion(tokens, max_tokens=1, temperature=0)
        self.assertEqual([t for e in stream for t in e.tokens], [int(logits[-1].argmax())])

    def test_the_template_and_the_plan_are_shown(self):
        self.assertIn("without a GPU", self.model.apply_template(QUESTION))
        self.assertGreater(len(cairn.plan(GUIDE, ctx=512)), 0)
        self.assertEqual(self.model.info["name"], "guide")

    def test_the_log_is_silent_until_it_is_asked_for(self):
        lines = []
        cairn.set_log(lambda level, line: lines.append((level, line)))
        cairn.Model(GUIDE, threads=1).close()
        cairn.set_log(None)
        self.assertTrue(lines)
        count = len(lines)
        cairn.Model(GUIDE, threads=1).close()
        self.assertEqual(len(lines), count)


class EncoderTest(unittest.TestCase):
    def test_texts_become_vectors(self):
        with cairn.Model(DATA / "models/bert.gguf") as model:
            vectors = model.embed(["a", "b", "a"])
            self.assertEqual((vectors.shape[0], vectors.dtype), (3, numpy.float32))
            numpy.testing.assert_array_equal(vectors[0], vectors[2])
            numpy.testing.assert_array_equal(model.embed("b"), vectors[1])
            self.assertAlmostEqual(float(numpy.linalg.norm(vectors[0])), 1, places=5)


class ExamplesTest(unittest.TestCase):
    def test_the_examples_of_the_page_run(self):
        page = (ROOT / "docs/python.md").read_text()
        names = {}
        examples = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
        self.assertGreater(len(examples), 5)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for example in examples:
                exec(example.replace("model.gguf", str(GUIDE)), names)  # pylint: disable=exec-used
        names["model"].close()
        self.assertIn("call_begin weather", printed.getvalue())


if __name__ == "__main__":
    unittest.main(verbosity=2)
