/// The way back from the engine's thread to one client: events gather here until the client takes them.
///
/// A client that does not take them stalls its request: the engine computes no more of it until it does, and others
/// take its place meanwhile (scheduling/fair_shares.h).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "engine/event.h"

namespace cairn {

/// Events of tokens that may wait for the client; a step adds a few at most.
inline constexpr size_t kPendingTokensMax = 256;
/// A client that so many wait for does not read: its request yields to any that waits.
inline constexpr size_t kUnreadTokens = 16;

/// Shared by the engine and the stream. Thread-safe.
class EventChannel {
 public:
  // -- The engine's side.
  /// Adds a step's events, with one wake-up. What follows a finish is dropped. Always delivers a finish: if there is no
  /// memory for the tokens, the request is cancelled and finished with kError instead. False if there was no memory for
  /// the wake-up: see UnnotifiedChannels.
  bool publish(Events&& step) noexcept;
  /// Whether the client has asked to stop, or has gone.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  /// Whether as many events wait as may.
  bool stalled() const { return waiting_.load(std::memory_order_relaxed) >= kPendingTokensMax; }
  /// Whether so many wait that the client does not read (kUnreadTokens).
  bool unread() const { return waiting_.load(std::memory_order_relaxed) >= kUnreadTokens; }

  // -- The client's side: see GenerateStream.
  Events drain();
  Events wait(std::chrono::milliseconds timeout);
  void on_events(std::function<void()> notify);
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  /// Cancels; events from now on are dropped. The function given to on_events is not running any more when this
  /// returns.
  void abandon();

 private:
  friend class UnnotifiedChannels;
  bool tell() noexcept;
  bool has_events() const { return pending_.finished || !pending_.tokens.empty(); }
  Events take();

  std::atomic<bool> cancelled_ = false;
  std::atomic<size_t> waiting_ = 0;  // tokens of pending_; written under mutex_
  std::mutex mutex_;                 // guards the next four
  std::condition_variable ready_;
  Events pending_;
  bool abandoned_ = false;
  bool finish_taken_ = false;

  std::mutex notify_mutex_;  // guards notify_ and its calls; taken before mutex_
  std::function<void()> notify_;

  std::shared_ptr<EventChannel> next_unnotified_;  // of UnnotifiedChannels
  bool is_unnotified_ = false;                     // as well
};

/// Channels whose clients could not be woken for want of memory, to be woken later. Allocates nothing. Thread-safe.
class UnnotifiedChannels {
 public:
  ~UnnotifiedChannels();
  /// Publishes, and keeps the channel if its client does not know.
  void publish(const std::shared_ptr<EventChannel>& channel, Events&& events) noexcept;
  /// Wakes all that wait; false if there is no memory for some.
  bool notify_again() noexcept;

 private:
  std::shared_ptr<EventChannel> pop();
  void push(std::shared_ptr<EventChannel> channel);

  std::mutex mutex_;  // guards the next and the channels' links
  std::shared_ptr<EventChannel> first_;
};

}  // namespace cairn
