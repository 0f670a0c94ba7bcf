#include "chat/tool_calls/part_writer.h"

#include <algorithm>

#include "base/check.h"
#include "chat/tool_calls/characters.h"

namespace cairn::chat::tool_call {

bool PartWriter::begin(std::string_view name, std::string_view id) {
  CAIRN_CHECK(!call_open_);
  if (name.empty() || name.size() > kCallNameBytesMax) return false;
  if (!schemas_.has(name) && !std::ranges::all_of(name, is_call_name_byte)) return false;
  if (calls_ >= kCallsMax || (known_names_only_ && !schemas_.may_name(name))) return false;
  parts_->push_back({PartKind::kCallBegin, std::string(name), calls_++, std::string(id), CallState::kWhole});
  call_open_ = true;
  has_arguments_ = false;
  progress_ = true;
  return true;
}

void PartWriter::arguments(std::string_view bytes) {
  CAIRN_CHECK(call_open_);
  if (bytes.empty()) return;
  add_text(PartKind::kArguments, calls_ - 1, bytes);
  has_arguments_ = progress_ = true;
}

void PartWriter::end(CallState state) {
  CAIRN_CHECK(call_open_);
  const bool whole = state == CallState::kWhole;
  if (!whole && !has_arguments_) arguments("{");
  parts_->push_back({PartKind::kCallEnd, whole ? std::string() : call_text_, calls_ - 1, {}, state});
  call_text_.clear();
  call_open_ = false;
  progress_ = true;
}

void PartWriter::add_text(PartKind kind, int32_t call, std::string_view text) {
  if (text.empty()) return;
  if (!parts_->empty() && parts_->back().kind == kind && parts_->back().call == call)
    parts_->back().text += text;
  else
    parts_->push_back({kind, std::string(text), call, {}, CallState::kWhole});
}

}  // namespace cairn::chat::tool_call
