/// For tests: the fixtures as llama.cpp reads them, to compare logits with its own.
#pragma once

#include <cmath>
#include <filesystem>
#include <numbers>
#include <optional>
#include <string>

#include "edited_model.h"
#include "gguf/reader.h"

namespace cairn {

/// The file itself, or one of gpt-oss with another end of YaRN's ramp: llama.cpp moves that to the next whole pair, the
/// model's authors do not. Its beginning is before the first pair either way.
class ComparedModel {
 public:
  explicit ComparedModel(const std::filesystem::path& file) : path_(file) {
    const std::string name = file.stem().string();
    if (name.find("gpt-oss") == std::string::npos) return;
    edited_.emplace(file, name + "-truncated", std::vector<AddedTensor>{}, [&](gguf::Writer& writer) {
      writer.set_number("gpt-oss.rope.scaling.yarn_beta_slow", gguf::ValueType::kF32, slow_rotations(file));
    });
    path_ = edited_->path();
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  /// With which the ramp ends at a whole pair.
  static double slow_rotations(const std::filesystem::path& file) {
    const gguf::Reader reader = gguf::Reader::open(file).value();
    const auto number = [&](const std::string& key) { return reader.metadata().number("gpt-oss." + key).value(); };
    const double dims = number("rope.dimension_count"), base = number("rope.freq_base");
    const double rotations = number("rope.scaling.original_context_length") / (2 * std::numbers::pi);
    const double pair = std::ceil(dims * std::log(rotations) / (2 * std::log(base)));
    return rotations / std::pow(base, 2 * pair / dims);
  }

  std::filesystem::path path_;
  std::optional<EditedModel> edited_;
};

}  // namespace cairn
