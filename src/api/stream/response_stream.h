/// From the engine's streams to one client: the only place where events are drained, for HTTP, embeddings and frames.
///
/// The engine's thread asks for a pump, which the server's thread runs: each task takes what its streams have, for
/// kTimeSlice at a time, and as long as the client reads.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "net/client_output.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Bytes that may wait for a client to read them. With more, tokens stay in the engine's event channels, which pause
/// the requests when they are full; net/ drops a client that reads nothing for a while.
inline constexpr size_t kUnsentBytesMax = 32 << 10;
/// How long one client is served before others have their turn.
inline constexpr std::chrono::milliseconds kTimeSlice{4};

/// How far a task may go now.
struct Slice {
  size_t room = 0;  ///< bytes that it may write, about: the last event may be over it
  std::chrono::steady_clock::time_point end;
  bool over() const { return std::chrono::steady_clock::now() > end; }
};

enum class Progress {
  kWaits,   ///< for the engine, or whatever else wakes it
  kNoRoom,  ///< it has more to write than the slice has room for
  kNoTime,  ///< it has more to do than the slice has time for
  kOver,    ///< everything is written
};

/// What is answered to a client: choices of tokens (Generation), or texts to embed (EmbeddingRun). All calls come on
/// the server's thread. Destroying it cancels its requests.
class ResponseTask {
 public:
  virtual ~ResponseTask() = default;
  /// Submits its requests. `wake`, from any thread, has the task advance soon.
  virtual Progress begin(std::function<void()> wake) = 0;
  /// Takes events from its streams and writes the answer. kWaits only if its streams had nothing more (EventReader).
  virtual Progress advance(const Slice& slice) = 0;
  /// Ends the answer with what `begin` or `advance` has thrown; nothing is called after that.
  virtual void fail(const Error& error) = 0;
  /// There was not even memory for the error: lets go of the client, which learns of it by the end of the connection.
  virtual void abandon() noexcept = 0;
};

/// Answers one client: the exchange of an HTTP request, or a connection with frames. Server's thread, but for `start`.
class ResponseStream : public std::enable_shared_from_this<ResponseStream> {
 public:
  /// Answers an HTTP request by `task`, soon, until the exchange is over; not at all if it is already. Any thread.
  static void start(std::shared_ptr<net::HttpResponse> response, std::shared_ptr<ResponseTask> task);

  /// `on_over` is called when a task has come to its end, before the stream lets go of it. It may not add tasks.
  explicit ResponseStream(std::shared_ptr<net::ClientOutput> output,
                          std::function<void(const ResponseTask& task)> on_over = {});

  /// Begins it. A task that throws ends alone.
  void add(std::shared_ptr<ResponseTask> task);
  /// The client has gone: drops the tasks, and with them their requests. May be called again.
  void close();

 private:
  struct Waker;
  static void wake(const std::shared_ptr<Waker>& waker);
  void pump();
  /// Runs `work` of the task; what it throws ends the task.
  template <class Work>
  Progress guarded(ResponseTask& task, const Work& work);
  void remove(size_t index);
  void wait_for_client();

  std::shared_ptr<net::ClientOutput> output_;  // null: closed
  std::shared_ptr<Waker> waker_;               // made with the first task
  std::function<void(const ResponseTask& task)> on_over_;
  std::vector<std::shared_ptr<ResponseTask>> tasks_;  // the one whose turn it is comes first
};

}  // namespace cairn::api
