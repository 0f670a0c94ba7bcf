/// Streams that go on when their client has gone, for whoever asks for them again by the conversation's id.
///
/// Source: llama.cpp, tools/server/server-stream.cpp: the header X-Conversation-Id, GET and DELETE /v1/stream,
/// POST /v1/streams/lookup.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/errors.h"
#include "base/error.h"
#include "base/system/byte_budget.h"
#include "net/http/http_server.h"

namespace cairn::api {

inline constexpr size_t kKeptStreamsMax = 32;
/// Bytes of one stream; what came before the last of them cannot be read again.
inline constexpr size_t kKeptStreamBytesMax = 4 << 20;
inline constexpr size_t kConversationIdBytesMax = 256;
/// How long a stream that has ended is kept.
inline constexpr std::chrono::seconds kKeptStreamSeconds{300};

/// How a stream tells its client of an error.
struct StreamErrors {
  ErrorFormat format = ErrorFormat::kOpenAi;
  bool typed_events = false;  ///< each event has a type, as in OpenAI's Responses
};

/// Thread: the server's, but for `keep`.
class KeptStreams {
 public:
  /// A conversation of a tenant's.
  using Key = std::pair<std::string, std::string>;

  explicit KeptStreams(std::shared_ptr<ByteBudget> budget);
  ~KeptStreams();

  /// To be answered in place of `response`: a stream that begins there replaces the conversation's last one, which ends
  /// with an error if it still runs, and goes on when the client has gone. With kKeptStreamsMax that run already, it
  /// does not. Its bytes are counted by clients, so that nothing is sent while it has nothing to say. Any thread;
  /// `this` outlives it.
  std::shared_ptr<net::HttpResponse> keep(Key key, std::shared_ptr<net::HttpResponse> response, StreamErrors errors);

  /// Sends what the stream has had from its byte `from` on, and what is still to come. Errors: kNotFound, and
  /// kInvalidArgument where those bytes are not kept any more.
  Result<void> follow(const Key& key, size_t from, const std::shared_ptr<net::HttpResponse>& response);
  /// Ends it with an error if it still runs, and forgets it, if there is one.
  void remove(const Key& key);
  /// {"conversation_id", "is_done", "total_bytes", "started_at", "completed_at"} of each that there is: of the id, and
  /// of the id with "::" and more behind it.
  nlohmann::ordered_json list(const std::string& tenant, std::span<const std::string> ids) const;
  /// Ends and forgets all of them.
  void clear();

 private:
  class Stream;
  class Response;
  /// Null: there are too many.
  std::shared_ptr<Stream> begin(const Key& key, net::StreamFormat form, StreamErrors errors);
  void forget_old();

  std::shared_ptr<ByteBudget> budget_;
  std::map<Key, std::shared_ptr<Stream>> streams_;
};

}  // namespace cairn::api
