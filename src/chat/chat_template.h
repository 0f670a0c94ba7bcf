/// A model's chat template: turns messages into the text that the model was trained to continue.
///
/// Templates differ in what they accept, and none takes OpenAI's message shape as it is. What a template supports is
/// found out once, by rendering a few tiny conversations with marker words in them and looking for the markers
/// (ChatCapabilities). render() then converts each message into the form that the template takes:
///   - text parts of a content list are joined with line ends, if the template takes only strings;
///   - a string becomes one text part, if the template takes only lists;
///   - a system message goes in front of the first user message's text, if the template has no system role;
///   - tool-call arguments, a JSON string on the wire, become an object, if the template prints objects well.
///   - what looks like one of the format's own tags in a call's arguments or a tool's result is escaped, for DSML;
/// - tools, calls and results become text (generic_tools.h), if the template has no support for tools. What cannot be
/// converted is an Error, never left out silently. The caller refuses tools for a template that shows none and yet has
/// a format of calls (ChatCapabilities::tools).
#pragma once

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "jinja/jinja.h"

namespace cairn {

/// The input of a template. `messages` and `tools` are JSON in OpenAI's shape, already validated.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;  ///< array or null
  bool add_generation_prompt = true;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< further variables (chat_template_kwargs)
};

/// What a template showed of the probe conversations.
struct ChatCapabilities {
  bool string_content = true;  ///< shows a user message whose content is a string
  bool list_content = false;   ///< shows one whose content is [{"type":"text","text":...}]
  bool system_role = true;     ///< shows a system message before the user's
  bool tools = false;          ///< shows the names of the given tools
  bool generic_tools = false;  ///< shows no tools and has no format of calls: render() writes them as text
  bool effort = false;         ///< uses the variable reasoning_effort
  /// Minimum context of its effort "max", which is "high" in smaller ones; 0: it has no such effort.
  int32_t max_effort_tokens = 0;
  bool object_arguments = false;  ///< shows tool-call arguments given as an object, printed other than as Python would
};

/// Immutable; thread-safe.
class ChatTemplate {
 public:
  /// `source` is tokenizer.chat_template; if empty, ChatML is used and is_fallback() is true. bos and eos are the texts
  /// of those tokens.
  static Result<ChatTemplate> create(std::string_view source, std::string bos, std::string eos);

  /// Own text, which may spell control tokens, is what the template writes, the texts of bos and eos, and a message's
  /// role if it is a known one; all other strings of the input are foreign. Errors: kInvalidArgument with the
  /// template's own words (raise_exception) or a description of what failed in it, `at` is the template's line; content
  /// parts that the template does not support, `at` is their place in the messages; kTooLarge.
  Result<Rendering> render(const ChatInput& input, std::time_t now) const;

  const ChatCapabilities& capabilities() const { return capabilities_; }
  bool is_fallback() const { return is_fallback_; }

 private:
  ChatTemplate(JinjaTemplate parsed, std::string bos, std::string eos, bool is_fallback);
  /// Renders the messages as given, without converting them.
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
