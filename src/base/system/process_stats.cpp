#include "base/system/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

namespace cairn {
namespace {

std::string contents_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double boot_unix_seconds() {
  std::istringstream stat(contents_of("/proc/stat"));
  for (std::string word; stat >> word;) {
    if (word != "btime") continue;
    double seconds = 0;
    stat >> seconds;
    return seconds;
  }
  return 0;
}

}  // namespace

// Fields by their numbers in proc(5), "/proc/[pid]/stat"; the second, the name, ends with the last ')'.
ProcessStats process_stats() {
  constexpr int kUserTime = 14, kSystemTime = 15, kThreads = 20, kStartTime = 22, kVirtualBytes = 23, kPages = 24;
  ProcessStats stats;
  const std::string text = contents_of("/proc/self/stat");
  std::istringstream fields(text.substr(std::min(text.rfind(')'), text.size() - 1) + 1));
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::string field;
  for (int number = 3; fields >> field; ++number) {
    if (number == kUserTime || number == kSystemTime) stats.cpu_seconds += std::stod(field) / ticks;
    if (number == kThreads) stats.threads = std::stoll(field);
    if (number == kStartTime) stats.start_unix_seconds = boot_unix_seconds() + std::stod(field) / ticks;
    if (number == kVirtualBytes) stats.virtual_bytes = std::stoll(field);
    if (number == kPages) stats.resident_bytes = std::stoll(field) * ::sysconf(_SC_PAGESIZE);
    if (number == kPages) break;
  }
  std::error_code ignored;
  for (auto file = std::filesystem::directory_iterator("/proc/self/fd", ignored);
       file != std::filesystem::directory_iterator(); file.increment(ignored))
    ++stats.open_files;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.files_max = static_cast<int64_t>(limit.rlim_cur);
  return stats;
}

}  // namespace cairn
