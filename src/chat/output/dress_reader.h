/// Reads text, byte by byte, that may be calls of offered tools in another dress than the model's own format: JSON
/// objects, alone, in lists, in code fences or in tags, with other keys or doubled braces, call expressions in tags,
/// and tags with attributes: <function name="write" arguments='{...}'/>, or the arguments between the tags.
///
/// Reads with certainty only: the name is a tool's, the arguments are an object that its schema accepts, and nothing
/// but such calls, what wraps them and white space has come.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output_parts.h"
#include "chat/tool_calls/argument_writer.h"

namespace cairn::chat {

/// The tools that calls in another dress may name.
struct OfferedTools {
  std::shared_ptr<const nlohmann::ordered_json> tools;  ///< in OpenAI's shape; null: no other dress is read
  int32_t calls_max = kCallsMax;                        ///< of one answer; more of them are no calls
};

class DressReader {
 public:
  struct Call {
    std::string name;
    std::string arguments;  ///< JSON
  };

  /// Whether text that begins with this byte may be calls.
  static bool may_begin(char byte) { return std::string_view("{[<`").find(byte) != std::string_view::npos; }

  /// `tools` outlives this.
  DressReader(const nlohmann::ordered_json& tools, int32_t calls_max) : tools_(tools), calls_max_(calls_max) {}

  /// False: what was pushed is no call, whatever follows.
  bool push(char byte);
  /// Whether what was pushed is calls, if nothing follows.
  bool complete() const;
  std::vector<Call> take_calls() { return std::move(calls_); }
  /// Number of bytes pushed within which no other call begins: those of whole calls, and all but the last one once a
  /// call has arguments.
  size_t certain_bytes() const { return in_arguments_ ? pushed_ - 1 : calls_end_; }
  /// Whether one more call than may be has begun.
  bool too_many() const { return too_many_; }
  /// For the log: what the calls wear, one of a few texts.
  std::string dress() const;

 private:
  enum class State {
    kBetween,     // calls
    kFence,       // its backticks, or what follows them
    kTag,         // after <
    kName,        // of a call expression
    kKeywords,    // its arguments
    kKeyOrBrace,  // after the first brace, which may be doubled
    kKeyBegin,
    kKey,
    kColon,
    kValue,
    kText,  // of a name or a type
    kSkipped,
    kBraceOrKey,  // after the first brace of arguments, where braces are doubled
    kArguments,
    kArgumentsBrace,  // the second brace that closes them
    kEncoded,         // arguments as a string that contains JSON
    kAfterValue,
    kSecondBrace,
    kItem,  // of a list of "tool_calls"
    kNextItem,
    kAttributeBegin,  // in a tag, before an attribute or the tag's end
    kAttribute,       // the name of one
    kAttributeValue,  // before its value
    kAttributeText,   // the value of a name, or of what does not count
    kAttributeEnd,    // after arguments, before the quote that closes them
    kTagEnd,          // after /
    kBody,            // after a tag that names a function, before its arguments
  };
  enum class Level { kCall, kFunction, kWrapper, kList };

  bool push_between(char byte);
  bool push_fence(char byte);
  bool push_tag(char byte);
  bool begin_attributes();
  bool push_attribute(char byte);
  bool begin_attribute_value(char byte);
  bool end_attributes(bool closed);
  bool push_key(char byte);
  bool begin_value(char byte);
  bool push_text(char byte);
  bool push_value(char byte);
  bool push_list(char byte);
  bool begin_arguments(bool doubled);
  bool wrap(std::string_view wrapper);
  bool begin_object();
  bool may_call();
  bool object_ended();
  bool call_ended();
  const nlohmann::ordered_json* find_tool(std::string_view name) const;
  bool may_name(std::string_view beginning) const;

  const nlohmann::ordered_json& tools_;
  int32_t calls_max_;
  State state_ = State::kBetween;
  std::vector<Call> calls_;
  size_t pushed_ = 0;
  size_t calls_end_ = 0;
  bool too_many_ = false;

  // What wraps calls.
  bool in_list_ = false;
  bool in_fence_ = false;
  bool in_tag_ = false;
  int wrappers_ = 0;         // since the last call
  bool separated_ = false;   // a comma has come, so that another call must
  size_t calls_before_ = 0;  // the fence or tag that was opened last
  int backticks_ = 0;
  std::string word_;           // after backticks, or of a tag
  std::string first_wrapper_;  // for dress()
  char quote_ = 0;             // around the value of an attribute; 0: none
  bool is_attribute_ = false;  // the arguments are an attribute's
  bool is_body_ = false;       // the arguments are all that is between two tags

  // The current object, or expression.
  std::vector<Level> levels_;
  bool doubled_ = false;
  bool arguments_doubled_ = false;
  bool in_arguments_ = false;   // or after them
  bool has_arguments_ = false;  // whole ones
  std::string key_;
  std::string text_;
  Call call_;
  tool_call::ArgumentWriter writer_;
};

}  // namespace cairn::chat
