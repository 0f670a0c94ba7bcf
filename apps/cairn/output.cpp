#include "output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "commands.h"

namespace cairn {
namespace {

int output_errno = 0;  // of the first failure; 0: none yet

void remember_failure() {
  if (output_errno == 0) output_errno = errno != 0 ? errno : EIO;
}

std::unexpected<Error> output_failure() {
  return fail(Code::kIo, "cannot write to standard output: {}", std::strerror(output_errno));
}

}  // namespace

void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() gives the lowest number that is free. For reading alone: what is written there fails.
    const int opened = ::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != descriptor) ::close(opened);
  }
}

void print_text(std::string_view text) {
  if (output_errno != 0 || text.empty()) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) remember_failure();
}

Result<void> flush_output() {
  errno = 0;
  if (output_errno == 0 && std::fflush(stdout) != 0) remember_failure();
  if (output_errno != 0) return output_failure();
  return {};
}

Result<void> show(std::string_view text) {
  print_text(text);
  return flush_output();
}

bool output_failed() { return output_errno != 0; }

bool output_reader_gone() { return output_errno == EPIPE; }

int end_output(int exit_code) {
  const auto written = flush_output();
  // Some file systems tell only at the end that there was no room.
  if (written && ::close(STDOUT_FILENO) != 0 && errno != EBADF) remember_failure();
  if (output_errno == 0) return exit_code;
  if (output_reader_gone()) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  return exit_code != 0 ? exit_code : report(output_failure().error());
}

}  // namespace cairn
