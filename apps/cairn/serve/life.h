/// How a server stops and what it reads again: the signals of its process.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/service.h"
#include "base/error.h"
#include "loader/registry.h"
#include "net/http/http_server.h"

namespace cairn {

/// What SIGHUP has a server read again: keys, certificates, the models' folder.
class Reloads {
 public:
  /// `what`: "the keys of FILE". `reload` leaves all as it was if it fails; it runs on the signal thread. Before
  /// serving.
  void add(std::string what, std::function<Result<void>()> reload) {
    reloads_.emplace_back(std::move(what), std::move(reload));
  }
  /// All of them, each with a line in the log, whether others fail or not.
  void run() const;

 private:
  std::vector<std::pair<std::string, std::function<Result<void>()>>> reloads_;
};

/// Time that the last bytes have on their way to clients once nothing answers any more.
inline constexpr std::chrono::milliseconds kLastBytesTime{2'000};

/// Watches SIGINT and SIGTERM, which stop the server, SIGHUP and SIGUSR1. Outlives the program's other threads.
class ServerLife {
 public:
  /// Called before any thread is started, so that the signals come to the one that waits for them.
  static void block_signals();
  /// Whether SIGUSR1 has come since the last call: somebody wants the metrics in the log.
  static bool take_wish_for_metrics();
  /// References outlive this.
  ServerLife(net::HttpServer& server, api::Service& service, const loader::Registry& registry, const Reloads& reloads,
             std::chrono::seconds drain);

  /// Starts the thread that waits for signals.
  void watch();
  /// The models are loaded.
  void loaded();
  bool is_loaded() const { return loaded_; }
  /// The exit code of a program that a signal ended while it was loading; 0: none did.
  int exit_code_of_loading() const;
  /// The same of one that a signal has stopped.
  int exit_code() const;

 private:
  void wait_for_signals();
  void hang_up();
  void stop();
  /// False: another signal came first. Waits until `done` holds, at most until `end`.
  template <class Done>
  void wait_until(std::chrono::steady_clock::time_point end, const Done& done);
  void end_answers();

  net::HttpServer& server_;
  api::Service& service_;
  const loader::Registry& registry_;
  const Reloads& reloads_;
  const std::chrono::seconds drain_;
  const bool had_terminal_;
  std::atomic<bool> loaded_ = false;
  std::atomic<int> signal_ = 0;  // that stops the server; 0: none yet
};

}  // namespace cairn
