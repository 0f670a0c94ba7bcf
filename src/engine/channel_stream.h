/// The client's GenerateStream over its request's event channel.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "engine/engine.h"
#include "engine/output/event_channel.h"

namespace cairn::engine {

class ChannelStream final : public GenerateStream {
 public:
  explicit ChannelStream(std::shared_ptr<EventChannel> channel) : channel_(std::move(channel)) {}
  ~ChannelStream() override { channel_->abandon(); }

  Events drain() override { return channel_->drain(); }
  Events wait(std::chrono::milliseconds timeout) override { return channel_->wait(timeout); }
  void on_events(std::function<void()> notify) override { channel_->on_events(std::move(notify)); }
  void cancel() override { channel_->cancel(); }

 private:
  std::shared_ptr<EventChannel> channel_;
};

}  // namespace cairn::engine
