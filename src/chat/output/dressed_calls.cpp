#include "chat/output/dressed_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "chat/tool_calls/characters.h"

namespace cairn::chat {

void DressedCalls::push(Part&& part, std::vector<Part>& out) {
  if (part.kind == PartKind::kContent) return push_content(std::move(part.text), out);
  // What was held back is not the answer's end.
  release(out);
  line_begins_ = true;
  if (part.kind == PartKind::kCallBegin) calls_ = part.call + 1;
  out.push_back(std::move(part));
}

void DressedCalls::push_content(std::string text, std::vector<Part>& out) {
  struct Text {
    std::string bytes;
    size_t at = 0;
  };
  std::vector<Text> texts;  // the last comes first
  texts.push_back({std::move(text)});
  while (!texts.empty()) {
    Text& now = texts.back();
    if (now.at == now.bytes.size()) {
      texts.pop_back();
    } else if (!push_byte(now.bytes[now.at++], out)) {
      texts.push_back({std::exchange(text_again_, {})});
    }
  }
}

bool DressedCalls::push_byte(char byte, std::vector<Part>& out) {
  if (reader_ != nullptr) {
    held_ += byte;
    if (reader_->push(byte) && held_.size() <= kHeldBytesMax) return true;
    reject(out);
    return false;
  }
  if (tool_call::is_space(byte)) {
    line_begins_ |= byte == '\n';
    space_ += byte;
    if (space_.size() >= kSpaceBytesMax) give(std::exchange(space_, {}), out);
    return true;
  }
  if (line_begins_ && !in_code_ && DressReader::may_begin(byte) && calls_ < offered_.calls_max) {
    reader_ = std::make_unique<DressReader>(*offered_.tools, offered_.calls_max - calls_);
    held_ = byte;
    reader_->push(byte);
    return true;
  }
  space_ += byte;
  give(std::exchange(space_, {}), out);
  return true;
}

// A call may begin on a later line of what was held back, but not within what was read of calls.
void DressedCalls::reject(std::vector<Part>& out) {
  size_t certain = reader_->certain_bytes();
  while (certain > 0 && tool_call::is_space(held_[certain - 1])) --certain;
  certain = std::max<size_t>(1, certain);
  if (reader_->too_many()) calls_ = offered_.calls_max;
  reader_.reset();
  give(std::exchange(space_, {}), out);
  give(std::string_view(held_).substr(0, certain), out);
  text_again_ = held_.substr(certain);
  held_.clear();
}

void DressedCalls::give(std::string_view text, std::vector<Part>& out) {
  if (text.empty()) return;
  for (const char byte : text) {
    if (byte == '\n') {
      line_begins_ = true;
      line_backticks_ = 0;
      continue;
    }
    line_begins_ &= tool_call::is_space(byte);
    if (byte != '`' || line_backticks_ < 0) {
      if (line_backticks_ > 0 || !tool_call::is_space(byte)) line_backticks_ = -1;
    } else if (++line_backticks_ == 3) {
      in_code_ = !in_code_;
    }
  }
  if (!out.empty() && out.back().kind == PartKind::kContent)
    out.back().text += text;
  else
    out.push_back({PartKind::kContent, std::string(text), -1, {}, CallState::kWhole});
}

void DressedCalls::release(std::vector<Part>& out) {
  reader_.reset();
  give(std::exchange(space_, {}), out);
  give(std::exchange(held_, {}), out);
}

void DressedCalls::finish(std::vector<Part>& out) {
  if (!holds_calls()) return release(out);
  dress_ = reader_->dress();
  for (DressReader::Call& call : reader_->take_calls()) {
    out.push_back({PartKind::kCallBegin, std::move(call.name), calls_, {}, CallState::kWhole});
    out.push_back({PartKind::kArguments, std::move(call.arguments), calls_, {}, CallState::kWhole});
    out.push_back({PartKind::kCallEnd, {}, calls_, {}, CallState::kWhole});
    ++calls_;
  }
  reader_.reset();
  space_.clear();
  held_.clear();
}

}  // namespace cairn::chat
