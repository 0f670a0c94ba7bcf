#include "sampling/truncation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

namespace cairn::sampling {
namespace {

float largest_logit(const std::vector<Candidate>& candidates) {
  float largest = candidates.front().logit;
  for (const Candidate& candidate : candidates) largest = std::max(largest, candidate.logit);
  return largest;
}

// The standard deviation of what is above -infinity.
double deviation_of(const auto& values, auto logit_of) {
  double sum = 0;
  size_t count = 0;
  for (const auto& value : values) {
    const double logit = logit_of(value);
    if (!(logit > -std::numeric_limits<double>::infinity())) continue;
    sum += logit;
    ++count;
  }
  if (count == 0) return 0;
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  for (const auto& value : values) {
    const double logit = logit_of(value);
    if (logit > -std::numeric_limits<double>::infinity()) squares += (logit - mean) * (logit - mean);
  }
  return std::sqrt(squares / static_cast<double>(count));
}

// Sorts only as far as needed: chunk after chunk, each four times as large as the one before. Usually the first
// suffices.
template <class Before>
void keep_mass(std::vector<Candidate>& candidates, double mass, size_t min_keep, Before before) {
  double sum = 0;
  size_t done = 0;
  for (size_t chunk = 64; done < candidates.size(); chunk *= 4) {
    const auto begin = candidates.begin() + static_cast<ptrdiff_t>(done);
    const size_t end_index = std::min(candidates.size(), done + chunk);
    const auto end = candidates.begin() + static_cast<ptrdiff_t>(end_index);
    if (end != candidates.end()) std::nth_element(begin, end, candidates.end(), before);
    std::sort(begin, end, before);
    while (done < end_index) {
      sum += candidates[done++].probability;
      if (sum >= mass - kProbabilitySlack && done >= min_keep) {
        candidates.resize(done);
        return;
      }
    }
  }
}

// Gives the probability of a candidate to a likelier one where the text of one begins that of the other.
void merge_beginnings(std::vector<Candidate>& candidates, const tokenizer::Tokenizer& tokenizer) {
  const auto takes_part = [&](const Candidate& candidate) {
    return candidate.probability > 0 && !tokenizer.ends_generation(candidate.token);
  };
  for (Candidate& shorter : candidates) {
    const std::string_view text = tokenizer.piece(shorter.token, true);
    for (Candidate& longer : candidates) {
      if (&shorter == &longer || text.empty() || !takes_part(shorter) || !takes_part(longer)) continue;
      if (!tokenizer.piece(longer.token, true).starts_with(text)) continue;
      Candidate& kept = longer.probability > shorter.probability ? longer : shorter;
      kept.probability += std::exchange((&kept == &longer ? shorter : longer).probability, 0);
    }
  }
}

}  // namespace

void normalise(std::vector<Candidate>& candidates, double temperature) {
  if (candidates.empty()) return;
  const double largest = largest_logit(candidates);
  double sum = 0;
  for (Candidate& candidate : candidates)
    sum += candidate.probability = std::exp((candidate.logit - largest) / temperature);
  for (Candidate& candidate : candidates) candidate.probability /= sum;
}

void keep_top_p(std::vector<Candidate>& candidates, double mass, size_t min_keep) {
  keep_mass(candidates, mass, min_keep, more_likely);
}

void keep_typical(std::vector<Candidate>& candidates, double mass, size_t min_keep) {
  if (candidates.empty()) return;
  normalise(candidates);
  // The entropy is the mean of -ln p, so the typical logit is the mean logit.
  double typical = 0;
  for (const Candidate& candidate : candidates) typical += candidate.probability * candidate.logit;
  keep_mass(candidates, mass, min_keep, [typical](const Candidate& a, const Candidate& b) {
    const double from_a = std::abs(a.logit - typical);
    const double from_b = std::abs(b.logit - typical);
    return from_a != from_b ? from_a < from_b : more_likely(a, b);
  });
}

void keep_min_p(std::vector<Candidate>& candidates, double ratio, size_t min_keep) {
  if (candidates.empty() || ratio <= 0) return;
  const double least = largest_logit(candidates) + std::log(ratio) - kProbabilitySlack;
  const auto is_kept = [least](const Candidate& candidate) { return candidate.logit >= least; };
  if (min_keep > 1 && std::ranges::count_if(candidates, is_kept) < static_cast<ptrdiff_t>(min_keep))
    return keep_top_k(candidates, min_keep);
  std::erase_if(candidates, [&](const Candidate& candidate) { return !is_kept(candidate); });
}

void keep_top_k(std::vector<Candidate>& candidates, size_t k) {
  if (k < candidates.size()) {
    const auto kth = candidates.begin() + static_cast<ptrdiff_t>(k);
    std::nth_element(candidates.begin(), kth, candidates.end(), more_likely);
    candidates.resize(k);
  }
  std::sort(candidates.begin(), candidates.end(), more_likely);
}

double least_within_sigmas(std::span<const float> logits, double largest, double sigmas) {
  return largest - sigmas * deviation_of(logits, [](float logit) { return logit; });
}

void keep_within_sigmas(std::vector<Candidate>& candidates, double sigmas) {
  if (candidates.empty()) return;
  const double deviation = deviation_of(candidates, [](const Candidate& candidate) { return candidate.logit; });
  const double least = largest_logit(candidates) - sigmas * deviation;
  std::erase_if(candidates, [least](const Candidate& candidate) { return candidate.logit < least; });
}

void drop_top_choices(std::vector<Candidate>& candidates, double threshold, size_t min_keep) {
  normalise(candidates);
  const auto is_top = [least = threshold - kProbabilitySlack](const Candidate& c) { return c.probability >= least; };
  const Candidate* last = nullptr;  // the least likely of the top choices
  size_t top = 0;
  for (const Candidate& candidate : candidates) {
    if (!is_top(candidate)) continue;
    ++top;
    if (last == nullptr || more_likely(*last, candidate)) last = &candidate;
  }
  if (top < 2 || candidates.size() - (top - 1) < min_keep) return;
  const TokenId kept = last->token;
  std::erase_if(candidates, [&](const Candidate& candidate) { return is_top(candidate) && candidate.token != kept; });
}

void keep_infill(std::vector<Candidate>& candidates, const tokenizer::Tokenizer& tokenizer) {
  constexpr double kLeast = 0.2;
  constexpr double kEndWeight = 3;      // how much likelier than its share an end must be
  constexpr size_t kComparedMax = 256;  // without top-k before it, the rest is left out
  if (candidates.empty()) return;
  keep_top_k(candidates, kComparedMax);
  normalise(candidates);
  const auto ends = [&](const Candidate& candidate) { return tokenizer.ends_generation(candidate.token); };
  const auto drop = [&](double least) {
    std::erase_if(candidates, [&](const Candidate& c) { return c.probability < least && !ends(c); });
  };
  double ending = 0;
  for (const Candidate& candidate : candidates) ending += ends(candidate) ? candidate.probability : 0;
  if (kEndWeight * ending * static_cast<double>(candidates.size()) > 1 - ending) {
    std::erase_if(candidates, [&](const Candidate& candidate) { return !ends(candidate); });
    return;
  }
  const TokenId most_likely = candidates.front().token;
  merge_beginnings(candidates, tokenizer);
  drop(kLeast);
  const tokenizer::SpecialTokens& special = tokenizer.special();
  const auto others = std::ranges::count_if(candidates, [&](const Candidate& candidate) { return !ends(candidate); });
  if (others == 0) {
    const TokenId end = special.eot != kNoToken ? special.eot : special.eos;
    candidates.assign(1, {end != kNoToken ? end : most_likely, 0, 1});
    return;
  }
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.probability;
  drop(sum / static_cast<double>(others + 1));
  constexpr double kFloor = 1e-30;  // logits stay finite
  for (Candidate& candidate : candidates)
    candidate.logit = static_cast<float>(std::log(std::max(candidate.probability, kFloor)));
}

double dynamic_temperature(std::vector<Candidate>& candidates, double temperature, double range, double exponent) {
  if (candidates.size() < 2) return temperature;
  normalise(candidates);
  double entropy = 0;
  for (const Candidate& candidate : candidates)
    if (candidate.probability > 0) entropy -= candidate.probability * std::log(candidate.probability);
  const double evenness = std::clamp(entropy / std::log(static_cast<double>(candidates.size())), 0.0, 1.0);
  const double low = std::max(0.0, temperature - range);
  return low + (temperature + range - low) * std::pow(evenness, exponent);
}

void keep_mirostat1(std::vector<Candidate>& candidates, double limit, double temperature, int32_t vocabulary) {
  constexpr size_t kEstimated = 100;  // most likely candidates of which the exponent is estimated
  if (candidates.empty()) return;
  std::sort(candidates.begin(), candidates.end(), more_likely);
  double products = 0;
  double squares = 0;
  for (size_t i = 0; i + 1 < std::min(kEstimated, candidates.size()); ++i) {
    const double rank = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += rank * (static_cast<double>(candidates[i].logit) - candidates[i + 1].logit) / temperature;
    squares += rank * rank;
  }
  const double exponent = squares > 0 ? products / squares : 1;
  const double epsilon = exponent - 1;
  const double k =
      std::pow(epsilon * std::exp2(limit) / (1 - std::pow(static_cast<double>(vocabulary), -epsilon)), 1 / exponent);
  const auto all = static_cast<double>(candidates.size());
  candidates.resize(k >= 1 ? static_cast<size_t>(std::min(k, all)) : 1);
}

void keep_mirostat2(std::vector<Candidate>& candidates, double limit, double temperature) {
  normalise(candidates, temperature);
  if (candidates.empty()) return;
  const double least = std::exp2(-limit);
  const Candidate most_likely = *std::ranges::min_element(candidates, more_likely);
  std::erase_if(candidates, [least](const Candidate& candidate) { return candidate.probability < least; });
  if (candidates.empty()) candidates.push_back(most_likely);
}

}  // namespace cairn::sampling
