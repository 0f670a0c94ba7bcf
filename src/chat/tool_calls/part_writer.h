/// Collects the parts that parsers emit: adjacent parts are merged, and the rules for calls are enforced.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "chat/output_parts.h"
#include "chat/tool_calls/tool_schemas.h"

namespace cairn::chat::tool_call {

class PartWriter {
 public:
  explicit PartWriter(ToolSchemas schemas) : schemas_(std::move(schemas)) {}

  /// Sets the list to which parts are appended.
  void attach(std::vector<Part>& parts) { parts_ = &parts; }
  void content(std::string_view text) { add_text(PartKind::kContent, -1, text); }
  void reasoning(std::string_view text) { add_text(PartKind::kReasoning, -1, text); }

  /// Begins a call. False, with nothing begun, if this is no tool's name and cannot be a function's, or must be a
  /// tool's, or if there are kCallsMax calls already.
  bool begin(std::string_view name, std::string_view id = {});
  void arguments(std::string_view bytes);
  /// Ends the call. Arguments of which nothing came, and which are not whole, are `{`: to many a client no arguments
  /// are an empty object.
  void end(CallState state);
  /// Tells what is read of a block of calls, as it came: what opens the block, and each byte after it.
  void begin_block(std::string_view text) { call_text_ = text; }
  void read(char byte) { call_text_ += byte; }

  bool call_open() const { return call_open_; }
  const ToolSchemas& schemas() const { return schemas_; }
  /// Sets whether calls from now on must name one of the known tools.
  void require_known_names(bool required) { known_names_only_ = required; }
  /// Whether a call was begun, continued or ended since the last query.
  bool take_progress() { return std::exchange(progress_, false); }

 private:
  void add_text(PartKind kind, int32_t call, std::string_view text);

  ToolSchemas schemas_;
  std::vector<Part>* parts_ = nullptr;
  int32_t calls_ = 0;
  bool call_open_ = false;
  bool progress_ = false;
  bool has_arguments_ = false;  // the open call
  std::string call_text_;       // since the block's beginning or the last whole call
  bool known_names_only_ = false;
};

}  // namespace cairn::chat::tool_call
