/// One step of a loaded model over a ragged batch: the only thing the engine knows of a model.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/ids.h"
#include "cache/kv_layout.h"
#include "cache/page_pool.h"
#include "kernels/sampler_operations.h"
#include "model/pooling.h"

namespace cairn::model {

enum class LogitsWanted {
  kNone,  ///< more of this prompt follows
  kLast,  ///< of the slice's last row
  kAll,   ///< of every row
  // Instead of logits: what they are computed from, the rows behind the last norm.
  kHiddenLast,
  kHiddenAll,
};

/// Rows [row_begin, row_begin + rows) belong to one sequence at positions position_begin, +1, ... Its pages reach past
/// the last of them. Slices follow each other without gaps.
struct BatchSlice {
  SequenceId sequence{};
  int32_t row_begin = 0;
  int32_t rows = 0;
  int32_t position_begin = 0;
  const cache::PageTable* pages = nullptr;
  LogitsWanted logits = LogitsWanted::kLast;
  /// Number of draft rows at the end: recurrent states stay as they are before them until keep_drafts().
  int32_t drafts = 0;
  /// mtp_step(): so many positions before the row's are those of drafts, too.
  int32_t drafts_before = 0;
  /// Scale of each of the model's LoRA adapters for its rows; none: as they were loaded.
  std::span<const float> adapter_scales = {};
};

struct Batch {
  std::span<const TokenId> tokens;  ///< all rows of all slices, flat
  std::span<const BatchSlice> slices;
  const cache::PagePool* pool = nullptr;  ///< whose pages the slices' tables name
  bool keep_logits = false;               ///< rows of logits are not read, but left for sample() and logits_row()
};

/// Logits [rows wanted, vocabulary], in order of the slices; valid until the next step.
struct LogitsView {
  std::span<const float> values;  ///< none if they are kept
  int64_t vocabulary = 0;
  std::span<const float> hidden = {};  ///< [rows wanted, EmbeddingAbility::dimensions], of the slices that want those
  /// mtp_step() of a module that judges its drafts: how likely each row's best token is right, [rows].
  std::span<const float> confidence = {};

  int64_t rows() const { return vocabulary == 0 ? 0 : static_cast<int64_t>(values.size()) / vocabulary; }
  std::span<const float> row(int64_t i) const { return values.subspan(i * vocabulary, vocabulary); }
};

/// A loaded model, a pipeline over several machines, or the fake of the scheduler's tests. Thread: one at a time.
class Runner {
 public:
  virtual ~Runner() = default;
  /// Runs every row through the model, writing its keys and values into the slices' pages. A row's logits do not depend
  /// on how rows are grouped into batches. At most batch_tokens_max() rows and logits_max() rows of logits. If there
  /// are logits and they are kept, the step may still run when this returns: sample() and logits_row() wait for it.
  virtual Result<LogitsView> step(const Batch& batch) = 0;
  /// The first `count` drafts of a slice of the last step are right: recurrent states become those behind them. At most
  /// once for each slice, before the next step. Errors: those of step().
  virtual Result<void> keep_drafts(const cache::PagePool& /*pool*/, const BatchSlice& /*slice*/, int32_t /*count*/) {
    return {};
  }
  virtual const cache::KvLayout& kv_layout() const = 0;
  virtual int64_t vocabulary() const = 0;
  /// Positions that a sequence may have.
  virtual int32_t context_tokens() const = 0;
  virtual int32_t batch_tokens_max() const = 0;
  virtual int32_t logits_max() const = 0;
  /// Without dimensions no slice may want hidden rows.
  virtual EmbeddingAbility embedding() const { return {}; }
  /// Whether a batch may ask for logits to be kept.
  virtual bool samples_on_device() const { return false; }
  /// Samples from rows of the last step, which kept its logits; those come back as they were, but for tokens that may
  /// not be sampled where `allowed` has the row. `sampled` has a place for each of `samples`. Errors: those of step().
  virtual Result<void> sample(std::span<const kernels::SampleRequest> /*samples*/,
                              std::span<const kernels::LogitChange> /*changes*/,
                              std::span<const kernels::AllowedTokens> /*allowed*/,
                              std::span<kernels::SampleResult> /*sampled*/) {
    return fail(Code::kUnsupported, "the model's logits are not kept");
  }
  /// One of those rows, valid until the next step. Errors: those of step().
  virtual Result<std::span<const float>> logits_row(int64_t /*row*/) {
    return fail(Code::kUnsupported, "the model's logits are not kept");
  }
  /// Whether there is an MTP module, or an assistant in its place.
  virtual bool has_mtp() const { return false; }
  /// Drafts by that module: logits [slices, vocabulary] of what follows each row, which is a token that step() has not
  /// seen; valid until the next step() or mtp_step(). A slice has one row, at the position after those that step() or
  /// mtp_step() have computed, and wants kLast. Limits as for step(). It writes to the row's pages what step() writes
  /// over. With draft_block() the first draft computes those that may follow it too: the calls for them come before
  /// the next step(), all slices of a call draft as far ahead, and theirs are the pages of the first call. Errors:
  /// those of step(); kUnsupported unless has_mtp().
  virtual Result<LogitsView> mtp_step(const Batch& /*batch*/) {
    return fail(Code::kUnsupported, "the model has no MTP module");
  }
  /// Above 1, drafts come in blocks of so many rows (DSpark): the first draft writes to the pages of all of them, and
  /// no more drafts than those follow each other. At most batch_tokens_max() / draft_block() slices then.
  virtual int32_t draft_block() const { return 1; }
  /// The judgement of the head that ranks on a last hidden row, as a logit. Only if embedding().ranks. Thread: any.
  virtual float rank(std::span<const float> /*hidden*/) const { return 0; }
};

}  // namespace cairn::model
