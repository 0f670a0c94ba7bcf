/// Constants and helpers shared by the coroutines of connections. Internal to net/.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "net/exceptions.h"

namespace cairn::net {

/// Makes operations return their error as a value.
constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

/// Bytes read at once, and read ahead of pipelined requests while an answer is in progress; beyond that, TCP holds the
/// client back.
constexpr size_t kReadBytes = 16 << 10;
/// Size of the system's send buffer for a client that does not read (the kernel doubles it); by default it grows to
/// megabytes.
constexpr int kSendBufferBytes = 128 << 10;
/// How long what a client still sends is read and dropped after the last answer, so that the answer is not lost to a
/// reset.
constexpr std::chrono::milliseconds kDrainTime{1'000};
/// How long accepting pauses when the system has no descriptors left, not even for a refusal, instead of spinning.
constexpr std::chrono::milliseconds kAcceptPause{100};
/// How long accepting pauses after an exception.
constexpr std::chrono::milliseconds kThrownPause{1};
/// Pause between two checks of a connection whose client sends urgent data, which is not read here.
constexpr std::chrono::milliseconds kUrgentPause{100};

/// Returns after `time`, or when cancelled.
inline boost::asio::awaitable<void> timeout(std::chrono::steady_clock::duration time) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, time);
  co_await timer.async_wait(kTuple);
}

/// The result of `work`, or nullopt if `time` passes first. Exceptions of `work` are rethrown at once: an operator ||
/// alone would first wait for the time to pass.
template <class T>
boost::asio::awaitable<std::optional<T>> within(std::chrono::steady_clock::duration time,
                                                boost::asio::awaitable<T> work) {
  using boost::asio::experimental::awaitable_operators::operator||;
  std::exception_ptr thrown;
  const auto guarded = [&thrown](boost::asio::awaitable<T> guarded_work) -> boost::asio::awaitable<T> {
    try {
      co_return co_await std::move(guarded_work);
    } catch (...) {
      thrown = std::current_exception();
    }
    co_return T{};
  };
  auto outcome = co_await (guarded(std::move(work)) || timeout(time));
  if (outcome.index() == 1) co_return std::nullopt;
  if (thrown) std::rethrow_exception(thrown);
  co_return std::optional<T>(std::move(std::get<0>(outcome)));
}

/// Runs `work`; an exception ends it with a line in the log and is not passed on. For one of several operands of an
/// operator ||, which must end when it fails, or the others would go on without it.
inline boost::asio::awaitable<void> contained(boost::asio::awaitable<void> work) {
  try {
    co_await std::move(work);
  } catch (...) {
    log_exception("a connection", std::current_exception());
  }
}

}  // namespace cairn::net
