/// Models to begin with: which of a few well-known ones fit this machine, and how fast they may be on its processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "loader/fit.h"

namespace cairn::loader {

struct KnownModel {
  std::string_view name;       ///< of a hub, as `cairn run` takes it
  int64_t file_bytes = 0;      ///< to download
  int64_t memory_bytes = 0;    ///< in all, with one conversation of kComparedTokens
  int64_t read_per_token = 0;  ///< bytes of its weights
  std::string_view good_for;   ///< in a few words
};
/// From the least to the most capable.
std::span<const KnownModel> known_models();

struct Proposal {
  KnownModel model;
  Fit fit = Fit::kYes;
  double tokens_per_second = 0;  ///< 0: not known
};
inline constexpr size_t kProposalsMax = 4;
/// Writing at this speed keeps up with a person who reads.
inline constexpr double kReadingSpeed = 5;

/// The most capable that fit comfortably into the memory, or where none does, tightly; those that keep up with reading
/// come first. They differ in size or in what they are good for, and the last one is small where one is. None: nothing
/// fits. `bandwidth`: bytes per second; 0: not known.
std::vector<Proposal> proposals(int64_t available_bytes, int64_t bandwidth);

/// The largest dense models that fit comfortably, with one conversation of kComparedTokens.
struct LargestClass {
  double billions = 0;           ///< parameters of a dense model in Q4_K_M; below 1: next to none
  double tokens_per_second = 0;  ///< of that; 0: not known
};
LargestClass largest_class(int64_t available_bytes, int64_t bandwidth);
/// The most capable known model that fits comfortably and reads but a part of its weights for each token.
std::optional<Proposal> largest_mixture(int64_t available_bytes, int64_t bandwidth);

}  // namespace cairn::loader
