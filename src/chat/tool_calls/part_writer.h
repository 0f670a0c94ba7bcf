/// Where parsers put what they have understood: a list of parts, neighbours merged, the rules of calls kept.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "chat/output/output_parts.h"
#include "chat/tool_calls/tool_schemas.h"

namespace cairn::tool_call {

class PartWriter {
 public:
  explicit PartWriter(ToolSchemas schemas) : schemas_(std::move(schemas)) {}

  /// Where parts go from now on.
  void attach(std::vector<Part>& parts) { parts_ = &parts; }
  void content(std::string_view text) { add_text(PartKind::kContent, -1, text); }
  void reasoning(std::string_view text) { add_text(PartKind::kReasoning, -1, text); }

  /// False, and nothing begun, if this can be no function's name, names none of the tools although it must, or there
  /// are kCallsMax calls already.
  bool begin(std::string_view name, std::string_view id = {});
  void arguments(std::string_view bytes);
  void end(CallState state);

  bool call_open() const { return call_open_; }
  const ToolSchemas& schemas() const { return schemas_; }
  /// From now on: whether a call must name one of the tools that are known.
  void require_known_names(bool required) { known_names_only_ = required; }
  /// Whether a call was begun, continued or ended since the last question.
  bool take_progress() { return std::exchange(progress_, false); }

 private:
  void add_text(PartKind kind, int32_t call, std::string_view text);

  ToolSchemas schemas_;
  std::vector<Part>* parts_ = nullptr;
  int32_t calls_ = 0;
  bool call_open_ = false;
  bool progress_ = false;
  bool known_names_only_ = false;
};

}  // namespace cairn::tool_call
