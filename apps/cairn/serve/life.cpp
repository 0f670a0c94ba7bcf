#include "serve/life.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <thread>

#include "base/log.h"
#include "serve/notify.h"

namespace cairn {
namespace {

/// How often it is looked whether all answers have ended.
constexpr std::chrono::milliseconds kDrainPoll{20};

std::atomic<bool> wants_metrics = false;

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&signals, signal);
  return signals;
}

bool stops(int signal) { return signal == SIGINT || signal == SIGTERM; }

/// The exit code that a shell reports for a program ended by a signal.
int exit_code_of(int signal) { return 128 + signal; }

bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
}

}  // namespace

void Reloads::run() const {
  if (reloads_.empty()) log_info("SIGHUP: this server has nothing to reload");
  for (const auto& [what, reload] : reloads_) {
    if (const Result<void> done = reload(); done) {
      log_info("SIGHUP: reloaded {}", what);
    } else {
      log_error("SIGHUP: cannot reload {}; nothing changes: {}", what, done.error().text());
    }
  }
}

ServerLife::ServerLife(net::HttpServer& server, api::Service& service, const loader::Registry& registry,
                       const Reloads& reloads, std::chrono::seconds drain)
    : server_(server),
      service_(service),
      registry_(registry),
      reloads_(reloads),
      drain_(drain),
      had_terminal_(has_terminal()) {}

void ServerLife::block_signals() {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool ServerLife::take_wish_for_metrics() { return wants_metrics.exchange(false); }

void ServerLife::watch() {
  std::thread([this] { wait_for_signals(); }).detach();
}

void ServerLife::loaded() {
  loaded_ = true;
  notify_service_manager("READY=1\nSTATUS=serving");
}

int ServerLife::exit_code_of_loading() const {
  const int signal = signal_;
  return signal != 0 && !loaded_ ? exit_code_of(signal) : 0;
}

int ServerLife::exit_code() const { return exit_code_of(signal_); }

void ServerLife::wait_for_signals() {
  const sigset_t signals = watched_signals();
  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && !stops(signal)) {
    if (signal == SIGUSR1) {
      wants_metrics = true;
      continue;
    }
    if (had_terminal_ && !has_terminal()) break;  // it was closed
    hang_up();
  }
  signal_ = signal;
  stop();
  while (sigwait(&signals, &signal) == 0 && !stops(signal)) continue;
  ::_exit(exit_code_of(SIGINT));
}

void ServerLife::hang_up() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto us = static_cast<int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1'000;
  notify_service_manager(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", us));
  reloads_.run();
  notify_service_manager("READY=1");
}

template <class Done>
void ServerLife::wait_until(std::chrono::steady_clock::time_point end, const Done& done) {
  const sigset_t signals = watched_signals();
  constexpr timespec kPoll{0, std::chrono::nanoseconds(kDrainPoll).count()};
  while (!done() && std::chrono::steady_clock::now() < end) {
    const int signal = ::sigtimedwait(&signals, nullptr, &kPoll);
    if (signal == SIGINT || signal == SIGTERM) ::_exit(exit_code_of(SIGINT));
  }
}

void ServerLife::stop() {
  notify_service_manager("STOPPING=1\nSTATUS=answers in progress end");
  if (!loaded_) {
    log_info("stopping: the model was still being loaded");
    return server_.stop(std::chrono::milliseconds(0));
  }
  service_.begin_to_stop();
  service_.monitor().close();
  log_info("stopping: {} answers in progress have {} s to end; press Ctrl-C again to stop at once",
           service_.telemetry().in_progress(), drain_.count());
  const auto all_ended = [this] { return service_.telemetry().in_progress() == 0; };
  wait_until(std::chrono::steady_clock::now() + drain_, all_ended);
  if (!all_ended()) end_answers();
  server_.stop(kLastBytesTime);
}

// The engines end what they answer as cancelled, and each protocol tells its clients in its own form.
void ServerLife::end_answers() {
  log_warning("stopping: {} answers in progress are cut off after {} s; --drain-seconds gives them more time",
              service_.telemetry().in_progress(), drain_.count());
  std::atomic<bool> stopped = false;
  const auto models = registry_.list(loader::kEveryModel);
  std::thread stopper([&] {
    for (const auto& model : models) model->engine->stop();
    stopped = true;
  });
  const auto end = std::chrono::steady_clock::now() + kLastBytesTime;
  wait_until(end, [&] { return stopped && service_.telemetry().in_progress() == 0; });
  stopper.join();
}

}  // namespace cairn
