#include "stream.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/chat/run.h"
#include "api/openai/completion_prompts.h"
#include "api/serialization/json_text.h"
#include "base/system/random_id.h"
#include "guard.h"

namespace cairn::library {
namespace {

/// Takes whatever is there.
constexpr api::Slice kWholeSlice{std::numeric_limits<size_t>::max(), std::chrono::steady_clock::time_point::max()};

}  // namespace

void Waker::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  condition_.notify_all();
}

bool Waker::wait(std::optional<std::chrono::steady_clock::time_point> deadline) {
  std::unique_lock lock(mutex_);
  const auto woken = [&] { return woken_; };
  if (!deadline) {
    condition_.wait(lock, woken);
  } else if (!condition_.wait_until(lock, *deadline, woken)) {
    return false;
  }
  woken_ = false;
  return true;
}

/// Keeps what the answer comes to. It is called where the stream's mutex is held.
class Stream::Sink final : public api::ResponseSink {
 public:
  explicit Sink(Stream& stream) : stream_(stream) {}
  std::string_view request_id() const override { return {}; }
  void begin(net::StreamFormat) override {}
  void write(std::string_view) override {}
  void end() override {}
  void send(std::string body) override { stream_.body_ = std::move(body); }
  void fail(const Error& error) override { stream_.error_ = error; }
  void abandon() override { stream_.error_ = Error{Code::kOutOfMemory, {}, {}}; }

 private:
  Stream& stream_;
};

Result<std::unique_ptr<Stream>> Stream::chat(std::shared_ptr<Model> model, const std::string& text) {
  CAIRN_TRY(const nlohmann::ordered_json body, api::parse_object(text));
  api::RequestContext context = model->context();
  CAIRN_TRY(api::openai::OpenAiChatRequest request, api::openai::parse_chat(context, body));
  auto stream = std::make_unique<Stream>(std::move(model));
  auto options = api::openai::OpenAiChatOptions::of(request);
  const auto make = [&](const api::ChatStart& start) {
    return std::make_unique<ChatEvents>(stream->events_, start, std::move(options));
  };
  CAIRN_TRY(api::Answer answer, api::prepare_chat(stream->model_->service(), context, std::move(request.chat),
                                                  random_id("chatcmpl-"), make));
  CAIRN_TRY_VOID(stream->start(std::move(answer), context.warnings()));
  return stream;
}

Result<std::unique_ptr<Stream>> Stream::complete(std::shared_ptr<Model> model, const std::string& text) {
  CAIRN_TRY(const nlohmann::ordered_json body, api::parse_object(text));
  api::RequestContext context = model->context();
  CAIRN_TRY(const api::openai::CompletionRequest request, api::openai::parse_completion(context, body));
  const loader::SharedModel loaded = model->loaded();
  CAIRN_TRY(api::openai::PreparedCompletion prepared, api::openai::prepare_prompts(context, *loaded, request));
  auto stream = std::make_unique<Stream>(std::move(model));
  auto serializer =
      std::make_unique<CompletionEvents>(stream->events_, std::move(prepared.options), *loaded->tokenizer);
  CAIRN_TRY(api::Answer answer, api::prepare_completion(stream->model_->service(), loaded, std::move(prepared.requests),
                                                        request.form, std::move(serializer)));
  CAIRN_TRY_VOID(stream->start(std::move(answer), context.warnings()));
  return stream;
}

Result<void> Stream::start(api::Answer answer, const std::vector<std::string>& warnings) {
  warnings_ = warnings;
  answer.listing = {};  // a server's
  const std::lock_guard lock(mutex_);
  generation_ = std::make_shared<api::Generation>(std::move(answer), std::make_unique<Sink>(*this));
  catch_up([&] { return generation_->begin([waker = waker_] { waker->wake(); }); });
  if (error_) return std::unexpected(*error_);
  return {};
}

Stream::~Stream() {
  const std::lock_guard lock(mutex_);
  generation_.reset();  // cancels what still runs
}

void Stream::catch_up(const auto& work) {
  api::Progress progress = api::Progress::kOver;
  try {
    progress = work();
  } catch (...) {
    error_ = caught();
  }
  if (progress != api::Progress::kOver) return;
  over_ = true;
  generation_.reset();
}

void Stream::advance() {
  const std::lock_guard lock(mutex_);
  if (generation_ != nullptr) catch_up([&] { return generation_->advance(kWholeSlice); });
}

Result<const Event*> Stream::next(std::optional<std::chrono::steady_clock::time_point> deadline) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (!events_.empty()) {
        last_ = events_.take();
        return &last_;
      }
      if (error_) return std::unexpected(*error_);
      if (over_) {
        last_ = {.type = CAIRN_EVENT_END};
        return &last_;
      }
    }
    if (!waker_->wait(deadline)) return nullptr;
    advance();
  }
}

void Stream::cancel() {
  const std::lock_guard lock(mutex_);
  if (generation_ != nullptr) generation_->cancel();
}

bool Stream::cancelled() const {
  const std::lock_guard lock(mutex_);
  return events_.cancelled();
}

Result<std::string> Stream::response() const {
  const std::lock_guard lock(mutex_);
  if (error_) return std::unexpected(*error_);
  if (!over_)
    return fail(Code::kInvalidArgument,
                "the answer is not complete yet: take its events up to CAIRN_EVENT_END, or call cairn_stream_run()");
  if (events_.cancelled()) return fail(Code::kCancelled, "the answer has been cancelled");
  return body_;
}

std::string Stream::warnings() const { return api::dump(nlohmann::ordered_json(warnings_)); }
}  // namespace cairn::library
