#include "chat/tool_calls/dsml_escape.h"

#include <array>
#include <utility>

namespace cairn::chat::tool_call {
namespace {

constexpr std::string_view kAmp = "amp;";
constexpr std::string_view kLess = "lt;";
constexpr std::array<std::string_view, 2> kTags = {"lt;｜DSML｜", "lt;/｜DSML｜"};

constexpr std::array<std::pair<char, std::string_view>, 4> kAttribute = {
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}}};

}  // namespace

std::string escape_dsml(std::string_view text) {
  std::string out;
  size_t written = 0;
  for (size_t mark = text.find(kDsmlMark); mark != std::string_view::npos; mark = text.find(kDsmlMark, mark + 1)) {
    std::string_view before = text.substr(0, mark);
    if (before.ends_with('/')) before.remove_suffix(1);
    if (before.ends_with('<')) {
      out += text.substr(written, before.size() - 1 - written);
      out += "&lt;";
      written = before.size();
      continue;
    }
    if (!before.ends_with(kLess)) continue;
    before.remove_suffix(kLess.size());
    while (before.ends_with(kAmp)) before.remove_suffix(kAmp.size());
    if (!before.ends_with('&')) continue;
    out += text.substr(written, before.size() - written);
    out += kAmp;
    written = before.size();
  }
  out += text.substr(written);
  return out;
}

std::string escape_dsml_attribute(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    std::string_view written(&byte, 1);
    for (const auto& [plain, entity] : kAttribute) {
      if (byte == plain) written = entity;
    }
    out += written;
  }
  return out;
}

std::string unescape_dsml_attribute(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    char byte = text.front();
    size_t length = 1;
    for (const auto& [plain, entity] : kAttribute) {
      if (!text.starts_with(entity)) continue;
      byte = plain;
      length = entity.size();
    }
    out += byte;
    text.remove_prefix(length);
  }
  return out;
}

void DsmlUnescaper::push(char byte, std::string& out) {
  if (state_ == State::kText) {
    if (byte == '&')
      state_ = State::kEntity;
    else
      out += byte;
    return;
  }
  held_ += byte;
  if (held_ == kAmp) {
    out += state_ == State::kEntity ? "&" : kAmp;
    state_ = State::kDeepEntity;
    held_.clear();
    return;
  }
  bool may_become_one = kAmp.starts_with(held_);
  for (const std::string_view tag : kTags) {
    if (held_ == tag) {
      out += state_ == State::kEntity ? "<" : kLess;
      out += tag.substr(kLess.size());
      state_ = State::kText;
      held_.clear();
      return;
    }
    may_become_one = may_become_one || tag.starts_with(held_);
  }
  if (may_become_one) return;
  held_.pop_back();
  flush(out);
  push(byte, out);
}

void DsmlUnescaper::flush(std::string& out) {
  if (state_ == State::kEntity) out += '&';
  if (state_ == State::kDeepEntity) out += kAmp;
  out += held_;
  state_ = State::kText;
  held_.clear();
}

}  // namespace cairn::chat::tool_call
