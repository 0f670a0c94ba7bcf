/// Reads a block whose first byte decides how its calls are written.
#pragma once

#include <memory>
#include <utility>

#include "chat/tool_calls/characters.h"
#include "chat/tool_calls/tool_call_parser.h"

namespace cairn::chat::tool_call {

class ChoiceOfCalls final : public ToolCallParser {
 public:
  /// `choose` gives the reader of a block that begins with this byte, or null if none does.
  using Choose = std::unique_ptr<ToolCallParser> (*)(char first);
  explicit ChoiceOfCalls(Choose choose) : choose_(choose) {}

  Step push(char byte, PartWriter& parts) override {
    if (reader_ == nullptr) {
      if (is_space(byte)) return Step::kMore;
      reader_ = choose_(byte);
      if (reader_ == nullptr) return Step::kBad;
    }
    const Step step = reader_->push(byte, parts);
    unread_ = reader_->unread();
    return step;
  }
  void cut_call(PartWriter& parts) override { reader_->cut_call(parts); }
  std::string unsent(std::string_view since_part) const override { return reader_->unsent(since_part); }
  bool between_calls() const override { return reader_ != nullptr && reader_->between_calls(); }

 private:
  Choose choose_;
  std::unique_ptr<ToolCallParser> reader_;
};

template <ChoiceOfCalls::Choose choose>
std::unique_ptr<ToolCallParser> open_choice() {
  return std::make_unique<ChoiceOfCalls>(choose);
}

}  // namespace cairn::chat::tool_call
