/// Calls whose name and id are between markers, followed by their arguments as one object.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "chat/tool_calls/argument_writer.h"
#include "chat/tool_calls/marker_matcher.h"
#include "chat/tool_calls/tool_call_parser.h"

namespace cairn::chat::tool_call {

enum class FieldRole {
  kName,
  kId,
  kKimiId,   ///< functions.NAME:INDEX, which is the id and contains the name
  kSkipped,  ///< the kind of the call; or its name, if that is missing
};

/// A field: text up to one of `ends`; each says which field follows, or -1 for the arguments.
struct Field {
  struct End {
    std::string_view marker;
    int next = -1;
  };
  FieldRole role = FieldRole::kName;
  std::span<const End> ends;
};

struct MarkedStyle {
  std::string_view call_open;  ///< text before the first field
  std::span<const Field> fields;
  std::string_view call_close{};
  std::string_view block_close{};
  std::string_view fence{};  ///< text that may enclose the arguments
  Dialect dialect = Dialect::kJson;
  std::string_view content_name{};  ///< a name that calls no tool: the text after it is content
  bool brace_ends_name = false;     ///< else a tool's name may have braces
};

class MarkedCalls final : public ToolCallParser {
 public:
  /// `in_call`: whether the text that opened the block was call_open.
  MarkedCalls(const MarkedStyle& style, bool in_call);
  Step push(char byte, PartWriter& parts) override;
  void cut_call(PartWriter& parts) override;
  std::string unsent(std::string_view since_part) const override;
  bool between_calls() const override { return field_ < 0 && (calls_ > 0 || awaits_brace_); }

 private:
  Step push_between(char byte);
  Step push_field(char byte, PartWriter& parts);
  Step push_arguments(char byte, PartWriter& parts);
  /// After content_name, where a tool has this name too: the call's arguments, or content.
  Step push_brace_or_content(char byte, PartWriter& parts);
  /// Whether a brace, which comes next, is one of a tool's name.
  bool brace_is_of_name(const PartWriter& parts) const;
  void enter_call();
  void enter_field(int field);
  /// Begins the call that the fields describe.
  bool begin(PartWriter& parts);

  const MarkedStyle& style_;
  int field_ = -1;  // -1: between calls, or in arguments
  bool in_arguments_ = false;
  bool awaits_brace_ = false;
  int calls_ = 0;
  size_t between_bytes_ = 0;
  MarkerMatcher between_;
  MarkerMatcher ends_;
  std::string text_;  // text of the field
  std::string name_;
  std::string skipped_;
  std::string id_;
  ArgumentWriter writer_;
};

}  // namespace cairn::chat::tool_call
