/// Predicts how long a step takes, learned from the steps before, so that prompts can fill a step's time and no more.
///
/// time = load * (f(rows) + attended * a). f is a table over row counts, interpolated (the matrix products: flat while
/// weights are read for few rows, then linear); `attended` is the sum over rows of positions before each (attention).
/// Table and a are learned together by least squares that forget slowly (a Kalman filter whose state drifts: Kalman
/// 1960); an error where the model is certain moves the load, which follows within some five steps, so that another
/// process on the machine is taken into account at once and for steps of every size.
#pragma once

#include <array>
#include <cstdint>

#include "engine/engine_options.h"

namespace cairn::engine {

/// Sum over `rows` rows of the positions before each, the first row at `position`.
constexpr int64_t attended_by(int64_t position, int64_t rows) { return rows * position + rows * (rows - 1) / 2; }

/// Largest factor by which a step beside streams may exceed the rows of the largest step so far: predictions beyond
/// measured sizes are estimates, and a wrong one must not freeze a stream.
inline constexpr int32_t kRowGrowth = 2;

/// Allocates nothing. Thread: the engine's.
class CostModel {
 public:
  /// `first_rows`: EngineOptions::first_rows.
  explicit CostModel(int32_t first_rows = kFirstRows) : first_rows_(first_rows) {}

  /// Predicted nanoseconds of a step, monotone in both arguments. 0, "unknown", before anything was observed.
  double step_ns(int32_t rows, int64_t attended) const;
  /// How many more rows of one prompt, the first at `position`, fit beside `rows` rows that attend to `attended`
  /// positions, so that the step takes at most `budget_ns`; between 0 and `batch_tokens_max`. A step has at most
  /// `growth` times the rows of the largest seen, or of `rows`; the first one at most `first_rows`.
  int32_t rows_within(double budget_ns, int32_t rows, int64_t attended, int64_t position, int32_t batch_tokens_max,
                      int32_t growth = kRowGrowth) const;
  /// Learns from a step that took `ns` nanoseconds. Ignored if that is not above 0.
  void observe(int32_t rows, int64_t attended, double ns);

  /// Nanoseconds per row, without attention, of a chunk as large as the largest measured; 0 if unknown.
  double row_ns() const;
  /// Nanoseconds per attended position.
  double attended_ns() const { return load_ * state_[kAttended]; }

 private:
  static constexpr int kPoints = 10;         // points of the table: 1, 2, 4, ..., 512 rows
  static constexpr int kAttended = kPoints;  // index of the coefficient a in the state, after the table
  static constexpr int kStates = kPoints + 1;
  using Vector = std::array<double, kStates>;

  static Vector features(int32_t rows, int64_t attended);
  double without_load(const Vector& features) const;
  void start(int32_t rows, double ns);
  struct Expected {
    double ns = 0, variance = 0;  // without load
    Vector spread{};              // covariance of the state with the prediction
  };
  Expected expect(const Vector& features) const;
  void learn(const Vector& features, const Expected& expected, double noise, double innovation, bool believed);
  void make_plausible();
  void fill_unknown();

  int32_t first_rows_ = kFirstRows;
  int32_t rows_seen_max_ = 0;  // 0: nothing was observed
  int32_t steps_ = 0;          // observed steps, counted up to kStepsEarly
  Vector state_{};
  std::array<bool, kPoints> known_{};  // points from which the others are estimated; at least one
  std::array<Vector, kStates> covariance_{};
  double load_ = 1;
  int surprises_ = 0;  // consecutive observations far from the prediction
};

}  // namespace cairn::engine
