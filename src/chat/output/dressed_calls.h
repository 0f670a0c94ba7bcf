/// Turns content into calls where a model has written calls of offered tools in another dress than its own format
/// (dress_reader.h): a layer over the parts of a parser, for every format.
///
/// Calls in another dress are the last thing of an answer. So content is held back from a place where one can begin,
/// at the beginning of the content or of a line, as long as it can still become nothing but calls, up to kHeldBytesMax,
/// and they are given at the end of the output. All else is content, byte for byte.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output/dress_reader.h"

namespace cairn::chat {

class DressedCalls {
 public:
  explicit DressedCalls(OfferedTools offered) : offered_(std::move(offered)) {}

  /// Appends to `out` what has become certain.
  void push(Part&& part, std::vector<Part>& out);
  void finish(std::vector<Part>& out);

  /// Whether what is held back would be calls if the output ended now.
  bool holds_calls() const { return reader_ != nullptr && reader_->complete(); }
  /// What the calls that finish() gave wear; empty: it gave none.
  const std::string& dress() const { return dress_; }

 private:
  /// False: `text_again_` is to be looked at again, before what follows.
  bool push_byte(char byte, std::vector<Part>& out);
  void push_content(std::string text, std::vector<Part>& out);
  void reject(std::vector<Part>& out);
  void give(std::string_view text, std::vector<Part>& out);
  void release(std::vector<Part>& out);

  OfferedTools offered_;
  std::unique_ptr<DressReader> reader_;  // of held_
  bool in_code_ = false;                 // the text has opened a code fence: nothing in it is a call
  int line_backticks_ = 0;               // at the beginning of the text's last line; -1: other text has come
  bool line_begins_ = true;              // only white space has come since the beginning, a line end or another part
  std::string space_;                    // held back: it parts text from a call
  std::string held_;
  std::string text_again_;
  int32_t calls_ = 0;  // of the answer, so far
  std::string dress_;
};

}  // namespace cairn::chat
