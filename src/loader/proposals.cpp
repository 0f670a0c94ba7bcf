#include "loader/proposals.h"

#include <algorithm>

namespace cairn::loader {
namespace {

// Figures: scripts/memory_table.py has written this table, from files of these shapes without weights.
constexpr KnownModel kModels[] = {
    // known models: begin
    {"qwen2.5-coder:1.5b", 979868160, 1378753640, 979868160, "completing code"},
    {"qwen3:0.6b", 390753280, 1468380520, 390753280, "short answers"},
    {"qwen3:1.7b", 1101457408, 2210330984, 1101457408, "simple chat"},
    {"llama3.2:3b", 2011539456, 3137503592, 2011539456, "general chat"},
    {"qwen3:4b", 2491323904, 3911025512, 2491323904, "general chat"},
    {"qwen2.5-coder:7b", 4676603904, 5413034856, 4370042880, "code"},
    {"LiquidAI/LFM2-8B-A1B-GGUF:Q4_K_M", 5042386688, 5311340308, 962467584, "quick chat"},
    {"unsloth/Qwen3.5-9B-GGUF:Q4_K_M", 5514332160, 6333141384, 4942202880, "general chat"},
    {"ggml-org/gpt-oss-20b-GGUF", 12096558336, 13278160562, 2574702336, "reasoning and tools"},
    {"qwen3-coder:30b", 18550716416, 19600564596, 1919596544, "code"},
    {"unsloth/gemma-4-26B-A4B-it-GGUF:Q4_K_M", 18338409592, 19267354483, 2726491192, "chat in many languages"},
    {"unsloth/Qwen3.5-35B-A3B-GGUF:Q4_K_M", 21094943232, 21858520468, 1914849792, "chat and coding agents"},
    {"ggml-org/gpt-oss-120b-GGUF", 63374323968, 68066697266, 3594210048, "reasoning and tools"},
    // known models: end
};

/// Per parameter of a dense model in Q4_K_M: its weight, and its share of kComparedTokens of context (the models of
/// docs/models.md with 8 to 9 billion parameters take that much).
constexpr double kWeightBytes = 4.9 / 8;
constexpr double kContextBytes = 0.14;

/// A model of which another one is that much smaller differs from it in size.
constexpr int64_t kSmallerTimes = 2;

/// A mixture of experts reads that much less than all its weights for a token.
constexpr int64_t kMixtureTimes = 2;

bool differ(const KnownModel& a, const KnownModel& b) {
  const auto [smaller, larger] = std::minmax(a.memory_bytes, b.memory_bytes);
  return a.good_for != b.good_for || smaller * kSmallerTimes <= larger;
}

class Choice {
 public:
  explicit Choice(std::vector<Proposal> from) : from_(std::move(from)) {}

  /// Takes from the most capable on what `wanted` says, until there are `count`.
  template <class Wanted>
  void take(size_t count, Wanted wanted) {
    for (const Proposal& each : from_) {
      if (taken_.size() >= count) return;
      const auto same = [&](const Proposal& other) { return other.model.name == each.model.name; };
      if (std::ranges::none_of(taken_, same) && wanted(each)) taken_.push_back(each);
    }
  }
  bool differs_from_all(const Proposal& each) const {
    return std::ranges::all_of(taken_, [&](const Proposal& other) { return differ(each.model, other.model); });
  }
  bool is_small(const Proposal& each) const {
    return !taken_.empty() && each.model.memory_bytes * kSmallerTimes <= taken_.front().model.memory_bytes;
  }
  std::vector<Proposal> result() && { return std::move(taken_); }

 private:
  std::vector<Proposal> from_;
  std::vector<Proposal> taken_;
};

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }

std::vector<Proposal> proposals(int64_t available_bytes, int64_t bandwidth) {
  std::vector<Proposal> fitting;
  for (const Fit fit : {Fit::kYes, Fit::kTight}) {
    if (!fitting.empty()) break;
    for (const KnownModel& model : known_models())
      if (fit_of(model.memory_bytes, available_bytes) == fit)
        fitting.push_back({model, fit, tokens_per_second(bandwidth, model.read_per_token)});
  }
  std::ranges::reverse(fitting);
  Choice choice(std::move(fitting));
  const auto keeps_up = [](const Proposal& each) {
    return each.tokens_per_second == 0 || each.tokens_per_second >= kReadingSpeed;
  };
  const auto differs = [&](const Proposal& each) { return choice.differs_from_all(each); };
  choice.take(kProposalsMax - 1, [&](const Proposal& each) { return keeps_up(each) && differs(each); });
  choice.take(kProposalsMax,
              [&](const Proposal& each) { return keeps_up(each) && differs(each) && choice.is_small(each); });
  choice.take(kProposalsMax, [&](const Proposal& each) { return keeps_up(each) && differs(each); });
  choice.take(kProposalsMax, differs);
  choice.take(kProposalsMax, [](const Proposal&) { return true; });
  return std::move(choice).result();
}

LargestClass largest_class(int64_t available_bytes, int64_t bandwidth) {
  const double bytes = std::max(0.0, static_cast<double>(available_bytes - kComfortBytes));
  const double parameters = bytes / (kWeightBytes + kContextBytes);
  return {.billions = parameters / 1e9,
          .tokens_per_second = tokens_per_second(bandwidth, static_cast<int64_t>(parameters * kWeightBytes))};
}

std::optional<Proposal> largest_mixture(int64_t available_bytes, int64_t bandwidth) {
  std::optional<Proposal> largest;
  for (const KnownModel& model : known_models()) {
    if (model.read_per_token * kMixtureTimes > model.file_bytes) continue;
    if (fit_of(model.memory_bytes, available_bytes) != Fit::kYes) continue;
    largest = Proposal{model, Fit::kYes, tokens_per_second(bandwidth, model.read_per_token)};
  }
  return largest;
}

}  // namespace cairn::loader
