/// What the tests of libcairn share: they know nothing of it but include/cairn.h.
#pragma once

#include <cairn.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/test_data.h"

namespace cairn::library {

struct Free {
  void operator()(cairn_model* model) const { cairn_model_close(model); }
  void operator()(cairn_stream* stream) const { cairn_stream_close(stream); }
  void operator()(cairn_error* error) const { cairn_error_free(error); }
  void operator()(void* memory) const { cairn_free(memory); }
};
template <class T>
using Handle = std::unique_ptr<T, Free>;

/// The error of a call that must fail: `Failure failure; cairn_chat(..., failure)`.
class Failure {
 public:
  ~Failure() { cairn_error_free(error_); }
  operator cairn_error**() { return &error_; }
  bool is_set() const { return error_ != nullptr; }
  cairn_code code() const { return cairn_error_code(error_); }
  std::string message() const { return cairn_error_message(error_); }
  std::string param() const { return cairn_error_param(error_) == nullptr ? "" : cairn_error_param(error_); }
  nlohmann::json json() const { return nlohmann::json::parse(cairn_error_json(error_)); }

 private:
  cairn_error* error_ = nullptr;
};

/// What the call has returned. It must not fail: `ok(cairn_chat(model, request, error), error)`.
template <class T>
Handle<T> ok(T* value, const Failure& error) {
  EXPECT_NE(value, nullptr) << error.message();
  EXPECT_FALSE(error.is_set()) << error.message();
  return Handle<T>(value);
}

inline std::string guide_file() { return source_file("/models/guide/guide.gguf"); }

inline Handle<cairn_model> open(const std::string& file, const nlohmann::json& options = {{"ctx", 1024}}) {
  Failure error;
  return ok(cairn_model_open(file.c_str(), options.dump().c_str(), error), error);
}

inline nlohmann::json conversation(const std::string& question, const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json request = {{"messages", {{{"role", "user"}, {"content", question}}}}, {"max_tokens", 40}};
  request.update(more);
  return request;
}

inline Handle<cairn_stream> chat(cairn_model* model, const nlohmann::json& request) {
  Failure error;
  return ok(cairn_chat(model, request.dump().c_str(), error), error);
}

inline Handle<cairn_stream> complete(cairn_model* model, const nlohmann::json& request) {
  Failure error;
  return ok(cairn_complete(model, request.dump().c_str(), error), error);
}

/// One choice, as its events tell of it.
struct Choice {
  std::string text, reasoning, finish;
  std::vector<std::pair<std::string, std::string>> calls;  ///< names and arguments
  std::vector<int32_t> tokens;
};

inline void add(const cairn_event& event, std::vector<Choice>& choices) {
  if (event.type == CAIRN_EVENT_END) return;
  if (choices.size() <= static_cast<size_t>(event.choice)) choices.resize(static_cast<size_t>(event.choice) + 1);
  Choice& choice = choices[static_cast<size_t>(event.choice)];
  choice.tokens.insert(choice.tokens.end(), event.tokens, event.tokens + event.token_count);
  const std::string text(event.text, event.text_size);
  if (event.type == CAIRN_EVENT_TEXT) choice.text += text;
  if (event.type == CAIRN_EVENT_REASONING) choice.reasoning += text;
  if (event.type == CAIRN_EVENT_CALL_BEGIN) choice.calls.emplace_back(text, "");
  if (event.type == CAIRN_EVENT_CALL_ARGUMENTS) choice.calls.at(static_cast<size_t>(event.call)).second += text;
  if (event.type == CAIRN_EVENT_FINISH) choice.finish = text;
}

/// Takes all events.
inline std::vector<Choice> read(cairn_stream* stream) {
  std::vector<Choice> choices;
  cairn_event event{};
  Failure error;
  do {
    EXPECT_EQ(cairn_stream_next(stream, -1, &event, error), CAIRN_NEXT_EVENT) << error.message();
    if (error.is_set()) return choices;
    add(event, choices);
  } while (event.type != CAIRN_EVENT_END);
  return choices;
}

inline nlohmann::json response(cairn_stream* stream) {
  Failure error;
  const auto text = ok(cairn_stream_response(stream, nullptr, error), error);
  return text == nullptr ? nlohmann::json() : nlohmann::json::parse(text.get());
}

inline nlohmann::json stats(cairn_model* model) {
  Failure error;
  const auto text = ok(cairn_model_stats(model, nullptr, error), error);
  return text == nullptr ? nlohmann::json() : nlohmann::json::parse(text.get());
}

}  // namespace cairn::library
