#include "api/frames/session.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "api/chat/prompt.h"
#include "api/errors.h"
#include "api/frames/events.h"
#include "api/frames/message.h"
#include "api/prompt_tokens.h"
#include "net/failure_log.h"

namespace cairn::api::frames {
namespace {

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
  std::unique_ptr<GenerateStream> stream;
  Events events;     // taken from the stream; before `next` also sent
  size_t next = 0;   // of events.tokens
  std::string text;  // that no token event has said
};

class Session final : public net::FrameSession, public std::enable_shared_from_this<Session> {
 public:
  Session(const Registry& registry, std::shared_ptr<net::FrameSender> sender)
      : registry_(registry), sender_(std::move(sender)) {}

  void message(std::string_view text, std::string_view position) override;
  void failed(const Error& error) override { sender_->send(error_event({}, error)); }
  void input_ended() override {
    input_ended_ = true;
    end_if_done();
  }
  void closed() override {
    over_ = true;
    running_.clear();  // cancels
  }
  void pump();

 private:
  enum class Progress { kSaidAll, kNoRoom, kOver };

  void handle(Generate&& generate);
  void handle(Cancel&& cancel);
  void handle(Metrics&& metrics) { sender_->send(metrics_event(metrics.id, registry_)); }
  Result<std::unique_ptr<GenerateStream>> submit(Generate& generate) const;
  std::vector<Running>::iterator find(std::string_view id) { return std::ranges::find(running_, id, &Running::id); }
  bool has_room() const { return sender_->unsent_bytes() < kUnsentBytesMax; }
  Progress forward(Running& run);
  void send_end(Running& run);
  void end_if_done() {
    if (input_ended_ && running_.empty()) sender_->end();
  }

  const Registry& registry_;
  std::shared_ptr<net::FrameSender> sender_;
  std::shared_ptr<Waker> waker_;  // once something runs
  std::vector<Running> running_;  // who is next comes first
  bool input_ended_ = false;
  bool over_ = false;
};

void wake(const std::shared_ptr<Waker>& waker) {
  if (waker->posted.exchange(true, std::memory_order_acq_rel)) return;
  waker->sender->post([waker] {
    waker->posted.store(false, std::memory_order_release);
    if (const auto session = waker->session.lock()) session->pump();
  });
}

void Session::message(std::string_view text, std::string_view position) {
  auto parsed = parse_message(text);
  if (parsed) return std::visit([this](auto&& message) { handle(std::move(message)); }, std::move(*parsed));
  Error error = std::move(parsed.error().error);
  if (error.at.empty()) error.at = position;
  // Of a request that is running, nothing went wrong.
  const std::string id = find(parsed.error().id) == running_.end() ? parsed.error().id : std::string();
  sender_->send(error_event(id, error));
}

void Session::handle(Generate&& generate) {
  if (find(generate.id) != running_.end()) {
    return failed({Code::kInvalidArgument,
                   fmt::format("a request \"{}\" is running already; this one is dropped", generate.id), "id"});
  }
  auto stream = submit(generate);
  if (!stream) return sender_->send(error_event(generate.id, stream.error()));
  if (!waker_) {
    waker_ = std::make_shared<Waker>();
    waker_->session = weak_from_this();
    waker_->sender = sender_;
  }
  Running& run = running_.emplace_back();
  run.id = std::move(generate.id);
  run.streams = generate.stream;
  run.stream = std::move(*stream);
  run.stream->on_events([waker = waker_] { wake(waker); });
}

Result<std::unique_ptr<GenerateStream>> Session::submit(Generate& generate) const {
  if (running_.size() >= kRunningMax) {
    return fail(Code::kQueueFull, "{} requests of this connection are running; wait for one to end", running_.size());
  }
  CAIRN_TRY(LoadedModel * model, registry_.find(generate.model));
  GenerateRequest& request = generate.request;
  if (const auto* chat = std::get_if<ChatInput>(&generate.prompt)) {
    CAIRN_TRY(ChatPrompt prompt, chat_prompt(*model, *chat));
    request.prompt = std::move(prompt.tokens);
    for (auto& stop : chat_stops(*model)) request.stop.push_back(std::move(stop));
  } else {
    CAIRN_TRY(request.prompt, completion_prompt_tokens(*model, std::get<std::string>(generate.prompt)));
  }
  return model->engine->submit(std::move(request));
}

void Session::handle(Cancel&& cancel) {
  const auto found = find(cancel.id);
  if (found == running_.end()) {
    const std::string message = fmt::format("no request \"{}\" is running on this connection", cancel.id);
    return sender_->send(error_event(cancel.id, {Code::kNotFound, message, "id"}));
  }
  found->cancelled = true;
  found->stream->cancel();
}

Session::Progress Session::forward(Running& run) {
  if (run.next == run.events.tokens.size() && !run.events.finished) {
    run.events = run.stream->drain();
    run.next = 0;
  }
  for (; run.next < run.events.tokens.size(); ++run.next) {
    const TokenEvent& token = run.events.tokens[run.next];
    if (run.streams) {
      if (!has_room()) return Progress::kNoRoom;
      sender_->send(token_event(run.id, token));
    } else {
      run.text += token.text;
    }
  }
  if (run.text.size() > net::kFrameBytesMax) {
    send_end(run);
    return Progress::kOver;
  }
  if (!run.events.finished) return Progress::kSaidAll;
  if (!has_room()) return Progress::kNoRoom;
  send_end(run);
  return Progress::kOver;
}

void Session::send_end(Running& run) {
  Finish& finish = run.events.finish;
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
          if (const auto self = weak.lock()) self->pump();
        });
        return;
    }
  }
  end_if_done();
}

}  // namespace

net::FrameHandler make_handler(const Registry& registry) {
  return [&registry](std::shared_ptr<net::FrameSender> sender) {
    return std::make_shared<Session>(registry, std::move(sender));
  };
}

}  // namespace cairn::api::frames
