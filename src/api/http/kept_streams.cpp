#include "api/http/kept_streams.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "api/serialization/json_text.h"
#include "api/stream/response_stream.h"
#include "base/log.h"

namespace cairn::api {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

int64_t seconds_of(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

/// An error within a stream, in the protocol's form.
std::string error_event(std::string_view message, const net::StreamFormat& form, StreamErrors errors) {
  const WireError wire = wire_error(Code::kCancelled);
  if (errors.typed_events) {
    const ordered_json event = {{"type", "error"}, {"code", wire.code}, {"message", message}, {"param", nullptr}};
    return fmt::format("event: error\ndata: {}\n\n", dump(event));
  }
  const std::string body = error_body(wire, message, errors.format);
  if (form.content_type != net::StreamFormat().content_type) return body + "\n";
  return fmt::format("{}data: {}\n\n", errors.format == ErrorFormat::kAnthropic ? "event: error\n" : "", body);
}

}  // namespace

/// The bytes of one stream, and who follows them.
class KeptStreams::Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<ByteBudget> budget, net::StreamFormat form, StreamErrors errors)
      : form_{form.content_type, {}},
        errors_(errors),
        share_(std::move(budget)),
        started_(std::chrono::system_clock::now()) {}

  /// Ends the answer where it is made.
  std::function<void()> cancel;

  /// Tells whoever reads it that it has not come to its end.
  std::string cut_event() const {
    return error_event("the stream was ended: by a later one of its conversation, by DELETE, or with the server", form_,
                       errors_);
  }

  const net::StreamFormat& form() const { return form_; }
  bool done() const { return ended_.has_value(); }
  bool is_old(Clock::time_point now) const { return ended_ && now - *ended_ > kKeptStreamSeconds; }
  size_t first() const { return dropped_; }

  void append(std::string_view more) {
    bytes_ += more;
    // Without memory, the oldest bytes make room for the new ones.
    size_t room = kKeptStreamBytesMax;
    if (!share_.grow_to(static_cast<int64_t>(std::min(bytes_.size(), room))))
      room = static_cast<size_t>(share_.bytes());
    if (bytes_.size() > room) {
      dropped_ += bytes_.size() - room;
      bytes_.erase(0, bytes_.size() - room);
    }
    each_reader([this](Reader& reader) { pump(reader); });
  }

  void end() {
    if (ended_) return;
    ended_ = Clock::now();
    completed_ = std::chrono::system_clock::now();
    each_reader([this](Reader& reader) { pump(reader); });
  }

  void follow(size_t from, const std::shared_ptr<net::HttpResponse>& response) {
    const auto reader = std::make_shared<Reader>(response, from);
    readers_.push_back(reader);
    response->begin_events({}, form_);
    response->on_close([weak = weak_from_this(), gone = std::weak_ptr(reader)] {
      if (const auto stream = weak.lock()) std::erase(stream->readers_, gone.lock());
    });
    pump(*reader);
  }

  ordered_json json(const std::string& id) const {
    return {{"conversation_id", id},
            {"is_done", done()},
            {"total_bytes", dropped_ + bytes_.size()},
            {"started_at", seconds_of(started_)},
            {"completed_at", done() ? seconds_of(completed_) : 0}};
  }

 private:
  struct Reader : std::enable_shared_from_this<Reader> {
    Reader(std::shared_ptr<net::HttpResponse> to, size_t from) : response(std::move(to)), at(from) {}
    std::shared_ptr<net::HttpResponse> response;
    size_t at;  // the byte that comes next
  };

  template <class Work>
  void each_reader(const Work& work) {
    const auto readers = readers_;  // who has all is taken out
    for (const auto& reader : readers) work(*reader);
  }

  void pump(Reader& reader) {
    net::HttpResponse& to = *reader.response;
    const size_t end = dropped_ + bytes_.size();
    if (reader.at >= dropped_ && reader.at < end) {
      const size_t room = kUnsentBytesMax - std::min(kUnsentBytesMax, to.unsent_bytes());
      const auto next = std::string_view(bytes_).substr(reader.at - dropped_, room);
      reader.at += next.size();
      to.write(next);
      if (reader.at < end) {
        return to.on_drained(kUnsentBytesMax / 2, [weak = weak_from_this(), waits = reader.weak_from_this()] {
          const auto stream = weak.lock();
          const auto slow = waits.lock();
          if (stream && slow) stream->pump(*slow);
        });
      }
    }
    const bool lost = reader.at < dropped_;
    if (!done() && !lost) return;
    const auto kept = reader.shared_from_this();
    std::erase(readers_, kept);
    if (lost)
      to.write(
          error_event("what comes next of the stream is not kept any more: its reader was too slow", form_, errors_));
    to.end();
  }

  net::StreamFormat form_;
  StreamErrors errors_;
  std::string bytes_;
  size_t dropped_ = 0;  // bytes before those
  ByteShare share_;
  std::chrono::system_clock::time_point started_;
  std::chrono::system_clock::time_point completed_;
  std::optional<Clock::time_point> ended_;
  std::vector<std::shared_ptr<Reader>> readers_;
};

/// Answers the client, if it is there, and the stream.
class KeptStreams::Response final : public net::HttpResponse, public std::enable_shared_from_this<Response> {
 public:
  Response(KeptStreams& streams, Key key, std::shared_ptr<net::HttpResponse> client, StreamErrors errors)
      : streams_(streams), key_(std::move(key)), client_(std::move(client)), errors_(errors) {}

  std::string_view request_id() const override { return client_->request_id(); }
  void send(int status, std::string_view content_type, std::string body,
            std::vector<std::pair<std::string, std::string>> headers) override {
    client_->send(status, content_type, std::move(body), std::move(headers));
  }
  void begin_events(std::vector<std::pair<std::string, std::string>> headers, net::StreamFormat form) override {
    stream_ = streams_.begin(key_, form, errors_);
    if (stream_) {
      stream_->cancel = [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->over(/*cancelled=*/true);
      };
      form = stream_->form();
      kept_ = true;
    }
    client_->begin_events(std::move(headers), form);
  }
  void write(std::string_view bytes) override {
    if (stream_) stream_->append(bytes);
    client_->write(bytes);
  }
  void end() override {
    client_->end();
    if (stream_) over(/*cancelled=*/false);
  }
  void on_close(std::function<void()> callback) override {
    on_close_ = std::move(callback);
    client_->on_close([self = shared_from_this()] { self->client_gone(); });
  }
  bool closed() const override { return client_->closed() && !kept_; }
  size_t unsent_bytes() const override { return client_->closed() ? 0 : client_->unsent_bytes(); }
  void on_drained(size_t bytes, std::function<void()> callback) override {
    on_drained_ = std::move(callback);
    const auto drained = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->drained();
    };
    if (client_->closed()) return client_->post(drained);
    client_->on_drained(bytes, drained);
  }
  void post(std::function<void()> work) override { client_->post(std::move(work)); }

 private:
  void drained() {
    if (const auto callback = std::exchange(on_drained_, {})) callback();
  }
  /// The stream, if there is one, goes on, and nobody has to be waited for.
  void client_gone() {
    if (stream_) return drained();
    call_on_close();
  }
  void over(bool cancelled) {
    const auto self = shared_from_this();
    const auto stream = std::exchange(stream_, {});
    if (!stream) return;
    kept_ = false;
    stream->cancel = {};
    if (cancelled) {
      const std::string event = stream->cut_event();
      stream->append(event);
      client_->write(event);
      client_->end();
    }
    stream->end();
    call_on_close();
  }
  void call_on_close() {
    if (const auto callback = std::exchange(on_close_, {})) callback();
  }

  KeptStreams& streams_;
  const Key key_;
  const std::shared_ptr<net::HttpResponse> client_;
  const StreamErrors errors_;
  std::shared_ptr<Stream> stream_;  // null: none has begun, or it is over
  std::atomic<bool> kept_ = false;
  std::function<void()> on_close_;
  std::function<void()> on_drained_;
};

KeptStreams::KeptStreams(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
KeptStreams::~KeptStreams() = default;

std::shared_ptr<net::HttpResponse> KeptStreams::keep(Key key, std::shared_ptr<net::HttpResponse> response,
                                                     StreamErrors errors) {
  return std::make_shared<Response>(*this, std::move(key), std::move(response), errors);
}

std::shared_ptr<KeptStreams::Stream> KeptStreams::begin(const Key& key, net::StreamFormat form, StreamErrors errors) {
  forget_old();
  remove(key);
  if (streams_.size() >= kKeptStreamsMax) {
    const auto ended = std::ranges::find_if(streams_, [](const auto& entry) { return entry.second->done(); });
    if (ended == streams_.end()) {
      log_warning("a stream ends with its client: {} are kept for conversations already", kKeptStreamsMax);
      return nullptr;
    }
    streams_.erase(ended);
  }
  return streams_[key] = std::make_shared<Stream>(budget_, form, errors);
}

void KeptStreams::forget_old() {
  std::erase_if(streams_, [now = Clock::now()](const auto& entry) { return entry.second->is_old(now); });
}

Result<void> KeptStreams::follow(const Key& key, size_t from, const std::shared_ptr<net::HttpResponse>& response) {
  forget_old();
  const auto found = streams_.find(key);
  if (found == streams_.end())
    return fail_at("conv_id", Code::kNotFound, "there is no stream of that conversation, or not any more");
  if (from < found->second->first())
    return fail_at("from", Code::kInvalidArgument, "the stream is kept from its byte {} on", found->second->first());
  found->second->follow(from, response);
  return {};
}

void KeptStreams::remove(const Key& key) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  const auto stream = std::move(found->second);
  streams_.erase(found);
  if (const auto cancel = std::exchange(stream->cancel, {})) cancel();
}

ordered_json KeptStreams::list(const std::string& tenant, std::span<const std::string> ids) const {
  std::map<std::string_view, const Stream*> found;  // each once, however often it was asked for
  for (const std::string& id : ids) {
    for (auto at = streams_.lower_bound({tenant, id}); at != streams_.end(); ++at) {
      const auto& [owner, name] = at->first;
      if (owner != tenant || !name.starts_with(id)) break;
      if (name.size() == id.size() || name.substr(id.size()).starts_with("::")) found.emplace(name, at->second.get());
    }
  }
  ordered_json list = ordered_json::array();
  for (const auto& [name, stream] : found) list.push_back(stream->json(std::string(name)));
  return list;
}

void KeptStreams::clear() {
  for (const auto& [key, stream] : std::exchange(streams_, {}))
    if (const auto cancel = std::exchange(stream->cancel, {})) cancel();
}

}  // namespace cairn::api
