#include "api/service.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "api/params/request_notes.h"
#include "api/store/file.h"
#include "api/store/recent_responses.h"
#include "api/store/turn_store.h"
#include "api/telemetry/request_record.h"
#include "base/system/unwinding_reserve.h"
#include "base/text/json.h"
#include "net/http/content_coding.h"

namespace cairn::api {
namespace {

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
      const RequestNotes notes(
          strict_fields_, [this](auto model) { return generation_defaults(model); },
          std::static_pointer_cast<RequestRecord>(request.context));
      handler(*this, request, response);
    });
  };
  if (workers_.submit(std::move(job), bytes)) return;
  send_error(*response, {Code::kUnavailable, "too many requests wait to be read; try again later", {}}, format);
}

void Service::set_generation_defaults(const std::string& model, const GenerationDefaults& defaults) {
  const std::lock_guard lock(model_defaults_mutex_);
  model_defaults_[model] = defaults;
}

GenerationDefaults Service::generation_defaults(std::string_view model) const {
  const auto models = registry_.list();
  const auto found = std::ranges::find_if(models, [&](const auto& each) {
    return models.size() == 1 || each->name == model || std::ranges::find(each->aliases, model) != each->aliases.end();
  });
  if (found == models.end()) return generation_defaults_;
  GenerationDefaults defaults = generation_defaults_;
  {
    const std::lock_guard lock(model_defaults_mutex_);
    const auto own = model_defaults_.find((*found)->name);
    if (own != model_defaults_.end()) defaults = own->second.or_else(generation_defaults_);
  }
  return defaults.or_else(recommended_by((*found)->file.metadata()));
}

void Service::store_later(std::function<void()> work) { (void)storing_.submit(std::move(work), 0); }

void Service::stop() {
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
