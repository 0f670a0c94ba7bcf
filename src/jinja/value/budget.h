/// The budget of one rendering: steps, depth, live memory, length of one string. Single-threaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "jinja/jinja.h"
#include "jinja/value/origin.h"

namespace cairn::jinja {

class Budget {
 public:
  /// Bytes that are copied or compared for the cost of one step.
  static constexpr int64_t kBytesPerStep = 64;

  explicit Budget(const JinjaLimits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  const JinjaLimits& limits() const { return limits_; }

  Result<void> step(int64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps_max) [[unlikely]]
      return too_many_steps();
    return {};
  }
  Result<void> work(int64_t bytes) { return step(bytes / kBytesPerStep); }

  /// Fails if a string of that many bytes would be too long; called before it is built.
  Result<void> check_length(int64_t bytes) const;

  /// Takes live memory, which its holder gives back (see Charge).
  Result<void> take(int64_t bytes);
  void give_back(int64_t bytes) { memory_ -= bytes; }

 private:
  friend class DepthGuard;
  std::unexpected<Error> too_many_steps() const;

  JinjaLimits limits_;
  int64_t steps_ = 0;
  int64_t memory_ = 0;
  int32_t depth_ = 0;
};

/// A share of a budget's live memory, given back when its holder is destroyed; the budget outlives it.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->give_back(bytes_);
  }

  Result<void> take(Budget& budget, int64_t bytes) {
    CAIRN_TRY_VOID(budget.take(bytes));
    budget_ = &budget;
    bytes_ += bytes;
    return {};
  }

 private:
  Budget* budget_ = nullptr;
  int64_t bytes_ = 0;
};

/// One level deeper for its lifetime: `DepthGuard deeper(budget); CAIRN_TRY_VOID(deeper.check());`
class DepthGuard {
 public:
  explicit DepthGuard(Budget& budget) : budget_(budget) { ++budget_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  ~DepthGuard() { --budget_.depth_; }
  Result<void> check() const;

 private:
  Budget& budget_;
};

/// A string being built, within the budget.
class Buffer {
 public:
  explicit Buffer(Budget& budget) : budget_(budget) {}

  Result<void> put(const Piece& piece);
  /// Appends the same bytes `count` times, after checking the total length.
  Result<void> put_repeated(const Piece& piece, int64_t count);

  Budget& budget() { return budget_; }
  const std::string& text() const { return text_; }
  Piece piece() const { return {text_, origin_}; }

  struct Built {
    std::string text;
    Origin origin;
    Charge charge;
  };
  /// Finishes the string and returns it.
  Built release() { return {std::move(text_), std::move(origin_), std::move(charge_)}; }

 private:
  Result<void> append(const Piece& piece);

  Budget& budget_;
  std::string text_;
  Origin origin_;
  Charge charge_;
};

/// Writes a text derived from another one piece by piece, with the origin of the source bytes of each piece.
class Derivation {
 public:
  Derivation(Buffer& out, const Piece& from);
  /// Appends `made`, which is derived from `of`, a view into the source text. Written at the latest by finish().
  Result<void> put(std::string_view made, std::string_view of);
  Result<void> finish();

 private:
  static constexpr size_t kPendingBytes = 4096;  // bytes gathered before they are written

  Buffer& out_;
  const Piece from_;
  const bool mixed_;  // whether the source text is partly foreign and partly own
  std::string pending_;
  bool pending_foreign_;
};

}  // namespace cairn::jinja
