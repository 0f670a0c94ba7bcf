#include "api/frames/session.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/event_reader.h"
#include "api/frames/events.h"
#include "api/frames/message.h"
#include "api/generation.h"
#include "api/post_once.h"
#include "base/log.h"
#include "chat/chat_prompt.h"
#include "chat/completion_prompt.h"
#include "net/failure_log.h"

namespace cairn::api::frames {
namespace {

/// All peers of the socket are the user that runs the server: one client to the engine, beside each address.
constexpr const char* kClient = "unix";

class Session;

/// How the engine's thread asks for a pump, once however many streams have events. It never holds the session, which
/// must end on the server's thread.
struct Waker {
  std::weak_ptr<Session> session;
  std::shared_ptr<net::FrameSender> sender;
  std::atomic<bool> posted = false;
};
void wake(const std::shared_ptr<Waker>& waker);

struct Running {
  std::string id;
  bool streams = true;
  bool cancelled = false;  // by the client
  EventReader events;
  std::string text;  // that no token event has said
  ByteShare share;
};

/// A message as it came.
struct Text {
  std::string text;
  std::string position;
};

/// And as a worker has read it, with the prompt's tokens.
struct Incoming {
  std::expected<Message, Refusal> message;
  Result<void> prompt;
};

Result<void> make_prompt(const Registry& registry, Generate& generate) {
  CAIRN_TRY(LoadedModel * model, registry.find(generate.model));
  GenerateRequest& request = generate.request;
  if (const auto* chat = std::get_if<ChatInput>(&generate.prompt)) {
    CAIRN_TRY(ChatPrompt prompt, chat_prompt(model->prompt_context(), *chat));
    request.prompt = std::move(prompt.tokens);
    for (auto& stop : chat_stops(model->prompt_context())) request.stop.push_back(std::move(stop));
  } else {
    CAIRN_TRY(request.prompt,
              completion_prompt_tokens(model->prompt_context(), std::get<std::string>(generate.prompt)));
  }
  return {};
}

Incoming refused(Error error) { return {std::unexpected(Refusal{{}, std::move(error)}), {}}; }

Incoming read(Service& service, std::string_view text) {
  try {
    ByteShare share(service.bytes());
    if (!share.grow_to(working_bytes(text))) return refused(no_request_bytes());
    Incoming read{parse_message(text), {}};
    if (read.message) {
      if (auto* generate = std::get_if<Generate>(&*read.message))
        read.prompt = make_prompt(service.registry(), *generate);
    }
    return read;
  } catch (...) {
    return refused(thrown_error());
  }
}

class Session final : public net::FrameSession, public std::enable_shared_from_this<Session> {
 public:
  Session(Service& service, std::shared_ptr<net::FrameSender> sender)
      : service_(service), sender_(std::move(sender)), share_(service.bytes()) {}

  void message(std::string_view text, std::string_view position) override;
  void failed(const Error& error) override { sender_->send(error_event({}, error)); }
  void input_ended() override {
    input_ended_ = true;
    end_if_done();
  }
  void closed() override {
    over_ = true;
    waiting_.clear();
    running_.clear();  // cancels
    share_ = {};
  }
  /// Runs `work` of this session, which something else has called; what it throws ends the connection.
  void guarded(FunctionRef<void()> work) noexcept;
  void pump();

 private:
  enum class Progress { kSaidAll, kNoRoom, kOver };

  /// Hands the next message to a worker, unless one has the last.
  void read_next();
  void take(Incoming&& incoming, std::string_view position);
  void handle(Generate&& generate, const Result<void>& prompt);
  void handle(Cancel&& cancel);
  void handle(Metrics&& metrics) { sender_->send(metrics_event(metrics.id, service_.registry())); }
  Result<std::unique_ptr<GenerateStream>> submit(Generate& generate, const Result<void>& prompt, ByteShare& share);
  std::vector<Running>::iterator find(std::string_view id) { return std::ranges::find(running_, id, &Running::id); }
  bool has_room() const { return sender_->unsent_bytes() < kUnsentBytesMax; }
  Progress forward(Running& run);
  void send_end(Running& run, Finish finish);
  void end_if_done() {
    if (input_ended_ && running_.empty() && waiting_.empty() && !reading_) sender_->end();
  }

  Service& service_;
  std::shared_ptr<net::FrameSender> sender_;
  std::shared_ptr<Waker> waker_;  // once something runs
  std::deque<Text> waiting_;      // to be read
  ByteShare share_;               // for those
  bool reading_ = false;          // a worker has one
  std::vector<Running> running_;  // who is next comes first
  bool input_ended_ = false;
  bool over_ = false;
};

void wake(const std::shared_ptr<Waker>& waker) {
  post_once(waker->posted, *waker->sender, [waker] {
    waker->posted.store(false, std::memory_order_release);
    if (const auto session = waker->session.lock()) session->guarded([&] { session->pump(); });
  });
}

void Session::guarded(FunctionRef<void()> work) noexcept {
  try {
    try {
      work();
    } catch (...) {
      const Error error = thrown_error();
      log_error("a frames connection failed: {}", error.text());
      failed(error);
      sender_->end();
      closed();
    }
  } catch (...) {
    over_ = true;  // not even memory for the error
  }
}

// One after the other, so that a cancel comes after what it cancels.
void Session::message(std::string_view text, std::string_view position) {
  if (over_) return;
  if (waiting_.size() >= kWaitingMax)
    return failed({Code::kQueueFull, fmt::format("{} messages wait to be read; this one is dropped", kWaitingMax),
                   std::string(position)});
  if (!share_.grow_to(share_.bytes() + static_cast<int64_t>(text.size()))) return failed(no_request_bytes());
  waiting_.push_back({std::string(text), std::string(position)});
  read_next();
}

void Session::read_next() {
  while (!reading_ && !waiting_.empty()) {
    auto next = std::make_shared<Text>(std::move(waiting_.front()));
    waiting_.pop_front();
    const auto bytes = static_cast<int64_t>(next->text.size());
    share_.shrink_to(share_.bytes() - bytes);
    auto job = [&service = service_, weak = weak_from_this(), sender = sender_, next] {
      auto incoming = std::make_shared<Incoming>(read(service, next->text));
      sender->post([weak, next, incoming = std::move(incoming)] {
        const auto self = weak.lock();
        if (!self) return;
        self->guarded([&] {
          self->reading_ = false;
          self->take(std::move(*incoming), next->position);
          self->read_next();
          self->end_if_done();
        });
      });
    };
    reading_ = service_.hand_over(std::move(job), bytes);
    if (!reading_)
      take(refused({Code::kUnavailable, "too many requests wait to be read; try again", {}}), next->position);
  }
}

void Session::take(Incoming&& incoming, std::string_view position) {
  if (over_) return;
  if (incoming.message) {
    if (auto* generate = std::get_if<Generate>(&*incoming.message))
      return handle(std::move(*generate), incoming.prompt);
    if (auto* cancel = std::get_if<Cancel>(&*incoming.message)) return handle(std::move(*cancel));
    return handle(std::move(std::get<Metrics>(*incoming.message)));
  }
  Refusal& refusal = incoming.message.error();
  if (refusal.error.at.empty()) refusal.error.at = position;
  // Of a request that is running, nothing went wrong.
  const std::string id = find(refusal.id) == running_.end() ? refusal.id : std::string();
  sender_->send(error_event(id, refusal.error));
}

void Session::handle(Generate&& generate, const Result<void>& prompt) {
  if (find(generate.id) != running_.end()) {
    return failed({Code::kInvalidArgument,
                   fmt::format("a request \"{}\" is running already; this one is dropped", generate.id), "id"});
  }
  ByteShare share(service_.bytes());
  auto stream = submit(generate, prompt, share);
  if (!stream) return sender_->send(error_event(generate.id, stream.error()));
  if (!waker_) {
    waker_ = std::make_shared<Waker>();
    waker_->session = weak_from_this();
    waker_->sender = sender_;
  }
  running_.push_back({.id = std::move(generate.id),
                      .streams = generate.stream,
                      .events = EventReader(std::move(*stream)),
                      .text = {},
                      .share = std::move(share)});
  running_.back().events.stream().on_events([waker = waker_] { wake(waker); });
}

Result<std::unique_ptr<GenerateStream>> Session::submit(Generate& generate, const Result<void>& prompt,
                                                        ByteShare& share) {
  if (running_.size() >= kRunningMax) {
    return fail(Code::kQueueFull, "{} requests of this connection are running; wait for one to end", running_.size());
  }
  if (!prompt) return std::unexpected(prompt.error());
  CAIRN_TRY(LoadedModel * model, service_.registry().find(generate.model));
  generate.request.client = kClient;
  if (!share.grow_to(held_bytes(generate.request))) return std::unexpected(no_request_bytes());
  return model->engine->submit(std::move(generate.request));
}

void Session::handle(Cancel&& cancel) {
  const auto found = find(cancel.id);
  if (found == running_.end()) {
    const std::string message = fmt::format("no request \"{}\" is running on this connection", cancel.id);
    return sender_->send(error_event(cancel.id, {Code::kNotFound, message, "id"}));
  }
  found->cancelled = true;
  found->events.stream().cancel();
}

Session::Progress Session::forward(Running& run) {
  while (run.events.next() != nullptr) {
    if (run.streams) {
      if (!has_room()) return Progress::kNoRoom;
      sender_->send(token_event(run.id, run.events.take()));
    } else {
      run.text += run.events.take().text;
    }
  }
  if (run.text.size() > net::kFrameBytesMax) {
    send_end(run, {});
    return Progress::kOver;
  }
  Finish* finish = run.events.finish();
  if (finish == nullptr) return Progress::kSaidAll;
  if (!has_room()) return Progress::kNoRoom;
  send_end(run, std::move(*finish));
  return Progress::kOver;
}

void Session::send_end(Running& run, Finish finish) {
  std::optional<Error> error;
  if (finish.reason == FinishReason::kError) {
    error = std::move(finish.error);
  } else if (finish.reason == FinishReason::kCancelled && !run.cancelled) {
    error = Error{Code::kUnavailable, "the server is stopping", {}};
  } else {
    run.text += finish.text;
    const std::string event = eos_event(run.id, finish, run.text);
    if (event.size() <= net::kFrameBytesMax) return sender_->send(event);
    error = Error{Code::kTooLarge,
                  fmt::format("the answer is longer than the {} bytes of a frame: ask for it with \"stream\": true",
                              net::kFrameBytesMax),
                  "stream"};
  }
  if (const int status = wire_error(error->code).status; net::is_failure(status))
    net::log_failure(run.id, status, error->message);
  sender_->send(error_event(run.id, *error));
}

void Session::pump() {
  for (size_t i = 0; i < running_.size() && !over_;) {
    const auto at = running_.begin() + static_cast<std::ptrdiff_t>(i);
    switch (forward(*at)) {
      case Progress::kSaidAll:
        ++i;
        break;
      case Progress::kOver:
        running_.erase(at);
        break;
      case Progress::kNoRoom:
        std::rotate(running_.begin(), at, running_.end());
        // Half the bound: a client that reads slowly is not waited on for every few bytes.
        sender_->on_drained(kUnsentBytesMax / 2, [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->guarded([&] { self->pump(); });
        });
        return;
    }
  }
  end_if_done();
}

}  // namespace

net::FrameHandler make_handler(Service& service) {
  return [&service](std::shared_ptr<net::FrameSender> sender) {
    return std::make_shared<Session>(service, std::move(sender));
  };
}

}  // namespace cairn::api::frames
