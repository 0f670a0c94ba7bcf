#include "net/frames/frame_listener.h"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <exception>
#include <thread>

#include "net/coroutines.h"

namespace cairn::net {
namespace {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using boost::system::error_code;

/// Maximum connections that are being refused with an error; more are closed without one.
constexpr size_t kRefusedMax = 64;

}  // namespace

FrameListener::FrameListener(asio::io_context& context, UnixListener listener, const FrameLimits& limits,
                             FrameHandler handler, std::function<void()> on_idle)
    : context_(context),
      listener_(std::move(listener)),
      service_(std::make_shared<const FrameService>(FrameService{limits, std::move(handler)})),
      on_idle_(std::move(on_idle)),
      acceptor_(context) {}

FrameListener::~FrameListener() {
  for (auto& [id, connection] : connections_) connection->stop(true);
}

void FrameListener::run() {
  acceptor_.assign(stream_protocol(), listener_.release());
  asio::co_spawn(context_, accept_loop(), asio::detached);
}

void FrameListener::stop() {
  listener_.remove_file();
  error_code ignored;
  acceptor_.close(ignored);
  for (auto& [id, connection] : connections_) connection->stop(false);
}

asio::awaitable<void> FrameListener::accept_loop() {
  while (acceptor_.is_open()) {
    try {
      co_await accept_one();
    } catch (...) {
      log_exception("accepting a connection to the frames socket", std::current_exception());
      std::this_thread::sleep_for(kThrownPause);  // a timer would need memory, too
    }
  }
}

asio::awaitable<void> FrameListener::accept_one() {
  auto [error, socket] = co_await acceptor_.async_accept(kTuple);
  if (!acceptor_.is_open()) co_return;
  if (error) {
    // A client on this machine learns more from a closed connection than from one that waits.
    if (const int refused = spare_.accept(acceptor_.native_handle()); refused >= 0) ::close(refused);
    spare_.give_back();
    asio::steady_timer pause(context_, kAcceptPause);
    co_await pause.async_wait(kTuple);
  } else if (connections_.size() < service_->limits.connections_max + kRefusedMax) {
    serve(std::move(socket));
  }
}

void FrameListener::serve(stream_protocol::socket socket) {
  const uint64_t id = next_id_++;
  const size_t most = service_->limits.connections_max;
  Traffic* const traffic = service_->limits.traffic.get();
  if (traffic != nullptr) ++traffic->accepted;
  if (traffic != nullptr && connections_.size() >= most) ++traffic->refused;
  std::string refusal = connections_.size() < most
                            ? std::string()
                            : fmt::format("there are {} connections, the most there may be; try again later", most);
  auto connection = std::make_shared<FrameConnection>(std::move(socket), service_, std::move(refusal));
  connections_.emplace(id, connection);
  try {
    asio::co_spawn(context_, connection->run(), [this, id](const std::exception_ptr& exception) {
      if (exception) log_exception("a connection to the frames socket", exception);
      forget(id);
    });
  } catch (...) {
    forget(id);
    throw;
  }
}

void FrameListener::forget(uint64_t id) {
  if (const auto found = connections_.find(id); found != connections_.end()) {
    found->second->stop(true);
    connections_.erase(found);
    if (service_->limits.traffic != nullptr) ++service_->limits.traffic->closed;
  }
  if (connections_.empty()) on_idle_();
}

}  // namespace cairn::net
