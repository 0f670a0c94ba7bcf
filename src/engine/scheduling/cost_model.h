/// How long a step will take, learned from the steps before: what lets prompts fill a step's time and no more.
///
/// time = load * (f(rows) + attended * a). f is a table over row counts, interpolated (the matrix products: flat while
/// weights are read for few rows, then linear); `attended` is the sum over rows of positions before each (attention).
/// Table and a are learned together by least squares that forget slowly (a Kalman filter whose state drifts: Kalman
/// 1960); what the model is sure of and yet comes out otherwise moves the load, which follows within some five steps,
/// so that another process on the machine shows at once and in steps of every size.
#pragma once

#include <array>
#include <cstdint>

namespace cairn {

/// Positions before each of `rows` rows, summed, the first row at `position`.
constexpr int64_t attended_by(int64_t position, int64_t rows) { return rows * position + rows * (rows - 1) / 2; }

/// Rows of a first step, of which nothing is known.
inline constexpr int32_t kFirstRows = 16;
/// How many times the rows of the largest step so far the next may have beside streams: what is predicted for more than
/// was seen is an estimate, and a wrong one must not freeze a stream.
inline constexpr int32_t kRowGrowth = 2;

/// Allocates nothing. Thread: the engine's.
class CostModel {
 public:
  /// Predicted nanoseconds of a step. Monotone in both. Before anything was observed: 0, "unknown".
  double step_ns(int32_t rows, int64_t attended) const;
  /// How many more rows of one prompt, the first at `position`, fit beside `rows` rows that attend to `attended`
  /// positions, so that the step takes at most `budget_ns`; between 0 and `batch_tokens_max`. A step has at most
  /// `growth` times the rows of the largest seen, or of `rows`; the first one at most kFirstRows.
  int32_t rows_within(double budget_ns, int32_t rows, int64_t attended, int64_t position, int32_t batch_tokens_max,
                      int32_t growth = kRowGrowth) const;
  /// A step took so long. Ignored if that is not above 0.
  void observe(int32_t rows, int64_t attended, double ns);

  /// Nanoseconds per row, without attention, of a chunk as large as those seen; 0 if unknown.
  double row_ns() const;
  /// Nanoseconds per attended position.
  double attended_ns() const { return load_ * state_[kAttended]; }

 private:
  static constexpr int kPoints = 10;         // of the table: 1, 2, 4, ..., 512 rows
  static constexpr int kAttended = kPoints;  // place of a in the state, after the table
  static constexpr int kStates = kPoints + 1;
  using Vector = std::array<double, kStates>;

  static Vector features(int32_t rows, int64_t attended);
  double without_load(const Vector& features) const;
  void start(int32_t rows, double ns);
  struct Expected {
    double ns = 0, variance = 0;  // without load
    Vector spread{};              // covariance of the state with it
  };
  Expected expect(const Vector& features) const;
  void learn(const Vector& features, const Expected& expected, double noise, double innovation);
  void make_plausible();
  void fill_unknown();

  int32_t rows_seen_max_ = 0;  // 0: nothing was observed
  int32_t steps_ = 0;          // observed, up to what counts as early
  Vector state_{};
  std::array<bool, kPoints> known_{};  // points from which the others are estimated; one at least
  std::array<Vector, kStates> covariance_{};
  double load_ = 1;
  int surprises_ = 0;  // observations in a row that were far from what was predicted
};

}  // namespace cairn
