#include "chat/output/harmony_parser.h"

#include <algorithm>
#include <array>

#include "chat/tool_calls/characters.h"

namespace cairn::chat {
namespace {

using tool_call::is_space;
using tool_call::trim;

enum MarkerIndex { kStart, kChannel, kConstrain, kMessage, kEnd, kCall, kReturn };
constexpr std::array<std::string_view, 7> kMarkers = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
                                                      "<|end|>",   "<|call|>",    "<|return|>"};
constexpr size_t kHeaderBytesMax = 512;
constexpr std::string_view kFunctions = "functions.";
constexpr std::string_view kRole = "assistant";

// What is behind "to=" in a header's text: a recipient, and the type of its text; empty if there is no recipient.
std::string_view addressed(std::string_view text) {
  constexpr std::string_view kTo = "to=";
  const size_t at = text.find(kTo);
  if (at == std::string_view::npos || (at > 0 && !is_space(text[at - 1]))) return {};
  text.remove_prefix(at + kTo.size());
  return text.empty() || is_space(text.front()) ? std::string_view() : text;
}

// The name of a recipient before the type of its text, " json" or none. A name with spaces must be a tool's.
std::string_view recipient_name(std::string_view text, const tool_call::ToolSchemas& schemas) {
  constexpr std::string_view kType = " json";
  const auto end_trimmed = [](std::string_view whole) {
    while (!whole.empty() && is_space(whole.back())) whole.remove_suffix(1);
    return whole;
  };
  std::string_view name = end_trimmed(text);
  if (name.ends_with(kType)) name = end_trimmed(name.substr(0, name.size() - kType.size()));
  if (schemas.has(name)) return name;
  return text.substr(0, static_cast<size_t>(std::ranges::find_if(text, is_space) - text.begin()));
}

// What comes behind the role, with or without a space: an answer may begin there, and some vocabularies leave out the
// space at the beginning of a text.
std::string_view behind_role(std::string_view text) {
  text = trim(text);
  return text.starts_with(kRole) ? trim(text.substr(kRole.size())) : text;
}

// Whether this may be the beginning of a header without a channel so far: "assistant", " to=functions.name".
bool may_be_header(std::string_view text) {
  if (kRole.starts_with(trim(text))) return true;
  text = behind_role(text);
  constexpr std::string_view kTo = "to=";
  return text.size() < kTo.size() ? kTo.starts_with(text) : text.starts_with(kTo);
}

}  // namespace

HarmonyParser::HarmonyParser(tool_call::ToolSchemas schemas, bool calls, std::string_view prompt)
    : StreamParser(std::move(schemas)), calls_(calls), matcher_(kMarkers) {
  // The prompt has begun the header, or more.
  const size_t start = prompt.rfind(kMarkers[kStart]);
  if (start == std::string_view::npos) return;
  std::vector<Part> unseen;
  attach(unseen);
  for (const char byte : prompt.substr(start + kMarkers[kStart].size())) push(byte);
  header_.clear();
}

void HarmonyParser::push(char byte) {
  std::string text;
  const int marker = matcher_.push(byte, text);
  if (!text.empty()) put(text);
  if (marker >= 0) found(marker);
}

void HarmonyParser::found(int marker) {
  const std::string_view text = kMarkers[static_cast<size_t>(marker)];
  switch (marker) {
    case kStart:
    case kChannel:
      if (marker == kChannel && state_ == State::kHeader && !in_channel_) {
        in_channel_ = true;
        header_ += text;
        return;
      }
      end_message();
      state_ = State::kHeader;
      header_ = text;
      in_channel_ = marker == kChannel;
      return;
    case kConstrain:
      if (state_ != State::kHeader) break;
      header_ += text;
      (in_channel_ ? channel_ : role_) += ' ';
      return;
    case kMessage:
      if (state_ == State::kHeader) return begin_body();
      break;
    default:
      return end_message();
  }
  put(text);
}

void HarmonyParser::begin_body() {
  const std::string_view in_role = addressed(behind_role(role_));
  std::string_view to = in_role.empty() ? addressed(channel_) : in_role;
  const std::string_view channel = trim(channel_);
  kind_ = channel.starts_with("analysis") ? PartKind::kReasoning : PartKind::kContent;
  state_ = State::kBody;
  if (to.empty()) {
    header_.clear();
    return;
  }
  const bool is_function = to.starts_with(kFunctions);
  if (is_function) to.remove_prefix(kFunctions.size());
  // The model's built-in tools, python and browser, are calls only if the client has given tools of these names.
  parts_.require_known_names(!is_function);
  header_ += kMarkers[kMessage];
  if (!calls_ || !parts_.begin(recipient_name(to, parts_.schemas()))) return reject_header();
  parts_.begin_block(std::exchange(header_, {}));
  arguments_ = tool_call::ArgumentWriter();
  arguments_done_ = broken_ = false;
  since_part_bytes_ = 0;
  state_ = State::kCall;
}

void HarmonyParser::reject_header() {
  state_ = State::kBody;
  kind_ = PartKind::kContent;
  parts_.content(std::exchange(header_, {}));
}

void HarmonyParser::end_message() {
  if (state_ == State::kHeader) reject_header();
  // What ends the message within the arguments has broken them.
  if (parts_.call_open()) {
    if (!broken_) parts_.arguments(arguments_.unwritten());
    parts_.end(CallState::kBroken);
  }
  state_ = State::kBetween;
  header_.clear();
  role_.clear();
  channel_.clear();
  in_channel_ = false;
}

void HarmonyParser::put(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view byte = text.substr(i, 1);
    if (state_ == State::kBody) {
      if (kind_ == PartKind::kReasoning)
        parts_.reasoning(byte);
      else
        parts_.content(byte);
    } else if (state_ == State::kCall) {
      put_argument(byte[0]);
    } else if (state_ == State::kHeader) {
      header_ += byte;
      (in_channel_ ? channel_ : role_) += byte;
      if (header_.size() > kHeaderBytesMax || (!in_channel_ && !may_be_header(role_))) reject_header();
    } else if (!is_space(byte[0])) {
      state_ = State::kBody;
      kind_ = PartKind::kContent;
      parts_.content(byte);
    }
  }
}

void HarmonyParser::put_argument(char byte) {
  parts_.read(byte);
  if (broken_) return parts_.arguments(std::string_view(&byte, 1));
  if (!arguments_done_) {
    if (!arguments_.started() && is_space(byte)) return;
    const bool begins = arguments_.started() || byte == '{';
    std::string out;
    const auto result = arguments_.push(byte, out);
    if (begins) parts_.arguments(out);
    since_part_bytes_ = out.empty() ? since_part_bytes_ + 1 : 0;
    arguments_done_ = result == tool_call::ArgumentWriter::Result::kDone;
    if (arguments_done_) parts_.end(CallState::kWhole);
    broken_ = result == tool_call::ArgumentWriter::Result::kBad || !begins || since_part_bytes_ > kHeldBytesMax;
    if (broken_) parts_.arguments(begins ? std::string_view(arguments_.unwritten()) : std::string_view(&byte, 1));
    return;
  }
  if (is_space(byte)) return;
  state_ = State::kBody;
  kind_ = PartKind::kContent;
  parts_.content(std::string_view(&byte, 1));
}

void HarmonyParser::finish() {
  const std::string held(matcher_.held());
  matcher_.clear();
  put(held);
  // A header with its channel is syntax, even if its end is missing.
  if (state_ == State::kHeader && !in_channel_) reject_header();
  if (state_ == State::kHeader) header_.clear(), state_ = State::kBetween;
  if (parts_.call_open() && !broken_) {
    std::string out;
    arguments_.cut(out);
    parts_.arguments(out);
    parts_.end(CallState::kCut);
  }
  end_message();
}

}  // namespace cairn::chat
