#include "chat/output/output_parser.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chat/output/harmony_parser.h"
#include "chat/output/marker_parser.h"

namespace cairn::chat {

OutputFormat detect_output_format(std::string_view template_source) {
  OutputFormat format{ToolFormat::kHermes, ReasoningFormat::kThink};
  const auto recognises = [&](const auto& style) { return style.matches(template_source); };
  const auto styles = tool_call::tool_styles();
  const auto tools = std::ranges::find_if(styles, [&](const auto* style) { return recognises(*style); });
  if (tools != styles.end()) format.tools = (*tools)->format;
  const auto thinking = std::ranges::find_if(reasoning_styles(), recognises);
  if (thinking != reasoning_styles().end()) format.reasoning = thinking->format;
  if (format.tools == ToolFormat::kHarmony) format.reasoning = ReasoningFormat::kHarmony;
  return format;
}

bool speaks_of_thinking(const OutputFormat& format, std::string_view template_source) {
  const ReasoningStyle* style = find_style(format.reasoning);
  const auto speaks_of = [&](std::string_view marker) { return !marker.empty() && template_source.contains(marker); };
  return format.reasoning == ReasoningFormat::kHarmony ||
         (style != nullptr && (speaks_of(style->open) || speaks_of(style->close)));
}

OutputParser::OutputParser(const OutputFormat& format, const nlohmann::ordered_json& tools, std::string_view prompt,
                           OfferedTools offered)
    : format_(format) {
  if (offered.tools != nullptr) dressed_ = std::make_unique<DressedCalls>(std::move(offered));
  tool_call::ToolSchemas schemas(tools);
  if (format.tools == ToolFormat::kHarmony || format.reasoning == ReasoningFormat::kHarmony)
    stream_parser_ = std::make_unique<HarmonyParser>(std::move(schemas), format.tools == ToolFormat::kHarmony, prompt);
  else
    stream_parser_ = std::make_unique<MarkerParser>(std::move(schemas), tool_call::find_style(format.tools),
                                                    find_style(format.reasoning), prompt);
}

OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;
OutputParser::~OutputParser() = default;

void OutputParser::feed(std::string_view text, std::vector<Part>& parts) {
  std::vector<Part>& own = dressed_ == nullptr ? parts : own_;
  stream_parser_->attach(own);
  for (const char byte : text) stream_parser_->push(byte);
  if (dressed_ == nullptr) return;
  for (Part& part : own_) dressed_->push(std::move(part), parts);
  own_.clear();
}

void OutputParser::finish(std::vector<Part>& parts) {
  stream_parser_->attach(dressed_ == nullptr ? parts : own_);
  stream_parser_->finish();
  if (dressed_ == nullptr) return;
  for (Part& part : own_) dressed_->push(std::move(part), parts);
  own_.clear();
  dressed_->finish(parts);
}

void OutputParser::expect_call() { stream_parser_->expect_call(); }

bool OutputParser::in_reasoning() const { return stream_parser_->in_reasoning(); }

bool OutputParser::in_syntax() const { return stream_parser_->in_syntax(); }

std::string OutputParser::reasoning_close() const {
  if (format_.reasoning == ReasoningFormat::kHarmony) return std::string(kHarmonyAnswer);
  const ReasoningStyle* style = find_style(format_.reasoning);
  if (style == nullptr) return {};
  return style->close.starts_with("</") ? "\n" + std::string(style->close) + "\n\n" : std::string(style->close);
}

}  // namespace cairn::chat
