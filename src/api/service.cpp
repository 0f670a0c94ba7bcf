#include "api/service.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "api/params/request_notes.h"
#include "api/store/file.h"
#include "api/store/recent_responses.h"
#include "api/store/turn_store.h"
#include "base/system/unwinding_reserve.h"
#include "base/text/json.h"
#include "chat/tool_calls/call_form.h"
#include "chat/tool_calls/format.h"
#include "net/http/content_coding.h"

namespace cairn::api {
namespace {

// Harmony addresses a message to a tool.
constexpr std::string_view kHarmonyCall = " to=";

/// Texts, as they are read, checked, rendered and cut into pieces, and a token for a byte at the worst.
constexpr int64_t kWorkingBytesPerByte = 8;
constexpr int64_t kRequestBytesMin = 16 << 20;
constexpr int64_t kRequestBytesMax = 1 << 30;
constexpr int64_t kAvailablePart = 8;

/// What a compressed body is taken for until it is read, so that it does not go for a small request.
constexpr int64_t kDecodedBytesPerByte = 8;

/// Unknown codings have been refused.
net::ContentCoding coding_of(const net::HttpRequest& request) {
  return net::content_coding(request.header("content-encoding")).value_or(net::ContentCoding::kIdentity);
}

/// Puts the body in the place of the compressed one. `share` is its memory.
Result<void> decode(net::HttpRequest& request, ByteShare& share) {
  const auto room_for = [&](size_t bytes) { return share.grow_to(static_cast<int64_t>(bytes)); };
  CAIRN_TRY(request.body,
            net::decode_body(coding_of(request), request.body, net::HttpLimits{}.body_bytes_max, room_for));
  share.shrink_to(static_cast<int64_t>(request.body.size()));
  return {};
}

}  // namespace

int64_t default_request_bytes(int64_t available_bytes) {
  return std::clamp(available_bytes / kAvailablePart, kRequestBytesMin, kRequestBytesMax);
}

int64_t working_bytes(std::string_view body) {
  const auto measure = measure_json(body);  // what is no JSON, or over a limit, is not read
  return static_cast<int64_t>(body.size()) * kWorkingBytesPerByte +
         (measure ? static_cast<int64_t>(measure->bytes) : 0);
}

Service::Service(const Registry& registry, int64_t request_bytes)
    : registry_(registry),
      bytes_(std::make_shared<ByteBudget>(request_bytes)),
      response_store_(make_recent_responses()),
      storing_(1, std::numeric_limits<size_t>::max()),
      workers_(kWorkerThreads, kWaitingRequestsMax, [this] { give_memory_back(); }) {}

Result<void> Service::open_store(const std::string& path) {
  CAIRN_TRY(const auto file, StoreFile::open(path));
  CAIRN_TRY(response_store_, ResponseStore::open(file));
  CAIRN_TRY(auto turns, open_turn_store(file));
  turns_.set_store(std::move(turns));
  return {};
}

void Service::keep_recent_responses(int64_t bytes_max) {
  response_store_ = make_recent_responses({.bytes_max = bytes_max});
}

std::shared_ptr<const TextBan> Service::call_ban(const LoadedModel& model) {
  const std::lock_guard lock(call_bans_mutex_);
  const auto [found, made] = call_bans_.try_emplace(model.name);
  if (!made) return found->second;
  std::vector<std::string_view> texts;
  if (model.output_format.tools == ToolFormat::kHarmony) texts.push_back(kHarmonyCall);
  if (const auto* style = tool_call::find_style(model.output_format.tools)) {
    for (const auto& block_start : style->block_starts)
      if (!block_start.known_names_only) texts.push_back(block_start.text);
  }
  if (!texts.empty()) found->second = std::make_shared<const TextBan>(*model.tokenizer, texts);
  return found->second;
}

std::shared_ptr<const TextBan> Service::call_starts(const LoadedModel& model) {
  const std::lock_guard lock(call_bans_mutex_);
  const auto [found, made] = call_starts_.try_emplace(model.name);
  if (!made) return found->second;
  std::vector<std::string_view> texts;
  if (const auto* style = tool_call::find_style(model.output_format.tools)) {
    for (const tool_call::CallStart& start : tool_call::call_starts(*style)) texts.push_back(start.text);
  }
  if (!texts.empty()) found->second = std::make_shared<const TextBan>(*model.tokenizer, texts);
  return found->second;
}

std::shared_ptr<const AnswerVocabulary> Service::answer_vocabulary(const LoadedModel& model) {
  const std::lock_guard lock(answer_vocabularies_mutex_);
  std::shared_ptr<const AnswerVocabulary>& made = answer_vocabularies_[model.name];
  if (made == nullptr) made = std::make_shared<const AnswerVocabulary>(*model.tokenizer);
  return made;
}

void Service::hand_over(net::HttpRequest request, std::shared_ptr<net::HttpResponse> response, ErrorFormat format,
                        Handler handler) {
  const bool compressed = coding_of(request) != net::ContentCoding::kIdentity;
  const auto bytes = static_cast<int64_t>(request.body.size()) * (compressed ? kDecodedBytesPerByte : 1);
  auto job = [this, compressed, request = std::move(request), response, format, handler = std::move(handler)] mutable {
    if (response->closed()) return;
    answer_throws(*response, format, [&] {
      ByteShare decoded(bytes_);
      if (const auto done = compressed ? decode(request, decoded) : Result<void>(); !done)
        return send_error(*response, done.error(), format);
      ByteShare share(bytes_);
      if (!share.grow_to(working_bytes(request.body))) return send_error(*response, no_request_bytes(), format);
      const RequestNotes notes(strict_fields_, generation_defaults_);
      handler(*this, request, response);
    });
  };
  if (workers_.submit(std::move(job), bytes)) return;
  send_error(*response, {Code::kUnavailable, "too many requests wait to be read; try again later", {}}, format);
}

void Service::store_later(std::function<void()> work) { (void)storing_.submit(std::move(work), 0); }

void Service::stop() {
  kept_streams_.clear();
  workers_.stop();
  storing_.stop();
}

void Service::give_memory_back() {
  refill_unwinding_reserve();
  const int64_t given_back = bytes_->given_back();
  const bool much = given_back - trimmed_at_.load(std::memory_order_relaxed) >= kTrimBytes;
  if (!much && !trims_again_.load(std::memory_order_relaxed)) return;
  // Once more a moment later: a share may be given back before what it was for.
  trims_again_.store(much, std::memory_order_relaxed);
  if (much) trimmed_at_.store(given_back, std::memory_order_relaxed);
  ::malloc_trim(0);
}

}  // namespace cairn::api
