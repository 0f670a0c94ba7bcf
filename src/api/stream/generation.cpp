#include "api/stream/generation.h"

#include <algorithm>
#include <utility>

#include "api/exchange.h"
#include "api/serialization/json_text.h"
#include "engine/output/event_channel.h"
#include "net/failure_log.h"

namespace cairn::api {
namespace {

class HttpSink final : public ResponseSink {
 public:
  HttpSink(std::shared_ptr<net::HttpResponse> response, ErrorFormat errors)
      : response_(std::move(response)), errors_(errors) {}
  std::string_view request_id() const override { return response_->request_id(); }
  void begin(net::StreamFormat form) override { response_->begin_events({}, form); }
  void write(std::string_view bytes) override { response_->write(bytes); }
  void end() override { response_->end(); }
  void send(std::string body) override { response_->send(200, "application/json", std::move(body)); }
  void fail(const Error& error) override { send_error(*response_, error, errors_); }
  void abandon() override { response_->end(); }  // of a stream; dropping the response says the rest

 private:
  std::shared_ptr<net::HttpResponse> response_;
  const ErrorFormat errors_;
};

/// Choices of one prompt have seeds of their own (choice_requests), of which the first is the answer's.
bool begins_prompt(const Answer& answer, const engine::GenerateRequest& request) {
  return request.sampling.seed == answer.requests.front().sampling.seed;
}

}  // namespace

std::string prompt_path(std::string_view field, size_t prompt, size_t prompts) {
  return prompts > 1 ? fmt::format("{}[{}]", field, prompt) : std::string(field);
}

int64_t held_bytes(const engine::GenerateRequest& request) {
  const auto pending = static_cast<int64_t>(engine::kPendingTokensMax);
  const int64_t tokens = request.max_tokens < 0 ? pending : std::min<int64_t>(request.max_tokens, pending);
  const int64_t each =
      sizeof(engine::TokenEvent) + sizeof(sampling::TokenLogprob) * static_cast<int64_t>(request.sampling.top_logprobs);
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t score =
      request.prompt_logprobs
          ? static_cast<int64_t>(sizeof(engine::PromptScore) +
                                 sizeof(sampling::TokenLogprob) * static_cast<size_t>(*request.prompt_logprobs))
          : 0;
  return prompt * (2 * static_cast<int64_t>(sizeof(TokenId)) + score) + tokens * each;
}

void Generation::start(const Exchange& exchange, Answer answer) {
  auto sink = std::make_unique<HttpSink>(exchange.response, exchange.errors);
  answer.warnings = exchange.context.wanted_warnings();
  answer.record = exchange.context.record();
  ResponseStream::start(exchange.response, std::make_shared<Generation>(std::move(answer), std::move(sink)));
}

Generation::Generation(Answer answer, std::unique_ptr<ResponseSink> sink)
    : answer_(std::move(answer)),
      record_(answer_.record ? answer_.record : std::make_shared<RequestRecord>(RequestFacts{})),
      serializer_(*answer_.serializer),
      sink_(std::move(sink)) {
  int64_t bytes = answer_.share.bytes();
  int64_t prompt_tokens = 0;
  for (const auto& request : answer_.requests) {
    bytes += held_bytes(request);
    if (begins_prompt(answer_, request)) prompt_tokens += static_cast<int64_t>(request.prompt.size());
  }
  record_->answering(answer_.engine->model(), prompt_tokens, static_cast<int32_t>(answer_.requests.size()),
                     serializer_.streams());
  if (!answer_.share.grow_to(bytes)) error_ = no_request_bytes();
}

Generation::~Generation() {
  if (listed_ != nullptr) answer_.listing.list->remove(std::string(listed_->id));
}

void Generation::list_as_running() {
  if (answer_.listing.list == nullptr || answer_.requests.empty()) return;
  RunningRequest request{.id = answer_.requests.front().id,
                         .model = answer_.listing.model,
                         .choices = static_cast<int32_t>(answer_.requests.size()),
                         .prompt_tokens = static_cast<int64_t>(answer_.requests.front().prompt.size()),
                         .begun = std::chrono::steady_clock::now()};
  listed_ = answer_.listing.list->add(std::move(request), *this);
}

Progress Generation::begin(std::function<void()> wake) {
  wake_ = std::move(wake);
  const auto refuse = [&](const Error& error) {
    choices_.clear();  // streams submitted before are cancelled
    record_->failed(error);
    sink_->fail(error);
    return Progress::kOver;
  };
  if (error_) return refuse(*error_);
  list_as_running();
  std::vector<bool> counts_prompt;
  for (const auto& request : answer_.requests) counts_prompt.push_back(begins_prompt(answer_, request));
  for (auto& request : std::exchange(answer_.requests, {})) {
    auto stream = answer_.engine->submit(std::move(request));
    if (!stream) return refuse(with_prompt_path(std::move(stream).error(), counts_prompt));
    choices_.push_back({EventReader(std::move(*stream)), counts_prompt[choices_.size()]});
  }
  if (serializer_.streams()) sink_->begin(serializer_.stream_format());
  serializer_.on_start([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  std::string beginning = serializer_.begin();
  if (serializer_.streams()) write(std::move(beginning));
  for (auto& choice : choices_) choice.events.stream().on_events(wake_);
  return Progress::kWaits;
}

Error Generation::with_prompt_path(Error error, const std::vector<bool>& begins) const {
  if (!error.overflow) return error;
  const auto so_far = std::count(begins.begin(), begins.begin() + std::ssize(choices_) + 1, true);
  const auto all = std::ranges::count(begins, true);
  error.at = prompt_path(answer_.prompt_field, static_cast<size_t>(so_far - 1), static_cast<size_t>(all));
  return error;
}

void Generation::fail(const Error& error) {
  choices_.clear();
  if (said_all_) return;
  error_ = error;
  say_end();
}

void Generation::abandon() noexcept {
  choices_.clear();
  sink_->abandon();
  sink_.reset();
}

void Generation::cancel() {
  cancelled_ = true;
  for (auto& choice : choices_) choice.events.stream().cancel();
}

void Generation::hold(size_t texts, size_t logprobs) {
  const int64_t bytes = static_cast<int64_t>(texts) + serializer_.kept_logprob_bytes() * static_cast<int64_t>(logprobs);
  if (!answer_.share.grow_to(answer_.share.bytes() + bytes)) error_ = no_request_bytes();
}

void Generation::hold(const engine::TokenEvent& event) {
  hold(2 * event.text.size() + sizeof(TokenId), event.top.size());
  text_bytes_ += event.text.size();
  if (listed_ != nullptr && listed_->tokens++ == 0) listed_->first_token = std::chrono::steady_clock::now();
  if (serializer_.streams()) return;
  if (const Result<void> fits = sink_->fits(text_bytes_); !fits) error_ = fits.error();
}

Progress Generation::forward_scores(size_t index, size_t room, const Slice& slice, std::string& bytes) {
  while (!error_) {
    if (bytes.size() >= room) return Progress::kNoRoom;
    if (slice.over()) return Progress::kNoTime;
    const std::span<engine::PromptScore> scores = choices_[index].events.take_scores(kScoresAtOnce);
    if (scores.empty()) break;
    for (const engine::PromptScore& score : scores) hold(0, 1 + score.top.size());
    bytes += serializer_.scores(static_cast<int>(index), scores);
  }
  return Progress::kWaits;
}

Progress Generation::forward(size_t index, size_t room, const Slice& slice, std::string& bytes) {
  Choice& choice = choices_[index];
  if (choice.finished) return Progress::kWaits;
  // One event is often all that there is: then its text is not copied.
  const auto append = [&](std::string&& text) { bytes.empty() ? bytes = std::move(text) : bytes += text; };
  EventReader& events = choice.events;
  const auto tell_prefill = [&] {
    if (const auto progress = events.take_prefill()) append(serializer_.prefill(static_cast<int>(index), *progress));
  };
  while (const engine::TokenEvent* event = error_ ? nullptr : events.next()) {
    tell_prefill();
    if (const Progress told = forward_scores(index, room, slice, bytes); told != Progress::kWaits) return told;
    hold(*event);
    record_->token(event->text, index == 0);
    ++choice.tokens;
    append(serializer_.token(static_cast<int>(index), events.take()));
  }
  tell_prefill();
  if (const Progress told = forward_scores(index, room, slice, bytes); told != Progress::kWaits) return told;
  engine::Finish* finish = error_ ? nullptr : events.finish();
  if (finish == nullptr) return Progress::kWaits;
  if (bytes.size() >= room) return Progress::kNoRoom;
  choice.finished = true;
  record_->finished(*finish, choice.tokens, choice.counts_prompt);
  const bool cancelled = finish->reason == engine::FinishReason::kCancelled;
  if (finish->reason == engine::FinishReason::kError) {
    error_ = std::move(finish->error);
  } else if (cancelled && !cancelled_) {
    error_ = server_stops();
  } else if (cancelled && !serializer_.finishes_cancelled()) {
    error_ = Error{Code::kCancelled, "the answer has been cancelled", {}};
  } else {
    append(serializer_.finish(static_cast<int>(index), std::move(*finish)));
  }
  return Progress::kWaits;
}

Progress Generation::advance(const Slice& slice) {
  if (settled_) return end(slice);
  const auto begin = std::chrono::steady_clock::now();
  const bool streams = serializer_.streams();
  const size_t room = streams ? slice.room : SIZE_MAX;
  std::string bytes;
  Progress progress = Progress::kWaits;
  for (size_t i = 0; i < choices_.size() && progress == Progress::kWaits && !error_; ++i) {
    const size_t index = (first_ + i) % choices_.size();
    progress = forward(index, room, slice, bytes);
    if (progress != Progress::kWaits) first_ = index;
  }
  if (streams) write(std::move(bytes));
  record_->parsed(std::chrono::steady_clock::now() - begin);
  const bool finished = progress == Progress::kWaits && std::ranges::all_of(choices_, &Choice::finished);
  return error_ || finished ? end(slice) : progress;
}

Progress Generation::end(const Slice& slice) {
  if (!settled_) {
    choices_.clear();  // cancels what still runs
    settled_ = std::make_shared<std::atomic<bool>>(false);
    const bool waits = serializer_.settle(error_ ? &*error_ : nullptr, [settled = settled_, wake = wake_] {
      settled->store(true);
      wake();
    });
    if (!waits) settled_->store(true);
  }
  if (!settled_->load()) return Progress::kWaits;
  if (!serializer_.streams() && slice.room == 0) return Progress::kNoRoom;
  say_end();
  return Progress::kOver;
}

void Generation::say_end() {
  const bool streams = serializer_.streams();
  if (error_) record_->failed(*error_);
  if (error_ && !streams) {
    sink_->fail(*error_);
    said_all_ = true;
    return;
  }
  if (error_) {
    if (const int status = wire_error(error_->code).status; net::is_failure(status))
      net::log_failure(sink_->request_id(), status, error_->message);
  }
  std::string bytes = error_ ? serializer_.failure(*error_) : serializer_.done();
  if (streams) {
    write(std::move(bytes));
    sink_->end();
  } else {
    answer_.share.shrink_to(0);  // net/ counts what waits to be sent
    sink_->send(with_warnings(std::move(bytes), answer_.warnings));
  }
  said_all_ = true;
}

void Generation::write(std::string bytes) {
  if (!answer_.warnings.empty() && add_to_first_event(bytes, answer_.warnings)) answer_.warnings.clear();
  sink_->write(bytes);
}

}  // namespace cairn::api
