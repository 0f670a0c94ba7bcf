#include "api/anthropic/serializer.h"

#include "api/anthropic/content.h"
#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "base/hash.h"
#include "base/text/json.h"

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kPing = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

// An event's name is its type.
std::string event_text(const ordered_json& value) {
  return fmt::format("event: {}\ndata: {}\n\n", value["type"].get_ref<const std::string&>(), dump(value));
}

// Clients keep it and send it back; nobody checks it, as history is data here.
std::string signature(const std::string& thinking) {
  constexpr uint64_t kSeed = 0x6361'6972'6e00'0001;
  return fmt::format("{:016x}{:016x}", hash64(thinking, kSeed), hash64(thinking, kSeed + 1));
}

std::string_view stop_reason(const chat::ChatFinish& finish, const ResponseOptions& options) {
  switch (finish.reason) {
    case chat::ChatFinishReason::kStop:
      return "end_turn";
    case chat::ChatFinishReason::kStopString:
      return "stop_sequence";
    case chat::ChatFinishReason::kToolCalls:
      return "tool_use";
    case chat::ChatFinishReason::kLength:
      if (finish.usage.completion_tokens < options.max_tokens) return "model_context_window_exceeded";
      break;
    case chat::ChatFinishReason::kCutCall:
    case chat::ChatFinishReason::kRepetition:
    case chat::ChatFinishReason::kCancelled:
      break;
  }
  return "max_tokens";
}

ordered_json usage_json(const engine::Usage& usage, int32_t reasoning_tokens) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens},
          {"cache_creation_input_tokens", usage.cache_write_tokens},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"thinking_tokens", reasoning_tokens}}}};
}

}  // namespace

net::StreamFormat MessagesSerializer::stream_format() const { return {.keep_alive = kPing}; }

ordered_json MessagesSerializer::message(ordered_json content, ordered_json usage) const {
  ordered_json value = {{"id", options_.id}, {"type", "message"}, {"role", "assistant"}, {"model", options_.model}};
  value["content"] = std::move(content);
  value.update(stop_);
  value["usage"] = std::move(usage);
  return value;
}

std::string MessagesSerializer::begin() {
  if (!options_.stream) return {};
  // How much of the prompt is cached is known with the last event.
  const ordered_json usage = usage_json({.prompt_tokens = options_.prompt_tokens}, 0);
  return event_text({{"type", "message_start"}, {"message", message(ordered_json::array(), usage)}}).append(kPing);
}

std::string MessagesSerializer::begin_block(Block block) {
  std::string bytes = end_block();
  open_ = std::move(block);
  if (!options_.stream) return bytes;
  ordered_json shown;
  if (open_->kind == chat::PartKind::kContent) {
    shown = {{"type", "text"}, {"text", ""}};
  } else if (open_->kind == chat::PartKind::kReasoning) {
    shown = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
  } else {
    shown = {{"type", "tool_use"}, {"id", open_->id}, {"name", open_->name}, {"input", ordered_json::object()}};
  }
  return bytes + event_text({{"type", "content_block_start"}, {"index", index_}, {"content_block", std::move(shown)}});
}

std::string MessagesSerializer::add(chat::PartKind kind, const std::string& text) {
  if (text.empty()) return {};
  std::string bytes;
  if (!open_ || open_->kind != kind) bytes = begin_block({.kind = kind, .text = {}, .id = {}, .name = {}});
  open_->text += text;
  if (!options_.stream || (kind == chat::PartKind::kReasoning && !options_.shows_thinking)) return bytes;
  ordered_json delta;
  if (kind == chat::PartKind::kContent) {
    delta = {{"type", "text_delta"}, {"text", text}};
  } else if (kind == chat::PartKind::kReasoning) {
    delta = {{"type", "thinking_delta"}, {"thinking", text}};
  } else {
    delta = {{"type", "input_json_delta"}, {"partial_json", text}};
  }
  return bytes + event_text({{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(delta)}});
}

std::string MessagesSerializer::end_block() {
  if (!open_) return {};
  const Block block = *std::exchange(open_, std::nullopt);
  std::string bytes;
  if (options_.stream) {
    if (block.kind == chat::PartKind::kReasoning) {
      bytes = event_text({{"type", "content_block_delta"},
                          {"index", index_},
                          {"delta", {{"type", "signature_delta"}, {"signature", signature(block.text)}}}});
    }
    bytes += event_text({{"type", "content_block_stop"}, {"index", index_}});
  } else if (block.kind == chat::PartKind::kContent) {
    content_.push_back({{"type", "text"}, {"text", block.text}});
  } else if (block.kind == chat::PartKind::kReasoning) {
    content_.push_back({{"type", "thinking"},
                        {"thinking", options_.shows_thinking ? block.text : ""},
                        {"signature", signature(block.text)}});
  } else if (auto input = read_json(block.text); input && input->is_object()) {
    content_.push_back({{"type", "tool_use"}, {"id", block.id}, {"name", block.name}, {"input", *std::move(input)}});
  } else {
    content_.push_back({{"type", "text"}, {"text", fmt::format("{} {}", block.name, block.text)}});
  }
  ++index_;
  return bytes;
}

std::string MessagesSerializer::parts(int, std::span<const chat::Part> parts, const engine::TokenEvent*) {
  std::string bytes;
  for (const chat::Part& part : parts) {
    switch (part.kind) {
      case chat::PartKind::kContent:
      case chat::PartKind::kReasoning:
        bytes += add(part.kind, part.text);
        break;
      case chat::PartKind::kCallBegin:
        bytes += begin_block(
            {.kind = chat::PartKind::kCallBegin, .text = {}, .id = sent_call_id(part.id), .name = part.text});
        break;
      case chat::PartKind::kArguments:
        bytes += add(chat::PartKind::kCallBegin, part.text);
        break;
      case chat::PartKind::kCallEnd:
        if (part.state != chat::CallState::kWhole && !options_.stream) open_->become_text(part.text);
        bytes += end_block();
        break;
    }
  }
  return bytes;
}

std::string MessagesSerializer::finish(int, chat::ChatFinish&& finish) {
  stop_["stop_reason"] = stop_reason(finish, options_);
  if (finish.reason == chat::ChatFinishReason::kStopString) stop_["stop_sequence"] = finish.stop;
  if (!options_.marks_cache) finish.usage.cache_write_tokens = 0;
  usage_ = usage_json(finish.usage, finish.reasoning_tokens);
  return end_block();
}

std::string MessagesSerializer::done() {
  if (!options_.stream) return dump(message(std::move(content_), std::move(usage_)));
  return event_text({{"type", "message_delta"}, {"delta", stop_}, {"usage", usage_}}) +
         event_text({{"type", "message_stop"}});
}

std::string MessagesSerializer::failure(const Error& error) {
  return event_text(error_body(error, ErrorFormat::kAnthropic));
}

}  // namespace cairn::api::anthropic
