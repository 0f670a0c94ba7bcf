/// A model's output, as it comes -> content, reasoning and tool calls.
///
/// What the parts are does not depend on how the text is cut into deltas. A call's name comes as soon as it is known,
/// its arguments as they come, as JSON whatever the model's format. Text that may begin a marker is held back only as
/// long as it may; whitespace that parts reasoning, content and calls belongs to none of them. What is no call after
/// all is content, or reasoning, as it was before. Time is linear; nothing throws; bounds are in output_parts.h.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "chat/output/output_parts.h"
#include "chat/output/reasoning.h"
#include "chat/tool_calls/format.h"

namespace cairn {

struct OutputFormat {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
};

/// From tokenizer.chat_template. A template that shows no format of calls, or no template: Hermes, which most models
/// know best, and <think>.
OutputFormat detect_output_format(std::string_view template_source);

/// One answer's. Not thread-safe.
class OutputParser {
 public:
  /// `tools` in OpenAI's shape, or null. `prompt` is the rendered prompt or its end, which may have opened the
  /// thinking. A request without tools wants `format.tools` kNone. Text that is forced on the model goes through feed()
  /// too.
  OutputParser(const OutputFormat& format, const nlohmann::ordered_json& tools, std::string_view prompt);
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;
  ~OutputParser();

  /// The output's text must show special tokens. Appends to `parts`; a call that begins is ended before another begins.
  void feed(std::string_view text, std::vector<Part>& parts);
  /// The output has ended, for whatever reason: nothing is held back any more, an open call is closed. Call it once.
  void finish(std::vector<Part>& parts);

  /// What the next text would be, if nothing else is said.
  bool in_reasoning() const;
  /// Whether what comes next is a call's markup, names or numbers, which a model does well to write as it is most sure
  /// of, and not text. Only for formats that ask for that (ToolStyle::syntax_mark).
  bool in_syntax() const;
  /// What ends the thinking, for budgets; empty if the format has none.
  std::string_view reasoning_close() const;

  class StreamParser;

 private:
  OutputFormat format_;
  std::unique_ptr<StreamParser> stream_parser_;
};

/// Reads one way of writing output, byte by byte.
class OutputParser::StreamParser {
 public:
  virtual ~StreamParser() = default;
  virtual void push(char byte) = 0;
  virtual void finish() = 0;
  virtual bool in_reasoning() const = 0;
  virtual bool in_syntax() const { return false; }
  void attach(std::vector<Part>& parts) { parts_.attach(parts); }

 protected:
  explicit StreamParser(tool_call::ToolSchemas schemas) : parts_(std::move(schemas)) {}
  tool_call::PartWriter parts_;
};

}  // namespace cairn
