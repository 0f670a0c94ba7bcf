#include "api/responses/text_tokens.h"

#include <algorithm>

namespace cairn::api::responses {

using nlohmann::ordered_json;

void TextTokens::add(std::string_view text, ordered_json entry) {
  if (groups_.empty() || !groups_.back().open) groups_.emplace_back();
  text_ += text;
  Group& group = groups_.back();
  group.end = text_.size();
  group.open = text.empty();
  group.entries.push_back(std::move(entry));
}

size_t TextTokens::end_of(std::string_view text) const {
  if (text_.ends_with(text)) return text_.size();
  const size_t begin = text_.rfind(text);
  return begin == std::string::npos ? begin : begin + text.size();
}

ordered_json TextTokens::take(std::string_view text) {
  const size_t end = end_of(text);
  const bool all = end == std::string::npos;
  ordered_json entries = ordered_json::array();
  size_t group_begin = 0;
  for (Group& group : groups_) {
    if (all || (group.end > end - text.size() && group_begin < end)) {
      for (auto& entry : group.entries) entries.push_back(std::move(entry));
      group.entries.clear();  // once, also where the rest of its text is sent later
    }
    group_begin = group.end;
  }
  drop(end);
  return entries;
}

void TextTokens::pass(std::string_view text) { drop(end_of(text)); }

void TextTokens::pass_all_but_last() {
  if (groups_.size() > 1) drop(groups_[groups_.size() - 2].end);
}

void TextTokens::drop(size_t end) {
  const bool all = end == std::string::npos;
  std::erase_if(groups_, [&](const Group& group) { return all || (group.end <= end && !group.open); });
  text_.erase(0, end);
  for (Group& group : groups_) group.end -= std::min(end, group.end);
}

}  // namespace cairn::api::responses
