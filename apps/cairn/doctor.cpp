// cairn doctor: what this machine can run, and why something does not.
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/system/cgroup.h"
#include "base/system/machine.h"
#include "base/system/memory_bandwidth.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "build_version.h"
#include "catalog_flags.h"
#include "commands.h"
#include "first_model.h"
#include "gguf/split.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cuda/cuda_backend.h"
#include "loader/device.h"
#include "loader/proposals.h"
#include "memory_report.h"
#include "model_argument.h"
#include "net/http/http_server.h"
#include "net/listen_address.h"
#include "output.h"
#include "values.h"

namespace cairn {
namespace {

struct DoctorFlags {
  std::string model;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::vector<std::string> folders;
};

/// Models of a folder that are opened at most.
constexpr size_t kModelsLookedAtMax = 1'000;
/// Files that a server with all its connections has open.
constexpr size_t kFilesWanted = 16'384 + 64;
constexpr int64_t kMemoryMin = int64_t{1} << 30;
constexpr int64_t kDiskMin = int64_t{5} << 30;

/// Lines of the report: what is well, what could be better, and what keeps models from running.
class Findings {
 public:
  void well(std::string_view what, const std::string& text) { line("ok", what, text); }
  void could_be_better(std::string_view what, const std::string& text) { line("warn", what, text); }
  void broken(std::string_view what, const std::string& text) {
    line("FAIL", what, text);
    broken_ = true;
  }
  bool is_broken() const { return broken_; }

 private:
  static void line(std::string_view how, std::string_view what, const std::string& text) {
    print("{:<4}  {:<12}  {}\n", how, what, printable(text, kErrorBytesShown));
  }
  static constexpr size_t kErrorBytesShown = 600;
  bool broken_ = false;
};

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    return colon == std::string::npos ? line : line.substr(colon + 2);
  }
  return "an unknown processor";
}

void check_processor(Findings& findings) {
  const std::string isa(kernels::cpu::usable_isas().front().name);
  const std::string text = fmt::format("{}; kernels for {} (--isa)", cpu_name(), isa);
  if (isa == "generic") {
    findings.could_be_better("processor", text + ": without AVX2 or NEON, models run many times slower");
  } else {
    findings.well("processor", text);
  }
  const CgroupLimits limits = read_cgroup_limits();
  const unsigned all = std::thread::hardware_concurrency();
  std::string cores = fmt::format("{} of {} logical cores can be used", usable_cores(), all);
  if (std::isfinite(limits.cores)) cores += fmt::format("; the cgroup's limit is {:.2f}", limits.cores);
  if (std::isfinite(limits.cores) && limits.cores < 1) {
    findings.could_be_better("cores", cores + ": less than one core");
  } else {
    findings.well("cores", cores);
  }
}

void check_memory(Findings& findings) {
  const int64_t available = available_memory_bytes();
  const CgroupLimits limits = read_cgroup_limits();
  std::string text = bytes_text(available) + " available";
  if (limits.memory_bytes_left < std::numeric_limits<int64_t>::max())
    text += fmt::format("; the cgroup's limit leaves {}", bytes_text(limits.memory_bytes_left));
  if (const int64_t addresses = address_space_left_bytes(); addresses < std::numeric_limits<int64_t>::max())
    text += fmt::format("; ulimit -v leaves {}", bytes_text(addresses));
  if (available < kMemoryMin) {
    findings.could_be_better("memory", text + ": few models fit");
  } else {
    findings.well("memory", text);
  }
}

/// How fast memory is, and what that and the free memory let run on the processor.
void check_classes(Findings& findings) {
  const int64_t bandwidth = bandwidth_shown();
  if (bandwidth == 0) {
    findings.could_be_better("memory speed", "not measured: too little memory is free");
  } else {
    findings.well("memory speed", fmt::format("{:.1f} GB/s with all cores", static_cast<double>(bandwidth) / 1e9));
  }
  const loader::LargestClass dense = loader::largest_class(available_memory_bytes(), bandwidth);
  if (dense.billions < 1)
    return findings.could_be_better("models fit", "only very small ones, below one billion parameters");
  const auto with_speed = [](std::string text, double speed) {
    return speed > 0 ? fmt::format("{} ({})", text, speed_text(speed)) : text;
  };
  std::string text = with_speed(fmt::format("up to about {:.0f}B parameters in Q4_K_M", std::floor(dense.billions)),
                                dense.tokens_per_second);
  if (const auto mixture = loader::largest_mixture(available_memory_bytes(), bandwidth))
    text += with_speed(fmt::format(", or a mixture of experts such as {}", mixture->model.name),
                       mixture->tokens_per_second);
  findings.well("models fit", text);
}

void check_gpus(Findings& findings) {
  if (!kernels::built_with_cuda())
    return findings.well("gpu", "none is used: this build of Cairn has no CUDA (docs/cuda.md)");
  const Result<int> count = kernels::cuda_device_count();
  if (!count) return findings.could_be_better("gpu", "none can be used: " + count.error().text());
  if (*count == 0) return findings.well("gpu", "no NVIDIA GPU found");
  for (int number = 0; number < *count; ++number) {
    const auto gpu = kernels::make_cuda_backend({.device = number});
    if (gpu) {
      findings.well("gpu",
                    fmt::format("{}, {} available", (*gpu)->description(), bytes_text((*gpu)->available_bytes())));
    } else {
      findings.could_be_better("gpu", fmt::format("number {}: {}", number, gpu.error().text()));
    }
  }
}

void check_limits(Findings& findings) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const std::string text = fmt::format("this program may open {} files", files.rlim_max);
  if (files.rlim_max < kFilesWanted) {
    findings.could_be_better("files",
                             fmt::format("{}: a busy server needs up to {}; raise ulimit -Hn", text, kFilesWanted));
  } else {
    findings.well("files", text);
  }
}

void check_port(Findings& findings, const DoctorFlags& flags) {
  const auto server = net::HttpServer::listen(
      flags.host, flags.port, net::HttpLimits{}, [](auto, auto) {},
      [](int, std::string_view) { return std::string(); });
  const auto address = net::parse_listen_address(flags.host);
  if (server && address && !address->socket.empty()) {
    findings.well("port", fmt::format("{} is free", flags.host));
  } else if (server && address) {
    findings.well("port",
                  fmt::format("{}:{} is free", net::url_host(address->host), address->port.value_or(flags.port)));
  } else {
    findings.broken("port", server.error().text());
  }
}

void check_disk(Findings& findings, const std::filesystem::path& folder) {
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0)
    return findings.could_be_better("disk", fmt::format("{} cannot be read", folder.string()));
  const auto free = static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
  const std::string text = fmt::format("{} free in {}", bytes_text(free), folder.string());
  if (free < kDiskMin) {
    findings.could_be_better("disk", text + ": few models fit; free some space, or use another folder with --models");
  } else {
    findings.well("disk", text);
  }
}

/// Whether the model runs here, and with how much memory.
void check_model(Findings& findings, const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto file = gguf::Reader::open(path);
  if (!file) return findings.broken("model", fmt::format("{}: {}", name, file.error().text()));
  MemoryFlags flags;
  flags.sequences = 1;
  const MemoryReport memory = report_memory(*file, flags);
  if (memory.entries.empty()) return findings.broken("model", fmt::format("{}: {}", name, memory.why_not));
  const loader::MemoryPlan& plan = memory.entries.front().plan;
  const int64_t available = available_memory_bytes();
  const std::string speed = speed_text(loader::tokens_per_second(memory_bandwidth(), memory.bytes_read_per_token));
  const std::string text = fmt::format("{}: {} with {} tokens of context{}{}", name, bytes_text(plan.bytes()),
                                       plan.context_tokens, speed.empty() ? "" : ", ", speed);
  if (plan.bytes() > available) {
    findings.broken("model", fmt::format("{}, but only {} available: use a smaller --ctx or a smaller quantisation",
                                         text, bytes_text(available)));
  } else {
    findings.well("model", text);
  }
}

void check_models(Findings& findings, const DoctorFlags& flags) {
  if (!flags.model.empty()) {
    const auto path = find_model_file(flags.model);
    path ? check_model(findings, *path) : findings.broken("model", path.error().text());
  }
  for (const std::string& folder : flags.folders) {
    std::error_code error;
    size_t found = 0;
    for (auto entry = std::filesystem::directory_iterator(folder, error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      if (!gguf::is_gguf_name(entry->path().native())) continue;
      if (++found > kModelsLookedAtMax) break;
      check_model(findings, entry->path());
    }
    if (error) {
      findings.broken("models", fmt::format("{}: {}", folder, error.message()));
    } else if (found == 0) {
      findings.could_be_better("models",
                               fmt::format("{} has no .gguf file; get a model with cairn pull qwen3:4b", folder));
    } else if (found > kModelsLookedAtMax) {
      findings.could_be_better(
          "models", fmt::format("{} has more than {} models; the others were not checked", folder, kModelsLookedAtMax));
    }
  }
}

/// Where neither a model nor a folder is named: what `cairn list` would show, or models to begin with.
void check_catalog(Findings& findings) {
  const size_t models = CatalogFlags().scan().models.size();
  if (models > 0)
    return findings.well(
        "models",
        fmt::format("{} on this machine; cairn list shows whether they fit, cairn doctor NAME checks one", models));
  findings.could_be_better("models", "none yet; these fit this machine:");
  print("{}", FirstModels().text("run"));
}

bool examine(const DoctorFlags& flags) {
  set_log_level(LogLevel::kError);
  Findings findings;
  findings.well("cairn", std::string(kBuildVersion));
  check_processor(findings);
  check_memory(findings);
  check_classes(findings);
  check_gpus(findings);
  check_limits(findings);
  check_port(findings, flags);
  check_disk(findings,
             flags.folders.empty() ? std::filesystem::current_path() : std::filesystem::path(flags.folders.front()));
  check_models(findings, flags);
  if (flags.model.empty() && flags.folders.empty()) check_catalog(findings);
  return !findings.is_broken();
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("doctor", "Check what this machine can run, and what keeps a model from running");
  set_help(*command, "cairn doctor qwen3-4b.gguf");
  auto flags = std::make_shared<DoctorFlags>();
  command->add_option("MODEL", flags->model, kModelHelp);
  command
      ->add_option("--models", flags->folders,
                   "Folder of GGUF files to check, each of them; repeatable (default: none)")
      ->type_name("FOLDER");
  command->add_option("--host", flags->host, "Address for a server")
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->check(listen_address());
  command->add_option("--port", flags->port, "Port for a server")
      ->check(whole_number(0, std::numeric_limits<uint16_t>::max()))
      ->capture_default_str();
  command->footer("The exit code is 1 if any line says FAIL.");
  command->callback([flags, &exit_code] { exit_code = examine(*flags) ? 0 : kExitFailed; });
}

}  // namespace cairn
