#include "api/errors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "api/serialization/json_text.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

TEST(Errors, NothingLongReachesTheWire) {
  const Error error{Code::kInvalidArgument, std::string(1 << 20, 'm') + "\xc3\xa9", std::string(1 << 20, 'p')};
  const auto openai = openai_error(error);
  EXPECT_EQ(openai.at("error").at("message").get<std::string>().size(), kErrorMessageBytesMax);
  EXPECT_EQ(openai.at("error").at("param").get<std::string>().size(), kEchoBytesMax);
  for (const auto format : {ErrorFormat::kOpenAi, ErrorFormat::kAnthropic, ErrorFormat::kOllama}) {
    EXPECT_LT(dump(error_body(error, format)).size(), kErrorMessageBytesMax + 500);
    EXPECT_LT(error_body(500, error.message, format).size(), kErrorMessageBytesMax + 500);
  }
}

Error full_context(int64_t prompt, int64_t context) {
  Error error{Code::kContextLengthExceeded, "the prompt is too long", "prompt"};
  error.overflow = {prompt, context};
  return error;
}

// Clients sum up a conversation and go on only if they recognise the error: by the code, or by words.
TEST(Errors, AFullContextIsSaidInTheWordsThatClientsOfTheProtocolRecognise) {
  const Error error = full_context(3009, 2048);
  const auto matches = [](const std::string& text, const char* pattern) {
    return std::regex_search(text, std::regex(pattern, std::regex::icase));
  };
  const auto openai = error_body(error, ErrorFormat::kOpenAi).at("error");
  const auto message = openai.at("message").get<std::string>();
  EXPECT_EQ(
      message,
      "This model's maximum context length is 2048 tokens. However, your messages resulted in 3009 tokens. Please "
      "reduce the length of the messages.");
  // Qwen Code, opencode, Codex and Cline look at the code.
  EXPECT_EQ(openai.at("code"), "context_length_exceeded");
  EXPECT_EQ(openai.at("type"), "invalid_request_error");
  EXPECT_EQ(openai.at("n_prompt_tokens"), 3009);
  EXPECT_EQ(openai.at("n_ctx"), 2048);
  EXPECT_TRUE(matches(message, R"(maximum context length is \d+ tokens)"));    // pi, opencode, Cline
  EXPECT_TRUE(matches(message, R"(reduce the length of the messages)"));       // pi, Continue
  EXPECT_TRUE(matches(message, R"(this model's maximum context length is)"));  // LiteLLM

  const auto anthropic = error_body(error, ErrorFormat::kAnthropic).at("error");
  EXPECT_EQ(anthropic.at("type"), "invalid_request_error");
  EXPECT_EQ(anthropic.at("message"), "prompt is too long: 3009 tokens > 2048 maximum");
  EXPECT_TRUE(
      matches(anthropic.at("message"), R"(prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+))"));  // Claude Code

  EXPECT_EQ(anthropic.at("n_prompt_tokens"), 3009);
  EXPECT_EQ(anthropic.at("n_ctx"), 2048);

  const auto llama = error_body(error, ErrorFormat::kLlamaCpp).at("error");
  EXPECT_EQ(llama.at("type"), "exceed_context_size_error");
  EXPECT_EQ(llama.at("code"), "context_length_exceeded");
  EXPECT_EQ(llama.at("n_prompt_tokens"), 3009);
  EXPECT_EQ(llama.at("n_ctx"), 2048);
  EXPECT_TRUE(matches(llama.at("message"), "exceeds the available context size"));  // pi

  const auto ollama_body = error_body(error, ErrorFormat::kOllama);
  EXPECT_EQ(ollama_body.at("n_prompt_tokens"), 3009);
  EXPECT_EQ(ollama_body.at("n_ctx"), 2048);
  const std::string ollama = ollama_body.at("error");
  EXPECT_TRUE(matches(ollama, "prompt too long; exceeded (?:max )?context length"));  // pi
  EXPECT_TRUE(matches(ollama, R"(this model's maximum context length is)"));          // LiteLLM
}

TEST(Errors, AFullContextMayBeToldInWordsOfItsOwnWithTheCounts) {
  Error error{Code::kContextLengthExceeded, "input[2] is too long: send \"truncate\": true", "input[2]"};
  error.overflow = {.prompt_tokens = 600, .context_tokens = 512};
  for (const ErrorFormat format : {ErrorFormat::kOpenAi, ErrorFormat::kLlamaCpp}) {
    const auto body = error_body(error, format).at("error");
    EXPECT_EQ(body.at("message"), error.message);
    EXPECT_EQ(body.at("param"), "input[2]");
    EXPECT_EQ(body.at("n_prompt_tokens"), 600);
    EXPECT_EQ(body.at("n_ctx"), 512);
  }
  EXPECT_EQ(error_body(error, ErrorFormat::kOllama).at("error"), error.message);
  EXPECT_EQ(error_body(error, ErrorFormat::kAnthropic).at("error").at("message"), error.message);
}

TEST(Errors, APromptAsLongAsTheContextIsTooLongToo) {
  EXPECT_EQ(overflow_message({2048, 2048}, ErrorFormat::kAnthropic), "prompt is too long: 2048 tokens > 2047 maximum");
}

TEST(Errors, TheTypeIsLlamaCppsOnlyWhereTheContextIsFull) {
  const Error other{Code::kInvalidArgument, "no", "n"};
  EXPECT_EQ(error_body(other, ErrorFormat::kLlamaCpp), error_body(other, ErrorFormat::kOpenAi));
}

TEST(Errors, WithoutThreadsAnthropicsLibrariesAskAgain) {
  const Error error{Code::kUnsupported, "thread is not supported", "thread"};
  const auto details = error_body(error, ErrorFormat::kAnthropic).at("error").at("details");
  EXPECT_EQ(details.at("error_code"), "thread_unsupported_request");
  EXPECT_EQ(details.at("unsupported"), std::vector<std::string>{"thread"});
  EXPECT_FALSE(error_body({Code::kUnsupported, "no", "stop"}, ErrorFormat::kAnthropic).at("error").contains("details"));
}

TEST(Errors, ShortOnesAreWhole) {
  EXPECT_EQ(openai_error({Code::kNotFound, "no", "here"}).at("error").at("message"), "no");
  EXPECT_EQ(openai_error({Code::kNotFound, "no", "here"}).at("error").at("param"), "here");
  EXPECT_EQ(error_body({Code::kNotFound, "no", {}}, ErrorFormat::kOllama).at("error"), "no");
}

}  // namespace
}  // namespace cairn::api
