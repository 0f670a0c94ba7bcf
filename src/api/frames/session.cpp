#include "api/frames/session.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/chat/run.h"
#include "api/errors.h"
#include "api/frames/events.h"
#include "api/frames/message.h"
#include "api/frames/serializer.h"
#include "api/models/model_request.h"
#include "api/params/prompt_cut.h"
#include "api/params/request_context.h"
#include "api/stream/generation.h"
#include "api/stream/response_stream.h"
#include "api/telemetry/telemetry.h"
#include "base/function_ref.h"
#include "base/log.h"
#include "chat/completion_prompt.h"
#include "net/failure_log.h"

namespace cairn::api::frames {
namespace {

/// All peers of the socket are the user that runs the server: one client to the engine, beside each address.
constexpr const char* kClient = "unix";

/// The events of one request, of which each is a line to write.
class FrameSink final : public ResponseSink {
 public:
  FrameSink(std::shared_ptr<net::FrameSender> sender, std::string id)
      : sender_(std::move(sender)), id_(std::move(id)) {}
  std::string_view request_id() const override { return id_; }
  void begin(net::StreamFormat) override {}
  void write(std::string_view bytes) override;
  void end() override {}
  Result<void> fits(size_t bytes) const override;
  void send(std::string body) override;
  void fail(const Error& error) override;
  void abandon() override { sender_->end(); }

 private:
  std::shared_ptr<net::FrameSender> sender_;
  std::string id_;
};

void FrameSink::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    sender_->send(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
  }
}

Result<void> FrameSink::fits(size_t bytes) const {
  if (bytes <= net::kFrameBytesMax) return {};
  return fail_at("stream", Code::kTooLarge,
                 "the answer is longer than the {} bytes of a frame: ask for it with \"stream\": true",
                 net::kFrameBytesMax);
}

void FrameSink::send(std::string body) {
  if (const Result<void> fit = fits(body.size()); !fit) return fail(fit.error());
  sender_->send(body);
}

void FrameSink::fail(const Error& error) {
  if (const int status = wire_error(error.code).status; net::is_failure(status))
    net::log_failure(id_, status, error.message);
  sender_->send(error_event(id_, error));
}

/// A message as it came.
struct Text {
  std::string text;
  std::string position;
};

/// And as a worker has read it, with the answer that a request will have.
struct Incoming {
  std::expected<Message, Refusal> message;
  Result<Answer> answer;
};

Result<Answer> answer_of(Service& service, RequestContext& context, Generate&& generate) {
  CAIRN_TRY(const loader::SharedModel model, service.find_model(context, generate.model));
  const chat::PromptContext prompts = prompt_context_of(*model, generate.request);
  CAIRN_TRY(generate.request.prompt, chat::completion_prompt_tokens(prompts, generate.prompt));
  cut_prompt(context, prompts, generate.request, /*keeps_beginning=*/true, generate.request.prompt);
  generate.request.client = kClient;
  std::vector<engine::GenerateRequest> requests;
  requests.push_back(std::move(generate.request));
  return prepare_completion(service, model, std::move(requests), generate.form,
                            std::make_unique<FramesTextSerializer>(generate.id, generate.stream));
}

Result<Answer> answer_of(Service& service, RequestContext& context, Chat&& chat) {
  chat.request.generate.client = kClient;
  return prepare_chat(service, context, std::move(chat.request), chat.id,
                      [](const ChatStart& start) { return std::make_unique<FramesChatSerializer>(start); });
}

Incoming refused(Error error) { return {std::unexpected(Refusal{{}, std::move(error)}), {}}; }

/// `model`: that answers, null: it is found by its name; or why none does.
Incoming read(Service& service, std::string_view text, const Result<loader::SharedModel>& model) {
  try {
    ByteShare share(service.bytes());
    if (!share.grow_to(working_bytes(text))) return refused(no_request_bytes());
    RequestContext context({.strict_fields = service.options().strict_fields});
    service.answer_by(context, model.value_or(nullptr), Protocol::kCairn);
    Incoming read{parse_message(context, text), {}};
    if (!read.message) return read;
    if (!model) {
      read.answer = std::unexpected(model.error());
      return read;
    }
    if (auto* generate = std::get_if<Generate>(&*read.message))
      read.answer = answer_of(service, context, std::move(*generate));
    else if (auto* chat = std::get_if<Chat>(&*read.message))
      read.answer = answer_of(service, context, std::move(*chat));
    if (read.answer) read.answer->warnings = context.wanted_warnings();
    return read;
  } catch (...) {
    return refused(thrown_error());
  }
}

/// Calls `work` once the message's model is there, if it asks for one: with none where the service has but those of its
/// registry. Errors go to `work`. On a worker.
void when_loaded(Service& service, std::string_view text, const std::function<bool()>& gone,
                 const std::function<void(Result<loader::SharedModel>)>& work) {
  if (service.models() == nullptr) return work(loader::SharedModel());
  if (service.loading())
    return work(fail(Code::kUnavailable, "the model is still being loaded; try again in a moment"));
  const auto asked = read_model_request(text, false);
  if (!asked || asked->asks_nothing) return work(loader::SharedModel());
  service.when_looked_for(asked->model, loader::kEveryModel, [&service, asked = *asked, gone, work] {
    const auto choice = service.models()->choose(asked.model, loader::ModelKind::kChat, loader::kEveryModel);
    if (!choice) return work(std::unexpected(choice.error()));
    service.with_model(choice->name, std::nullopt, {.gone = gone, .tell = {}, .ready = {}}, work);
  });
}

class Session final : public net::FrameSession, public std::enable_shared_from_this<Session> {
 public:
  Session(Service& service, std::shared_ptr<net::FrameSender> sender)
      : service_(service),
        sender_(std::move(sender)),
        stream_(std::make_shared<ResponseStream>(sender_, [this](const ResponseTask& task) { ended(task); })),
        share_(service.bytes()) {}
  ~Session() override { stream_->close(); }

  void message(std::string_view text, std::string_view position) override;
  void failed(const Error& error) override { sender_->send(error_event({}, error)); }
  bool busy() const override { return reading_ || !waiting_.empty() || !running_.empty(); }
  void input_ended() override {
    input_ended_ = true;
    end_if_done();
  }
  void closed() override {
    over_ = true;
    waiting_.clear();
    stream_->close();  // cancels
    for (const Running& running : std::exchange(running_, {})) service_.telemetry().end(*running.record, 0, false);
    share_ = {};
  }
  /// Runs `work` of this session, which something else has called; what it throws ends the connection.
  void guarded(FunctionRef<void()> work) noexcept;

 private:
  struct Running {
    std::string id;
    std::shared_ptr<Generation> generation;
    std::shared_ptr<RequestRecord> record;
  };

  /// Hands the next message to a worker, unless one has the last.
  void read_next();
  void take(Incoming&& incoming, std::string_view position);
  void run(const std::string& id, Result<Answer>&& answer);
  /// Answers a request by an error, and ends its record.
  void refuse(RequestRecord& record, const std::string& id, const Error& error);
  void cancel(const std::string& id);
  std::vector<Running>::iterator find(std::string_view id) { return std::ranges::find(running_, id, &Running::id); }
  /// A request has had its last event.
  void ended(const ResponseTask& task);
  void end_if_done() {
    if (input_ended_ && running_.empty() && waiting_.empty() && !reading_) sender_->end();
  }

  Service& service_;
  std::shared_ptr<net::FrameSender> sender_;
  std::shared_ptr<ResponseStream> stream_;
  std::deque<Text> waiting_;  // to be read
  ByteShare share_;           // for those
  bool reading_ = false;      // a worker has one
  std::vector<Running> running_;
  bool input_ended_ = false;
  bool over_ = false;
};

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
      when_loaded(
          service, next->text, [weak] { return weak.expired(); },
          [=, &service](Result<loader::SharedModel> model) {
            auto incoming = std::make_shared<Incoming>(read(service, next->text, model));
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
    const Message& message = *incoming.message;
    if (const auto* text = std::get_if<Generate>(&message)) return run(text->id, std::move(incoming.answer));
    if (const auto* chat = std::get_if<Chat>(&message)) return run(chat->id, std::move(incoming.answer));
    if (const auto* cancelled = std::get_if<Cancel>(&message)) return cancel(cancelled->id);
    return sender_->send(metrics_event(std::get<Metrics>(message).id, service_.registry()));
  }
  Refusal& refusal = incoming.message.error();
  if (refusal.error.at.empty()) refusal.error.at = position;
  // With a request that is running, nothing went wrong.
  const std::string id = find(refusal.id) == running_.end() ? refusal.id : std::string();
  refuse(*service_.telemetry().begin_frames(id), id, refusal.error);
}

void Session::refuse(RequestRecord& record, const std::string& id, const Error& error) {
  record.failed(error);
  sender_->send(error_event(id, error));
  service_.telemetry().end(record, wire_error(error.code).status, true);
}

void Session::run(const std::string& id, Result<Answer>&& answer) {
  const auto record = service_.telemetry().begin_frames(id);
  if (find(id) != running_.end()) {
    return refuse(
        *record, {},
        {Code::kInvalidArgument, fmt::format("a request \"{}\" is running already; this one is dropped", id), "id"});
  }
  if (service_.stopping()) return refuse(*record, id, server_stops());
  if (running_.size() >= kRunningMax) {
    const std::string message =
        fmt::format("{} requests of this connection are running; wait for one to end", running_.size());
    return refuse(*record, id, {Code::kQueueFull, message, {}});
  }
  if (!answer) return refuse(*record, id, answer.error());
  answer->record = record;
  auto generation = std::make_shared<Generation>(std::move(*answer), std::make_unique<FrameSink>(sender_, id));
  running_.push_back({id, generation, record});
  stream_->add(std::move(generation));
}

void Session::cancel(const std::string& id) {
  const auto found = find(id);
  if (found == running_.end()) {
    const std::string message = fmt::format("no request \"{}\" is running on this connection", id);
    return sender_->send(error_event(id, {Code::kNotFound, message, "id"}));
  }
  found->generation->cancel();
}

void Session::ended(const ResponseTask& task) {
  for (const Running& running : running_) {
    if (running.generation.get() != &task) continue;
    const int failed = running.record->facts().error_status;
    service_.telemetry().end(*running.record, failed == 0 ? 200 : failed, true);
  }
  std::erase_if(running_, [&](const Running& running) { return running.generation.get() == &task; });
  end_if_done();
}

}  // namespace

net::FrameHandler make_handler(Service& service) {
  return [&service](std::shared_ptr<net::FrameSender> sender) {
    return std::make_shared<Session>(service, std::move(sender));
  };
}

}  // namespace cairn::api::frames
