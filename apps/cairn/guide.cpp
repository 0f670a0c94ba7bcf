#include "guide.h"

#include <filesystem>
#include <string_view>

namespace cairn {
namespace {

constexpr int kParentsMax = 4;  // maximum depth of a build folder within the checkout

// `what` is missing otherwise, and `instead` says what to do.
Result<std::string> find_file(const std::filesystem::path& within_checkout, std::string_view what,
                              std::string_view instead) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = program.parent_path().parent_path() / "share" / "cairn" / within_checkout.filename();
  if (std::filesystem::exists(installed, error)) return installed.string();
  std::filesystem::path folder = program.parent_path();
  for (int i = 0; i < kParentsMax && folder.has_relative_path(); ++i, folder = folder.parent_path()) {
    const auto built = folder / within_checkout;
    if (std::filesystem::exists(built, error)) return built.string();
  }
  return fail(Code::kNotFound, "the {} is missing: it is neither {} nor {} above {}. {}", what, installed.string(),
              within_checkout.string(), program.parent_path().string(), instead);
}

}  // namespace

Result<std::string> guide_model() {
  return find_file("models/guide/guide.gguf", "demo model", "Talk to another one: cairn run qwen3:4b");
}

Result<std::string> calibration_text() {
  return find_file("models/calibration/calibration.txt", "calibration text", "Name a text of your own");
}

}  // namespace cairn
