#include "engine/scheduling/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace cairn::engine {
namespace {

// Standard deviation of a step's time around the model, as a share of that time: what an otherwise idle machine shows.
constexpr double kNoise = 0.1;
// Drift of the learned values per observation, as a share: old steps count half after some ten.
constexpr double kDrift = 0.01;
// Share of a surprise, in logarithms, that the load takes over at once: 92 % after five steps; less if it may be noise.
constexpr double kLoadGain = 0.4;
constexpr double kLoadGainMin = 0.1;
constexpr double kLoadMax = 16;
// A step that takes more than this many times the prediction counts as taking just that: something else disturbed it.
// The limit is squared with each such step in a row, so that a lasting change is learned.
constexpr double kSurprise = 2;
constexpr int kSurprisesMax = 3;
// Standard deviations of the prediction, as a share of it, that are added to that limit.
constexpr double kUnsure = 4;
// Number of first steps that count as early. The first step may also have read the weights from disk: if an early one
// takes surprisingly little time, learning starts again with it.
constexpr int32_t kStepsEarly = 8;
// Until its cost is known, attention over this many positions is assumed to cost up to as much as everything else of a
// row.
constexpr double kAttentionPositions = 2'048;
// Beyond the measured sizes, a row is assumed to cost at least this share of the average so far: products that still
// read weights for few rows make it look as if further rows were free.
constexpr double kRowShareMin = 0.5;
// Maximum growth of the cost per row from one point to the next. More rows should cost less each, or the step could be
// cut in two, so this allows for noise only. A point that was only seen in disturbed steps comes down with those before
// it.
constexpr double kRowGrowthMax = 1.5;
// A point counts as known once one step has removed more than this share of its variance.
constexpr double kKnown = 0.2;

double point_rows(int point) { return static_cast<double>(int64_t{1} << point); }

}  // namespace

CostModel::Vector CostModel::features(int32_t rows, int64_t attended) {
  Vector features{};
  const int floor = std::bit_width(static_cast<uint32_t>(std::max(rows, 1))) - 1;
  const int point = std::min(floor, kPoints - 2);  // beyond the table its last segment is extrapolated
  const double part = (std::max(rows, 1) - point_rows(point)) / point_rows(point);
  features[point] = 1 - part;
  features[point + 1] = part;
  features[kAttended] = static_cast<double>(attended);
  return features;
}

double CostModel::without_load(const Vector& features) const {
  double ns = 0;
  for (int i = 0; i < kStates; ++i) ns += features[i] * state_[i];
  return ns;
}

double CostModel::step_ns(int32_t rows, int64_t attended) const {
  return load_ * without_load(features(rows, attended));
}

int32_t CostModel::rows_within(double budget_ns, int32_t rows, int64_t attended, int64_t position,
                               int32_t batch_tokens_max, int32_t growth) const {
  if (rows_seen_max_ == 0) return std::clamp(first_rows_ - rows, 0, batch_tokens_max);
  const auto fits = [&](int32_t more) {
    return step_ns(rows + more, attended + attended_by(position, more)) <= budget_ns;
  };
  int32_t low = 0;
  int32_t high = std::clamp(growth * std::max(rows_seen_max_, rows) - rows, 0, batch_tokens_max);
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    fits(middle) ? low = middle : high = middle - 1;
  }
  return low;
}

double CostModel::row_ns() const {
  if (rows_seen_max_ == 0) return 0;
  const int32_t rows = std::min(rows_seen_max_, 1 << (kPoints - 1));
  return step_ns(rows, 0) / rows;
}

CostModel::Expected CostModel::expect(const Vector& features) const {
  Expected expected;
  expected.ns = std::max(without_load(features), 1.0);
  for (int i = 0; i < kStates; ++i) {
    for (int j = 0; j < kStates; ++j) expected.spread[i] += covariance_[i][j] * features[j];
    expected.variance += features[i] * expected.spread[i];
  }
  expected.variance = std::max(expected.variance, 0.0);
  return expected;
}

void CostModel::observe(int32_t rows, int64_t attended, double ns) {
  if (!(ns > 0) || !std::isfinite(ns) || rows < 1) return;
  if (rows_seen_max_ == 0) start(rows, ns);
  rows_seen_max_ = std::max(rows_seen_max_, rows);

  const Vector phi = features(rows, attended);
  Expected expected = expect(phi);
  const auto surprising = [&] { return kSurprise + kUnsure * std::sqrt(expected.variance) / expected.ns; };
  if (steps_ < kStepsEarly && ns * surprising() < load_ * expected.ns) {
    start(rows, ns);
    expected = expect(phi);
  }
  steps_ = std::min(steps_ + 1, kStepsEarly);

  const double ratio = ns / (load_ * expected.ns);
  const double limit = std::pow(surprising(), 1 << surprises_);
  const double believed = std::clamp(ratio, 1 / limit, limit);
  const bool surprise = ratio > surprising() || ratio * surprising() < 1;
  surprises_ = surprise ? std::min(surprises_ + 1, kSurprisesMax) : 0;

  const double noise = kNoise * expected.ns * kNoise * expected.ns;
  const double load = load_;
  const double gain = std::clamp(kLoadGain * std::abs(std::log(believed)) / (2 * kNoise), kLoadGainMin, kLoadGain);
  // A surprise that the model's own uncertainty explains is not attributed to the load.
  load_ *= std::pow(believed, gain * noise / (noise + expected.variance));
  load_ = std::clamp(load_, 1 / kLoadMax, kLoadMax);
  learn(phi, expected, noise, believed * load / load_ * expected.ns - expected.ns, believed == ratio);
  make_plausible();
  fill_unknown();
}

void CostModel::start(int32_t rows, double ns) {
  load_ = 1;
  surprises_ = 0;
  covariance_ = {};
  known_ = {};
  for (int i = 0; i < kPoints; ++i) {
    state_[i] = ns * point_rows(i) / rows;
    covariance_[i][i] = state_[i] * state_[i];
  }
  const double attended = ns / rows / kAttentionPositions;
  covariance_[kAttended][kAttended] = attended * attended;
}

void CostModel::learn(const Vector& features, const Expected& expected, double noise, double innovation,
                      bool believed) {
  const double total = expected.variance + noise;
  for (int i = 0; i < kStates; ++i) {
    state_[i] = std::max(state_[i] + expected.spread[i] / total * innovation, 0.0);
    const double learned = expected.spread[i] * expected.spread[i] / total;
    if (i < kPoints && learned > kKnown * covariance_[i][i]) known_[i] = true;
    // A time that is believed in part moves the values and leaves them as uncertain as they were: the next such step
    // would otherwise be attributed to the load.
    if (!believed) continue;
    for (int j = 0; j < kStates; ++j) covariance_[i][j] -= expected.spread[i] * expected.spread[j] / total;
  }
  for (int i = 0; i < kStates; ++i) {
    if (features[i] != 0) covariance_[i][i] += kDrift * state_[i] * kDrift * state_[i];
  }
}

// Makes the table plausible: known points whose values fall all take their mean, weighted by how well each is known. Of
// two points of which the larger costs more per row, the less certain one is changed.
void CostModel::make_plausible() {
  struct Block {
    double value, weight;
    int points;
  };
  std::array<Block, kPoints> blocks{};
  int count = 0;
  for (int i = 0; i < kPoints; ++i) {
    if (!known_[i]) continue;
    blocks[count++] = {state_[i], 1 / std::max(covariance_[i][i], 1.0), 1};
    for (; count > 1 && blocks[count - 2].value > blocks[count - 1].value; --count) {
      Block& left = blocks[count - 2];
      const Block& right = blocks[count - 1];
      const double weight = left.weight + right.weight;
      left = {(left.value * left.weight + right.value * right.weight) / weight, weight, left.points + right.points};
    }
  }
  int block = 0;
  std::array<int, kPoints> points{};  // indices of the known points
  int points_count = 0;
  for (int i = 0; i < kPoints; ++i) {
    if (!known_[i]) continue;
    points[points_count++] = i;
    state_[i] = blocks[block].value;
    if (--blocks[block].points == 0) ++block;
  }
  const auto unsure = [this](int i) { return covariance_[i][i] / std::max(state_[i] * state_[i], 1.0); };
  const auto times = [](int few, int more) { return kRowGrowthMax * point_rows(more) / point_rows(few); };
  for (int k = points_count - 1; k > 0; --k) {
    const int few = points[k - 1], more = points[k];
    if (unsure(few) > unsure(more)) state_[few] = std::max(state_[few], state_[more] / times(few, more));
  }
  for (int k = 1; k < points_count; ++k) {
    const int few = points[k - 1], more = points[k];
    state_[more] = std::min(state_[more], state_[few] * times(few, more));
  }
}

// Fills points of which too little is known: below the first known point in proportion to it, between two known points
// by interpolation, after the last one with its slope.
void CostModel::fill_unknown() {
  int before = -1;
  int earlier = -1;  // the known point before that
  for (int i = 0; i < kPoints; ++i) {
    if (known_[i]) {
      earlier = std::exchange(before, i);
      continue;
    }
    int after = i + 1;
    while (after < kPoints && !known_[after]) ++after;
    if (before < 0) {
      state_[i] = state_[after] * point_rows(i) / point_rows(after);
    } else if (after < kPoints) {
      const double part = (point_rows(i) - point_rows(before)) / (point_rows(after) - point_rows(before));
      state_[i] = state_[before] + part * (state_[after] - state_[before]);
    } else {
      double slope = kRowShareMin * state_[before] / point_rows(before);
      if (earlier >= 0) {
        slope = std::max(slope, (state_[before] - state_[earlier]) / (point_rows(before) - point_rows(earlier)));
      }
      slope = std::min(slope, kRowGrowthMax * state_[before] / point_rows(before));
      state_[i] = state_[before] + slope * (point_rows(i) - point_rows(before));
    }
    for (int j = 0; j < kStates; ++j) covariance_[i][j] = covariance_[j][i] = 0;
    covariance_[i][i] = state_[i] * state_[i];
  }
}

}  // namespace cairn::engine
