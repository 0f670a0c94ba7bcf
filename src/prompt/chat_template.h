/// A model's chat template: messages -> the text that the model was trained to continue.
#pragma once

#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "prompt/jinja.h"

namespace cairn {

/// What a conversation gives to a template. `messages` and `tools` are JSON in OpenAI's shape, already validated.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;    ///< array or null
  bool add_generation_prompt = true;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< more for the template (chat_template_kwargs)
};

/// Immutable; thread-safe.
class ChatTemplate {
 public:
  /// `source` from tokenizer.chat_template; empty: ChatML, which `is_fallback` tells. bos and eos are the tokens' texts.
  static Result<ChatTemplate> create(std::string_view source, std::string bos, std::string eos);

  /// Errors: kInvalidArgument with the template's own words (raise_exception) or what failed in it.
  Result<std::string> render(const ChatInput& input, std::time_t now) const;

  bool is_fallback() const { return is_fallback_; }

 private:
  ChatTemplate(JinjaTemplate parsed, std::string bos, std::string eos, bool is_fallback);
  JinjaTemplate template_;
  std::string bos_;
  std::string eos_;
  bool is_fallback_ = false;
};

}  // namespace cairn
