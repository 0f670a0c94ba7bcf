/// A model's chat template: turns messages into the text that the model was trained to continue.
///
/// Templates differ in what they accept, and none takes OpenAI's message shape as it is. What a template supports is
/// found out once (template_probe.h). render() then makes the conversation fit (history.h) and each message have the
/// form that the template takes:
///   - text parts of a content list are joined with line ends, if the template takes only strings;
///   - a string becomes one text part, if the template takes only lists;
///   - what looks like one of the format's own tags in a call's arguments or a tool's result is escaped, for DSML.
/// Nothing is left out silently.
#pragma once

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "chat/chat_input.h"
#include "chat/tool_calls/format.h"
#include "jinja/jinja.h"

namespace cairn::chat {

/// The template without what converters and editors leave at its ends: a byte-order mark, NUL characters.
std::string_view trimmed_template(std::string_view source);

/// Immutable; thread-safe.
class ChatTemplate {
 public:
  /// `source` is tokenizer.chat_template; if empty, ChatML is used and is_fallback() is true. bos and eos are the texts
  /// of those tokens.
  static Result<ChatTemplate> create(std::string_view source, std::string bos, std::string eos);

  /// Own text, which may spell control tokens, is what the template writes, the texts of bos and eos, and a message's
  /// role if it is a known one; all other strings of the input are foreign. Errors: kInvalidArgument or kTooLarge with
  /// the template's line, its own words (raise_exception) or what failed in it, and what it was given; content parts
  /// that the template does not support, `at` is their place in the messages.
  Result<jinja::Rendering> render(const ChatInput& input, std::time_t now) const;

  const ChatCapabilities& capabilities() const { return capabilities_; }
  /// False: a conversation of a user's message was rendered, and the message is not in it.
  bool shows_messages() const { return shows_messages_; }
  bool is_fallback() const { return is_fallback_; }

 private:
  ChatTemplate(jinja::JinjaTemplate parsed, std::string bos, std::string eos, bool is_fallback);
  /// Renders the messages as given, without converting them.
  Result<jinja::Rendering> render_plain(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools,
                                        bool add_generation_prompt, const nlohmann::ordered_json& variables,
                                        std::time_t now, const jinja::JinjaLimits& limits) const;
  /// Renders a probe's messages (template_probe.h).
  Result<jinja::Rendering> render_probe(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools) const;

  jinja::JinjaTemplate template_;
  std::string bos_;
  std::string eos_;
  bool is_fallback_ = false;
  bool is_dsml_ = false;
  bool is_harmony_ = false;
  bool shows_messages_ = true;
  bool reads_functions_ = false;  ///< tools as the text of a variable `functions`
  const tool_call::ToolStyle* style_ = nullptr;
  ChatCapabilities capabilities_;
};

}  // namespace cairn::chat
