#include "guide.h"

#include <filesystem>

namespace cairn {
namespace {

constexpr int kParentsMax = 4;  // maximum depth of a build folder within the checkout

}  // namespace

Result<std::string> guide_model() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = program.parent_path().parent_path() / "share" / "cairn" / "guide.gguf";
  if (std::filesystem::exists(installed, error)) return installed.string();
  std::filesystem::path folder = program.parent_path();
  for (int i = 0; i < kParentsMax && folder.has_relative_path(); ++i, folder = folder.parent_path()) {
    const auto built = folder / "models" / "guide" / "guide.gguf";
    if (std::filesystem::exists(built, error)) return built.string();
  }
  return fail(Code::kNotFound,
              "the demo model is missing: it is neither {} nor models/guide/guide.gguf above {}. Talk to another one: "
              "cairn run "
              "qwen3:4b",
              installed.string(), program.parent_path().string());
}

}  // namespace cairn
