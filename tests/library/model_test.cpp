// Models of libcairn: opening, refusing, silence, tokens, vectors and logits.
#include <algorithm>
#include <cmath>
#include <mutex>

#include "library/library.h"

namespace cairn::library {
namespace {

using nlohmann::json;

std::string fixture(const std::string& name) { return test_data("/models/" + name + ".gguf"); }

void expect_refused(const std::string& file, const char* options, cairn_code code, const std::string& message) {
  Failure error;
  EXPECT_EQ(cairn_model_open(file.c_str(), options, error), nullptr);
  EXPECT_EQ(error.code(), code) << error.message();
  EXPECT_NE(error.message().find(message), std::string::npos) << error.message();
}

TEST(Models, OptionsThatAreWrongAreNamed) {
  const std::string guide = guide_file();
  expect_refused(guide, R"({"cxt": 512})", CAIRN_INVALID_ARGUMENT, "there is no option cxt; did you mean ctx?");
  expect_refused(guide, R"({"ctx": "many"})", CAIRN_INVALID_ARGUMENT, "ctx takes a whole number");
  expect_refused(guide, R"({"ctx": {"a": 1}})", CAIRN_INVALID_ARGUMENT, "ctx");
  expect_refused(guide, R"({"ctx": [[1]]})", CAIRN_INVALID_ARGUMENT, "must be a list of texts");
  expect_refused(guide, R"({"lora": []})", CAIRN_INVALID_ARGUMENT, "is an empty list");
  expect_refused(guide, R"({"kv-type": "q9"})", CAIRN_INVALID_ARGUMENT, "kv-type takes f32, f16, bf16 or q8_0, not q9");
  expect_refused(guide, R"({"speculate": 99, "threads": -1})", CAIRN_INVALID_ARGUMENT, "speculate takes 0 to 16");
  expect_refused(guide, "{", CAIRN_INVALID_ARGUMENT, "options: ");
  expect_refused(guide, "[1]", CAIRN_INVALID_ARGUMENT, "options: ");
  expect_refused("/no/such.gguf", nullptr, CAIRN_NOT_FOUND, "no such file: /no/such.gguf");
  expect_refused(source_file("/README.md"), nullptr, CAIRN_CORRUPT_FILE, "GGUF");
}

TEST(Models, ArgumentsThatAreNullAreErrors) {
  Failure error;
  EXPECT_EQ(cairn_model_open(nullptr, nullptr, error), nullptr);
  EXPECT_EQ(error.code(), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(error.message(), "model is NULL");
  EXPECT_EQ(error.param(), "model");
  EXPECT_EQ(error.json()["error"]["code"], "invalid_value");
  // Nobody has to take the error.
  EXPECT_EQ(cairn_chat(nullptr, "{}", nullptr), nullptr);
  EXPECT_EQ(cairn_model_info(nullptr, nullptr, nullptr), nullptr);
  EXPECT_EQ(cairn_tokenize(nullptr, "a", 1, 0, nullptr, nullptr), nullptr);
  EXPECT_EQ(cairn_embed(nullptr, "{}", nullptr, nullptr, nullptr), nullptr);
  EXPECT_EQ(cairn_stream_next(nullptr, 0, nullptr, nullptr), CAIRN_NEXT_FAILED);
  EXPECT_EQ(cairn_stream_run(nullptr, nullptr, nullptr, nullptr), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_stream_response(nullptr, nullptr, nullptr), nullptr);
  cairn_stream_cancel(nullptr);
  cairn_stream_close(nullptr);
  cairn_model_close(nullptr);
  cairn_error_free(nullptr);
  cairn_free(nullptr);
  EXPECT_EQ(cairn_error_code(nullptr), CAIRN_OK);
  EXPECT_STREQ(cairn_error_message(nullptr), "");
  EXPECT_EQ(cairn_error_param(nullptr), nullptr);
  const auto model = open(guide_file());
  Failure of_request;
  EXPECT_EQ(cairn_chat(model.get(), nullptr, of_request), nullptr);
  EXPECT_EQ(of_request.message(), "request is NULL");
  size_t rows = 0;
  Failure of_tokens;
  EXPECT_EQ(cairn_logits(model.get(), nullptr, 3, 0, &rows, &rows, of_tokens), nullptr);
  EXPECT_EQ(of_tokens.message(), "tokens is NULL");
}

TEST(Models, ErrorsOfRequestsAreTheServersOwn) {
  const auto model = open(guide_file());
  Failure error;
  EXPECT_EQ(cairn_chat(model.get(), R"({"messages":[{"role":"user","content":3}]})", error), nullptr);
  EXPECT_EQ(error.code(), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(error.param(), "messages[0].content");
  EXPECT_EQ(error.json()["error"]["message"], error.message());
  EXPECT_EQ(error.json()["error"]["param"], error.param());
  Failure too_long;
  const json request = {{"prompt", std::vector<int>(2'000, 5)}};
  EXPECT_EQ(cairn_complete(model.get(), request.dump().c_str(), too_long), nullptr);
  EXPECT_EQ(too_long.code(), CAIRN_CONTEXT_LENGTH_EXCEEDED);
  EXPECT_EQ(too_long.json()["error"]["n_prompt_tokens"], 2'000);
  Failure no_json;
  EXPECT_EQ(cairn_complete(model.get(), "{\"prompt\": ", no_json), nullptr);
  EXPECT_EQ(no_json.code(), CAIRN_INVALID_ARGUMENT);
  Failure no_texts;
  size_t rows = 0, dimensions = 0;
  EXPECT_EQ(cairn_embed(model.get(), R"({"input": 1.5})", &rows, &dimensions, no_texts), nullptr);
  EXPECT_EQ(no_texts.code(), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(no_texts.param(), "input");
}

struct Lines {
  std::mutex mutex;
  std::vector<std::string> texts;
};

TEST(Models, AreSilentUntilSomebodyListens) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const json request = conversation("Hi", {{"no_such_field", true}});
  read(chat(open(guide_file()).get(), request).get());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  Lines lines;
  testing::internal::CaptureStderr();
  cairn_set_log(
      CAIRN_LOG_INFO,
      [](cairn_log_level, const char* text, void* user) {
        auto& to = *static_cast<Lines*>(user);
        const std::lock_guard lock(to.mutex);
        to.texts.emplace_back(text);
      },
      &lines);
  open(guide_file());
  cairn_set_log(CAIRN_LOG_OFF, nullptr, nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  const size_t heard = lines.texts.size();
  EXPECT_GT(heard, 0U);
  open(guide_file());
  EXPECT_EQ(lines.texts.size(), heard);
}

TEST(Models, SayWhatTheyAre) {
  const auto model = open(guide_file(), {{"ctx", 512}, {"name", "somebody"}});
  Failure error;
  size_t size = 0;
  const auto text = ok(cairn_model_info(model.get(), &size, error), error);
  EXPECT_EQ(std::string(text.get()).size(), size);
  const json info = json::parse(text.get());
  EXPECT_EQ(info["name"], "somebody");
  EXPECT_EQ(info["context_tokens"], 512);
  EXPECT_EQ(info["generates"], true);
  EXPECT_EQ(info["ranks"], false);
  EXPECT_EQ(stats(model.get())["model"], "somebody");
  EXPECT_EQ(std::string(cairn_version()).find('.'), 1U);
}

TEST(Models, PlansGrowWithTheContext) {
  const auto bytes = [](const char* options) {
    Failure error;
    const auto text = ok(cairn_plan(guide_file().c_str(), options, nullptr, error), error);
    const json plan = json::parse(text.get());
    return plan["plans"][0]["kv_bytes"].get<int64_t>();
  };
  EXPECT_GT(bytes(R"({"ctx": 1024})"), bytes(R"({"ctx": 512})"));
  EXPECT_GT(bytes(R"({"ctx": 512, "kv-type": "f32"})"), bytes(R"({"ctx": 512, "kv-type": "q8_0"})"));
}

TEST(Models, TokensAndTextsAreTheSame) {
  const auto model = open(guide_file());
  const std::string text("Grüße,\0 <|im_end|> and 世界", 31);
  const auto tokens_of = [&](std::string_view of, int flags) {
    Failure error;
    size_t count = 0;
    const auto tokens = ok(cairn_tokenize(model.get(), of.data(), of.size(), flags, &count, error), error);
    return std::vector<int32_t>(tokens.get(), tokens.get() + count);
  };
  const auto plain = tokens_of(text, 0), special = tokens_of(text, CAIRN_PARSE_SPECIAL);
  EXPECT_LT(special.size(), plain.size());
  for (const auto& tokens : {plain, special}) {
    Failure error;
    size_t size = 0;
    const auto back = ok(cairn_detokenize(model.get(), tokens.data(), tokens.size(), &size, error), error);
    EXPECT_EQ(std::string(back.get(), size), text);
  }
  EXPECT_TRUE(tokens_of("", 0).empty());
  Failure error;
  size_t count = 0;
  EXPECT_EQ(cairn_tokenize(model.get(), "a", 1, 8, &count, error), nullptr);
  EXPECT_EQ(error.message(), "flags is 8, which has bits that mean nothing");
  const int32_t unknown[] = {1, 1'000'000};
  Failure out_of_range;
  EXPECT_EQ(cairn_detokenize(model.get(), unknown, 2, nullptr, out_of_range), nullptr);
  EXPECT_EQ(out_of_range.param(), "tokens[1]");
}

TEST(Models, TemplatesWriteConversations) {
  const auto model = open(guide_file());
  Failure error;
  const auto text = ok(cairn_apply_template(model.get(), conversation("Hi").dump().c_str(), nullptr, error), error);
  EXPECT_STREQ(text.get(), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Models, LogitsAreWhatTokensAreSampledFrom) {
  const auto model = open(guide_file(), {{"ctx", 1024}, {"kv-type", "f32"}});
  Failure error;
  size_t count = 0, rows = 0, vocabulary = 0;
  const std::string text = "Cairn is a program that";
  const auto tokens = ok(cairn_tokenize(model.get(), text.data(), text.size(), 0, &count, error), error);
  const auto all = ok(cairn_logits(model.get(), tokens.get(), count, 0, &rows, &vocabulary, error), error);
  EXPECT_EQ(rows, count);
  const std::vector<float> last_of_all(all.get() + (rows - 1) * vocabulary, all.get() + rows * vocabulary);
  const auto last = ok(cairn_logits(model.get(), tokens.get(), count, 1, &rows, &vocabulary, error), error);
  EXPECT_EQ(rows, 1U);
  EXPECT_EQ(std::vector<float>(last.get(), last.get() + vocabulary), last_of_all);
  const auto stream = complete(
      model.get(),
      {{"prompt", std::vector<int32_t>(tokens.get(), tokens.get() + count)}, {"temperature", 0}, {"max_tokens", 1}});
  const auto best = std::ranges::max_element(last_of_all) - last_of_all.begin();
  EXPECT_EQ(read(stream.get()).at(0).tokens.at(0), best);
  Failure empty;
  EXPECT_EQ(cairn_logits(model.get(), tokens.get(), 0, 0, &rows, &vocabulary, empty), nullptr);
  EXPECT_EQ(empty.code(), CAIRN_INVALID_ARGUMENT);
}

TEST(Models, EncodersGiveVectorsAndNoText) {
  const auto model = open(fixture("bert"), json::object());
  json texts = json::array();
  for (int i = 0; i < 100; ++i) texts.push_back("the dog number " + std::to_string(i));
  Failure error;
  size_t rows = 0, dimensions = 0;
  const auto vectors =
      ok(cairn_embed(model.get(), json{{"input", texts}}.dump().c_str(), &rows, &dimensions, error), error);
  ASSERT_EQ(rows, 100U);
  ASSERT_EQ(dimensions, 64U);
  for (size_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (size_t i = 0; i < dimensions; ++i) squares += std::pow(vectors.get()[row * dimensions + i], 2);
    EXPECT_NEAR(squares, 1, 1e-5) << row;
  }
  const json one = {{"input", texts[57]}};
  const auto alone = ok(cairn_embed(model.get(), one.dump().c_str(), &rows, &dimensions, error), error);
  EXPECT_TRUE(std::equal(alone.get(), alone.get() + 64, vectors.get() + 57 * 64));
  Failure no_text;
  EXPECT_EQ(cairn_complete(model.get(), R"({"prompt": "Once"})", no_text), nullptr);
  EXPECT_TRUE(no_text.is_set());
  const int32_t token = 5;
  Failure no_logits;
  EXPECT_EQ(cairn_logits(model.get(), &token, 1, 0, &rows, &dimensions, no_logits), nullptr);
  EXPECT_EQ(no_logits.code(), CAIRN_UNSUPPORTED);
}

}  // namespace
}  // namespace cairn::library
