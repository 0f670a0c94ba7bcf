/// Parses a model's output, as it comes, into content, reasoning and tool calls.
///
/// The parts do not depend on how the text is cut into deltas. A call's name is emitted as soon as it is known, and its
/// arguments as they come, as JSON whatever the model's format. Text is held back only as long as it may begin a
/// marker; whitespace between reasoning, content and calls belongs to none of them. A block that turns out to be no
/// call becomes content, or reasoning, unchanged. A call that is cut or broken stays so (CallState). Time is linear;
/// nothing throws; bounds are in output_parts.h.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output/dressed_calls.h"
#include "chat/output/reasoning.h"
#include "chat/output_parts.h"
#include "chat/tool_calls/format.h"

namespace cairn::chat {

struct OutputFormat {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
};

/// Detects the format from tokenizer.chat_template. If the template shows no format of calls, or there is none: Hermes,
/// which most models know best, and <think>.
OutputFormat detect_output_format(std::string_view template_source);

/// Whether a template of this format has the marks of its thinking.
bool speaks_of_thinking(const OutputFormat& format, std::string_view template_source);

/// Parses one answer. Not thread-safe.
class OutputParser {
 public:
  /// `tools` in OpenAI's shape, or null. `prompt` is the rendered prompt or its end, which may have opened the
  /// thinking. A request without tools passes `format.tools` kNone. Text that is forced on the model also goes through
  /// feed().
  /// `offered`: the tools of which calls in another dress are read too.
  OutputParser(const OutputFormat& format, const nlohmann::ordered_json& tools, std::string_view prompt,
               OfferedTools offered = {});
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;
  ~OutputParser();

  /// `text` must show special tokens. Appends to `parts`; a call is ended before another begins.
  void feed(std::string_view text, std::vector<Part>& parts);
  /// What has been fed last is forced on the model, which has begun a call with it, or its name: whatever comes now
  /// belongs to the call, broken or not, and is no text.
  void expect_call();
  /// Ends the output, for whatever reason: nothing is held back any more, and an open call is cut. Call it once.
  void finish(std::vector<Part>& parts);

  /// Whether the next text would be reasoning, if no marker comes.
  bool in_reasoning() const;
  /// Whether the next bytes are a call's markup, names or numbers, for which greedy sampling is best, and not text.
  /// Only for formats that use this (ToolStyle::syntax_mark).
  bool in_syntax() const;
  /// Whether text is held back that becomes calls if the output ends now (dressed_calls.h).
  bool holds_calls() const { return dressed_ != nullptr && dressed_->holds_calls(); }
  /// After the end: what calls in another dress wore, for the log; empty: there were none.
  std::string_view dress() const { return dressed_ == nullptr ? std::string_view() : dressed_->dress(); }
  /// The text that ends the thinking, on lines of its own where models that were trained to think write it so; empty if
  /// the format has none.
  std::string reasoning_close() const;

  class StreamParser;

 private:
  OutputFormat format_;
  std::unique_ptr<StreamParser> stream_parser_;
  std::unique_ptr<DressedCalls> dressed_;  // null: no other dress is read
  std::vector<Part> own_;                  // scratch: parts of the model's own format
};

/// Reads one way of writing output, byte by byte.
class OutputParser::StreamParser {
 public:
  virtual ~StreamParser() = default;
  virtual void push(char byte) = 0;
  virtual void finish() = 0;
  virtual bool in_reasoning() const = 0;
  virtual bool in_syntax() const { return false; }
  virtual void expect_call() {}
  void attach(std::vector<Part>& parts) { parts_.attach(parts); }

 protected:
  explicit StreamParser(tool_call::ToolSchemas schemas) : parts_(std::move(schemas)) {}
  tool_call::PartWriter parts_;
};

}  // namespace cairn::chat
