/// The channel from the engine's thread to one client: events wait here until the client reads them.
///
/// A client that does not read them stalls its request (back-pressure): the engine computes no more of it until it
/// does, and other requests take its place meanwhile (scheduling/fair_shares.h).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/event.h"

namespace cairn::engine {

/// Maximum token events that wait for the client; a step adds a few at most.
inline constexpr size_t kPendingTokensMax = 256;
/// With this many events waiting, the client counts as not reading, and its request yields to any that waits.
inline constexpr size_t kUnreadTokens = 16;

/// Shared by the engine and the stream. Thread-safe.
class EventChannel {
 public:
  /// `usage_listener`: null, or who is told of the finish before the client is.
  explicit EventChannel(std::shared_ptr<UsageListener> usage_listener = nullptr)
      : usage_listener_(std::move(usage_listener)) {}

  // -- The engine's side.
  /// Adds a step's events, with one wake-up. Events after a finish are dropped. A finish is always delivered: if there
  /// is no memory for the tokens, the request is cancelled and finishes with kError instead. False if there was no
  /// memory for the wake-up: see UnnotifiedChannels.
  bool publish(Events&& step) noexcept;
  /// Whether the client has asked to stop, or has gone.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  /// Whether kPendingTokensMax events wait.
  bool stalled() const { return waiting_.load(std::memory_order_relaxed) >= kPendingTokensMax; }
  /// Whether kUnreadTokens events wait, so that the client counts as not reading.
  bool unread() const { return waiting_.load(std::memory_order_relaxed) >= kUnreadTokens; }

  // -- The client's side: see GenerateStream.
  Events drain();
  Events wait(std::chrono::milliseconds timeout);
  void on_events(std::function<void()> notify);
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  /// Cancels; later events are dropped. When this returns, the function given to on_events is not running any more.
  void abandon();

 private:
  friend class UnnotifiedChannels;
  bool tell() noexcept;
  bool has_events() const {
    return pending_.finished || !pending_.tokens.empty() || !pending_.prompt.empty() || pending_.prefill.has_value();
  }
  Events take();

  std::shared_ptr<UsageListener> usage_listener_;  // of the engine's side; null once it was told
  std::atomic<bool> cancelled_ = false;
  std::atomic<size_t> waiting_ = 0;  // number of tokens in pending_; written under mutex_
  std::mutex mutex_;                 // guards the next four members
  std::condition_variable ready_;
  Events pending_;
  bool abandoned_ = false;
  bool finish_taken_ = false;

  std::mutex notify_mutex_;  // guards notify_ and its calls; taken before mutex_
  std::function<void()> notify_;

  std::shared_ptr<EventChannel> next_unnotified_;  // link of the list in UnnotifiedChannels
  bool is_unnotified_ = false;                     // whether it is in that list
};

/// Channels whose clients could not be woken for lack of memory, to be woken later. Allocates nothing. Thread-safe.
class UnnotifiedChannels {
 public:
  ~UnnotifiedChannels();
  /// Publishes, and keeps the channel for notify_again() if its client could not be woken.
  void publish(const std::shared_ptr<EventChannel>& channel, Events&& events) noexcept;
  /// Tries to wake the clients of all kept channels; false if memory was missing for some.
  bool notify_again() noexcept;

 private:
  std::shared_ptr<EventChannel> pop();
  void push(std::shared_ptr<EventChannel> channel);

  std::mutex mutex_;  // guards the next member and the channels' links
  std::shared_ptr<EventChannel> first_;
};

}  // namespace cairn::engine
