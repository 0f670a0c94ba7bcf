/// A model's chat template: messages -> the text that the model was trained to continue.
///
/// Templates differ in what they take, and OpenAI's message shape is none of theirs. What a template can do is found
/// out once, by rendering a few tiny conversations with marker words in them and looking for the markers
/// (ChatCapabilities). render() then brings each message into the form the template takes:
///   - text parts of a content list are joined with line ends, if the template takes only strings;
///   - a string becomes one text part, if the template takes only lists;
///   - a system message goes in front of the first user message's text, if the template has no system role;
///   - tool-call arguments, a JSON string on the wire, become an object, if the template prints objects well.
///   - what looks like one of the format's own tags in a call's arguments or a tool's result is escaped, for DSML;
///   - tools, calls and results become text (generic_tools.h), if the template knows nothing of tools.
/// What remains impossible is an Error, never left out silently; tools for a template that shows none and yet has calls
/// of its own format are the caller's to refuse (ChatCapabilities::tools).
#pragma once

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "jinja/jinja.h"

namespace cairn {

/// What a conversation gives to a template. `messages` and `tools` are JSON in OpenAI's shape, already validated.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;  ///< array or null
  bool add_generation_prompt = true;
  nlohmann::ordered_json variables =
      nlohmann::ordered_json::object();  ///< more for the template (chat_template_kwargs)
};

/// What a template was seen to show of the probe conversations.
struct ChatCapabilities {
  bool string_content = true;  ///< a user message whose content is a string
  bool list_content = false;   ///< ... is [{"type":"text","text":...}]
  bool system_role = true;     ///< a system message before the user's
  bool tools = false;          ///< the names of the given tools
  bool generic_tools = false;  ///< it does not, and has no format of calls: render() makes text of them
  bool effort = false;         ///< it makes something of the variable reasoning_effort
  /// Context that its effort "max" is meant for, in smaller ones it is "high"; 0: it has no such effort.
  int32_t max_effort_tokens = 0;
  bool object_arguments = false;  ///< tool-call arguments given as an object, printed other than as Python would
};

/// Immutable; thread-safe.
class ChatTemplate {
 public:
  /// `source` from tokenizer.chat_template; empty: ChatML, which `is_fallback` tells. bos and eos are the tokens'
  /// texts.
  static Result<ChatTemplate> create(std::string_view source, std::string bos, std::string eos);

  /// Own, and thus free to spell control tokens, is what the template writes, the texts of bos and eos, and a message's
  /// role that is one of those known; every other string of the input is foreign. Errors: kInvalidArgument with the
  /// template's own words (raise_exception) or what failed in it, `at` the template's line; content parts that the
  /// template cannot take, `at` their place in the messages; kTooLarge.
  Result<Rendering> render(const ChatInput& input, std::time_t now) const;

  const ChatCapabilities& capabilities() const { return capabilities_; }
  bool is_fallback() const { return is_fallback_; }

 private:
  ChatTemplate(JinjaTemplate parsed, std::string bos, std::string eos, bool is_fallback);
  /// Renders as it is given, without bringing it into another form.
  Result<Rendering> render_plain(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools,
                                 bool add_generation_prompt, const nlohmann::ordered_json& variables, std::time_t now,
                                 const JinjaLimits& limits) const;
  ChatCapabilities probe() const;

  JinjaTemplate template_;
  std::string bos_;
  std::string eos_;
  bool is_fallback_ = false;
  bool is_dsml_ = false;
  ChatCapabilities capabilities_;
};

}  // namespace cairn
