#include "chat/output/dress_reader.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "chat/tool_calls/characters.h"
#include "chat/tool_calls/schema_check.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;
using tool_call::ArgumentWriter;
using tool_call::is_letter;
using tool_call::is_space;
using Texts = std::span<const std::string_view>;

constexpr std::string_view kFenceWords[] = {"",     "json",     "JSON",          "tool_call", "tool_calls",
                                            "tool", "function", "function_call", "xml",       "text"};
constexpr std::string_view kTags[] = {"tool_call",     "tool_calls",     "tools",         "tool",
                                      "tool-call",     "toolcall",       "function",      "functions",
                                      "function_call", "function_calls", "function-call", "call"};
constexpr std::string_view kNameKeys[] = {"name", "tool_name"};
constexpr std::string_view kArgumentsKeys[] = {"arguments", "parameters"};
constexpr std::string_view kSkippedKeys[] = {"id", "index", "call_id"};
constexpr std::string_view kFunctionKeys[] = {"name", "arguments", "parameters"};
constexpr std::string_view kCallKeys[] = {"name", "tool_name", "arguments", "parameters", "function",
                                          "type", "id",        "index",     "call_id",    "tool_calls"};
constexpr std::string_view kAttributes[] = {"name", "tool_name", "arguments", "parameters", "id"};
constexpr std::string_view kTypes[] = {"function", "tool_call", "tool_use", "function_call"};
constexpr size_t kTagBytesMax = 32;
constexpr size_t kIdBytesMax = 128;

bool is_one(Texts texts, std::string_view text) { return std::ranges::find(texts, text) != texts.end(); }
bool begins_one(Texts texts, std::string_view text) {
  return std::ranges::any_of(texts, [&](std::string_view each) { return each.starts_with(text); });
}

const ordered_json& function_of(const ordered_json& tool) {
  return tool.contains("function") ? tool["function"] : tool;
}

}  // namespace

const ordered_json* DressReader::find_tool(std::string_view name) const {
  const auto tool =
      std::ranges::find_if(tools_, [&](const ordered_json& each) { return function_of(each)["name"] == name; });
  return tool == tools_.end() ? nullptr : &function_of(*tool);
}

bool DressReader::may_name(std::string_view beginning) const {
  return std::ranges::any_of(tools_, [&](const ordered_json& tool) {
    return function_of(tool)["name"].get_ref<const std::string&>().starts_with(beginning);
  });
}

bool DressReader::push(char byte) {
  ++pushed_;
  switch (state_) {
    case State::kBetween:
      return push_between(byte);
    case State::kFence:
      return push_fence(byte);
    case State::kTag:
      return push_tag(byte);
    case State::kName:
    case State::kText:
      return push_text(byte);
    case State::kKeyOrBrace:
      state_ = State::kKeyBegin;
      doubled_ = byte == '{';
      return doubled_ || push_key(byte);
    case State::kKeyBegin:
    case State::kKey:
    case State::kColon:
      return push_key(byte);
    case State::kValue:
      return is_space(byte) || begin_value(byte);
    case State::kBraceOrKey:
      return begin_arguments(byte == '{') && (arguments_doubled_ || push_value(byte));
    case State::kArgumentsBrace:
    case State::kSecondBrace:
      if (is_space(byte)) return true;
      state_ = state_ == State::kSecondBrace ? State::kBetween : State::kAfterValue;
      if (state_ == State::kBetween) calls_end_ = pushed_;
      return byte == '}';
    case State::kAfterValue:
      if (is_space(byte)) return true;
      if (byte == '}') return object_ended();
      state_ = State::kKeyBegin;
      return byte == ',' && levels_.back() != Level::kWrapper;
    case State::kItem:
    case State::kNextItem:
      return is_space(byte) || push_list(byte);
    case State::kAttributeBegin:
    case State::kAttribute:
    case State::kAttributeValue:
    case State::kAttributeText:
    case State::kAttributeEnd:
      return push_attribute(byte);
    case State::kTagEnd:
      return byte == '>' && end_attributes(true);
    case State::kBody:
      return is_space(byte) || (byte == '{' && begin_arguments(false));
    default:
      return push_value(byte);
  }
}

bool DressReader::push_between(char byte) {
  if (is_space(byte)) return true;
  if (byte == '{') return begin_object();
  if (byte == '`') {
    state_ = State::kFence;
    backticks_ = 1;
    word_.clear();
    return !separated_;
  }
  if (byte == '<') {
    state_ = State::kTag;
    word_.clear();
    return !separated_;
  }
  if (byte == '[') return !std::exchange(in_list_, true) && wrap("a list");
  if (byte == ']') return std::exchange(in_list_, false) && !separated_ && calls_.size() > calls_before_;
  if (byte == ',' || byte == ';') return !std::exchange(separated_, true) && calls_.size() > calls_before_;
  if (!in_tag_ || in_list_ || !(is_letter(byte) || byte == '_')) return false;
  state_ = State::kName;
  text_.clear();
  call_ = {};
  levels_.assign(1, Level::kCall);
  return push_text(byte);
}

bool DressReader::push_fence(char byte) {
  if (backticks_ < 3) {
    if (byte != '`') return false;
    if (++backticks_ < 3 || !in_fence_) return true;
    // Closed.
    state_ = State::kBetween;
    in_fence_ = false;
    return calls_.size() > calls_before_ && !in_list_;
  }
  const bool begins = byte == '{' || byte == '[' || byte == '<';
  if (!is_space(byte) && !begins) {
    word_ += byte;
    return begins_one(kFenceWords, word_);
  }
  if (!is_one(kFenceWords, word_)) return false;
  state_ = State::kBetween;
  in_fence_ = true;
  calls_before_ = calls_.size();
  return wrap("a code fence") && (!begins || push_between(byte));
}

bool DressReader::push_tag(char byte) {
  const bool closes = word_.starts_with('/');
  if (byte == '>' || (closes && is_space(byte))) {
    state_ = State::kBetween;
    if (closes) {
      in_tag_ = false;
      return true;
    }
    if (!is_one(kTags, word_)) return false;
    in_tag_ = true;
    calls_before_ = calls_.size();
    return wrap("<" + word_ + ">");
  }
  if (is_space(byte)) return is_one(kTags, word_) && begin_attributes();
  word_ += byte;
  if (word_ == "/") return calls_.size() > calls_before_ && !in_list_;
  if (!word_.starts_with('/')) return begins_one(kTags, word_);
  return (is_letter(byte) || byte == '_' || byte == '-') && word_.size() <= kTagBytesMax;
}

bool DressReader::begin_attributes() {
  state_ = State::kAttributeBegin;
  levels_.assign(1, Level::kCall);
  call_ = {};
  has_arguments_ = in_arguments_ = separated_ = false;
  calls_before_ = calls_.size();
  quote_ = 0;
  is_attribute_ = is_body_ = false;
  return !in_list_ && wrap("<" + word_ + "> with attributes") && may_call();
}

bool DressReader::push_attribute(char byte) {
  switch (state_) {
    case State::kAttributeText:
      if (byte == quote_) {
        state_ = State::kAttributeBegin;
        quote_ = 0;
        if (key_ == "id") return true;
        call_.name = text_;
        return find_tool(call_.name) != nullptr;
      }
      text_ += byte;
      return key_ == "id" ? text_.size() <= kIdBytesMax : may_name(text_);
    case State::kAttribute:
      if (byte != '=') {
        key_ += byte;
        return begins_one(kAttributes, key_);
      }
      state_ = State::kAttributeValue;
      return is_one(kAttributes, key_);
    case State::kAttributeValue:
      return begin_attribute_value(byte);
    case State::kAttributeEnd:
      state_ = State::kAttributeBegin;
      return byte == std::exchange(quote_, 0);
    default:
      if (is_space(byte)) return true;
      if (byte == '>') return end_attributes(false);
      state_ = byte == '/' ? State::kTagEnd : State::kAttribute;
      key_ = byte == '/' ? "" : std::string(1, byte);
      return begins_one(kAttributes, key_);
  }
}

bool DressReader::begin_attribute_value(char byte) {
  const bool is_quote = byte == '"' || byte == '\'';
  if (is_quote && quote_ == 0) {
    quote_ = byte;
    text_.clear();
    if (is_one(kArgumentsKeys, key_)) return !has_arguments_;
    state_ = State::kAttributeText;
    return key_ == "id" || call_.name.empty();
  }
  // Arguments, which may stand without quotes.
  is_attribute_ = in_arguments_ = true;
  writer_ = ArgumentWriter();
  return byte == '{' && is_one(kArgumentsKeys, key_) && !has_arguments_ && begin_arguments(false);
}

// `closed`: by />, so that nothing is between this tag and another.
bool DressReader::end_attributes(bool closed) {
  in_tag_ = !closed;
  if (call_.name.empty()) return false;
  if (has_arguments_) return call_ended();
  state_ = State::kBody;
  is_body_ = in_arguments_ = true;
  writer_ = ArgumentWriter();
  return !closed;
}

// There is a limit to how many are around a call: text of nothing but wrappers is not held back for long.
bool DressReader::wrap(std::string_view wrapper) {
  constexpr int kWrappersMax = 4;
  if (first_wrapper_.empty()) first_wrapper_ = wrapper;
  return ++wrappers_ <= kWrappersMax;
}

bool DressReader::may_call() {
  too_many_ = static_cast<int32_t>(calls_.size()) >= calls_max_;
  return !too_many_;
}

bool DressReader::begin_object() {
  levels_.assign(1, Level::kCall);
  call_ = {};
  has_arguments_ = in_arguments_ = false;
  separated_ = false;
  state_ = State::kKeyOrBrace;
  return may_call();
}

bool DressReader::push_key(char byte) {
  if (state_ == State::kKey) {
    const Texts keys = levels_.back() == Level::kFunction ? Texts(kFunctionKeys) : Texts(kCallKeys);
    if (byte != '"') {
      key_ += byte;
      return begins_one(keys, key_);
    }
    state_ = State::kColon;
    return is_one(keys, key_);
  }
  if (is_space(byte)) return true;
  if (state_ == State::kColon) {
    state_ = State::kValue;
    return byte == ':';
  }
  key_.clear();
  state_ = State::kKey;
  return byte == '"';
}

bool DressReader::begin_value(char byte) {
  text_.clear();
  writer_ = ArgumentWriter();
  const bool nested = levels_.back() == Level::kFunction;
  if (key_ == "function" && byte == '{') {
    levels_.push_back(Level::kFunction);
    state_ = State::kKeyBegin;
    return true;
  }
  if (is_one(kNameKeys, key_) || key_ == "function") {
    state_ = State::kText;
    return byte == '"' && call_.name.empty();
  }
  if (key_ == "type") {
    state_ = State::kText;
    return byte == '"';
  }
  if (is_one(kSkippedKeys, key_)) {
    state_ = State::kSkipped;
    return byte != '{' && byte != '[' && push_value(byte);
  }
  if (key_ == "tool_calls") {
    levels_.back() = Level::kWrapper;
    levels_.push_back(Level::kList);
    state_ = State::kItem;
    return byte == '[' && wrap("\"tool_calls\"") && !nested && !in_list_ && call_.name.empty() && !has_arguments_;
  }
  if (has_arguments_) return false;
  in_arguments_ = true;
  if (byte == '"') {
    state_ = State::kEncoded;
    return push_value(byte);
  }
  state_ = State::kBraceOrKey;
  return byte == '{' && (doubled_ || begin_arguments(false));
}

bool DressReader::begin_arguments(bool doubled) {
  arguments_doubled_ = doubled;
  state_ = State::kArguments;
  return push_value('{');
}

// A name is looked at as it comes, so that text that is no call is held back no longer than it must be.
bool DressReader::push_text(char byte) {
  const bool expression = state_ == State::kName;
  const bool is_name = expression || key_ != "type";
  if (byte != (expression ? '(' : '"')) {
    text_ += byte;
    return is_name ? may_name(text_) : begins_one(kTypes, text_);
  }
  state_ = State::kAfterValue;
  if (!is_name) return is_one(kTypes, text_);
  call_.name = text_;
  if (expression) {
    writer_ = ArgumentWriter(tool_call::Dialect::kKeywords);
    in_arguments_ = true;
    state_ = State::kKeywords;
    separated_ = false;
    if (!may_call()) return false;
    first_wrapper_ = "a call expression";
  }
  return find_tool(call_.name) != nullptr;
}

bool DressReader::push_value(char byte) {
  std::string& out = state_ == State::kEncoded ? text_ : state_ == State::kSkipped ? key_ : call_.arguments;
  const auto result = writer_.push(byte, out);
  if (result == ArgumentWriter::Result::kBad) return false;
  if (result == ArgumentWriter::Result::kMore) return true;
  if (state_ == State::kKeywords) return call_ended();
  if (state_ == State::kSkipped) {
    state_ = State::kAfterValue;
    if (result == ArgumentWriter::Result::kDone) return true;
    --pushed_;
    return push(byte);
  }
  if (state_ == State::kEncoded) {
    const auto text = ordered_json::parse(text_, nullptr, false);
    if (!text.is_string()) return false;
    call_.arguments = text.get<std::string>();
  }
  has_arguments_ = true;
  if (std::exchange(is_body_, false)) return call_ended();
  if (std::exchange(is_attribute_, false)) {
    state_ = quote_ == 0 ? State::kAttributeBegin : State::kAttributeEnd;
    return true;
  }
  state_ = state_ == State::kArguments && arguments_doubled_ ? State::kArgumentsBrace : State::kAfterValue;
  return true;
}

bool DressReader::push_list(char byte) {
  if (state_ == State::kNextItem && byte == ']') {
    levels_.pop_back();
    state_ = State::kAfterValue;
    return true;
  }
  if (state_ == State::kNextItem) {
    state_ = State::kItem;
    return byte == ',';
  }
  levels_.push_back(Level::kCall);
  call_ = {};
  has_arguments_ = in_arguments_ = false;
  state_ = State::kKeyBegin;
  return byte == '{' && may_call();
}

bool DressReader::object_ended() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (level == Level::kFunction) return true;
  const bool outermost = levels_.empty();
  if (level == Level::kCall && !(has_arguments_ && call_ended())) return false;
  state_ = !outermost ? State::kNextItem : doubled_ ? State::kSecondBrace : State::kBetween;
  return true;
}

bool DressReader::call_ended() {
  const ordered_json* tool = find_tool(call_.name);
  const auto arguments = ordered_json::parse(call_.arguments, nullptr, false);
  if (tool == nullptr || !arguments.is_object()) return false;
  if (tool->contains("parameters") && !tool_call::schema_accepts((*tool)["parameters"], arguments)) return false;
  calls_.push_back(std::move(call_));
  calls_end_ = pushed_;
  wrappers_ = 0;
  in_arguments_ = false;
  state_ = State::kBetween;
  return true;
}

bool DressReader::complete() const {
  if (calls_.size() <= calls_before_ || in_list_ || separated_) return false;
  if (state_ == State::kFence) return in_fence_;
  return state_ == State::kBetween || (state_ == State::kTag && word_.starts_with('/'));
}

std::string DressReader::dress() const {
  if (doubled_) return "doubled braces";
  return first_wrapper_.empty() ? "a bare object" : first_wrapper_;
}

}  // namespace cairn::chat
