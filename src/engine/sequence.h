/// A sequence: one request from admission to its end, with its tokens, its pages, and what turns logits into events.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "engine/decoding_constraint.h"
#include "engine/event.h"
#include "engine/output/sample_batch.h"
#include "engine/output/stop_matcher.h"
#include "engine/scheduling/request_queue.h"
#include "engine/scheduling/scheduler.h"
#include "engine/speculation/drafter.h"
#include "sampling/sampler.h"
#include "tokenizer/detokenizer.h"

namespace cairn {

/// Sequence::rank() of a sequence whose client does not read.
inline constexpr int32_t kUnreadRank = std::numeric_limits<int32_t>::max();
/// When the client of a request that was preempted as unread has read, the request is due after this delay at the
/// earliest: behind those that came before.
inline constexpr std::chrono::nanoseconds kRejoinDelay = std::chrono::seconds(2);

/// A position at which a sequence's recurrent states are copied for later prompts (checkpoints.h).
struct Checkpoint {
  int32_t tokens = 0;  ///< before it, a multiple of kPageTokens
  uint64_t key = 0;    ///< PrefixCache::key_at it: the same for prompts that have the same tokens before it
};

/// What the disk tier has to do with a sequence.
struct SequenceDisk {
  std::shared_ptr<disk::DiskLoad> load = nullptr;  ///< pages on their way; the sequence computes nothing meanwhile
  int32_t load_tokens = 0;                         ///< where it goes on once they are there
  int64_t begun_ns = 0;                            ///< when the engine first waited for them; 0: not yet
  int64_t progress_ns = 0;                         ///< when the last of them came
  bool gave_up = false;                            ///< pages did not come: nothing more is loaded
  int32_t saved = 0;                               ///< tokens whose pages were handed to the tier
  /// Where a sequence that resumes later is expected to, ascending multiples of kPageTokens (models with windows or
  /// states).
  std::vector<int32_t> boundaries = {};
  size_t next_boundary = 0;  ///< the first of them that was not handed over
};

/// The KV memory of one sequence, which the engine takes away on preemption and gives back later.
struct SequenceMemory {
  PageTable table;
  PrefixCursor cursor;
  int32_t computed = 0;  ///< tokens that the model has computed, which is also the position of the next row
  /// For models with recurrent states: where copies of them are wanted, ascending (KvManager::plan_checkpoints).
  std::vector<Checkpoint> checkpoints = {};
  SequenceDisk disk = {};

  /// The next of them behind `computed`; null if there is none.
  const Checkpoint* next_checkpoint() const {
    const auto next = std::ranges::upper_bound(checkpoints, computed, {}, &Checkpoint::tokens);
    return next == checkpoints.end() ? nullptr : &*next;
  }
};

/// Why a sequence that ran waits again.
enum class PreemptReason {
  kNever,
  kPages,   ///< a sequence that comes before it needed them
  kShare,   ///< for a party that has less (scheduling/fair_shares.h)
  kUnread,  ///< its client does not read
};

/// Thread: the engine's.
class Sequence {
 public:
  /// Allocates everything that decoding needs. `scratch` and `tokenizer` outlive this.
  Sequence(SequenceId id, Submission&& submission, const Tokenizer& tokenizer, int32_t vocabulary, size_t kv_groups,
           int32_t drafts_max, SamplerScratch& scratch);

  SequenceId id() const { return id_; }
  const EventChannel& channel() const { return *channel_; }
  Priority priority() const { return priority_; }
  const Party& party() const { return party_; }
  int64_t deadline_ns() const { return deadline_ns_; }
  /// Whether this sequence goes on rather than `other` when only one can: first those whose clients read, then by
  /// priority, rank and deadline.
  bool precedes(const Sequence& other) const;
  /// Whether its deadline is nearer than `other`'s; of equal ones the older request's is.
  bool is_due_before(const Sequence& other) const;
  /// How many sequences of its client come before it; kUnreadRank if its client does not read. Set for every step.
  int32_t rank() const { return rank_; }
  void set_rank(int32_t rank) { rank_ = rank; }

  SequenceMemory& memory() { return memory_; }
  const SequenceMemory& memory() const { return memory_; }
  std::span<const TokenId> tokens() const { return tokens_; }
  uint64_t salt() const { return salt_; }
  /// Scale of each LoRA adapter of the model, for this sequence.
  std::span<const float> adapter_scales() const { return adapter_scales_; }
  /// Where lookups in the prefix cache begin. Without a disk tier the owner of its pages there does not matter.
  PrefixCursor root() const;
  /// A hash of the name of the tenant that it is of.
  uint64_t tenant() const { return tenant_; }
  /// Its pages are the owner's on disk, if its prompt has at least `prompt_min` tokens and its client lets them be
  /// kept.
  void set_disk_owner(uint64_t owner, int32_t prompt_min) {
    disk_owner_ = owner;
    keep_on_disk_ = may_be_kept_ && (prompt_tokens_ >= prompt_min || slot_action_ == SlotAction::kSave);
  }
  /// Whether its client lets it be kept on a disk.
  bool may_be_kept() const { return may_be_kept_; }
  int32_t slot() const { return slot_; }
  SlotAction slot_action() const { return slot_action_; }
  /// Tokens of the prompt, and of the answer before a preemption, that the model still has to compute.
  int32_t rows_left() const { return static_cast<int32_t>(tokens_.size()) - memory_.computed; }
  /// Whether the only row left is a token that was sampled.
  bool decoding() const { return sampled_ > 0 && rows_left() == 1; }
  ScheduleInput demand() const;
  /// Whether it waits for its first token with a prompt of at most kLateRowsMax uncached tokens.
  bool is_short_prefill() const { return sampled_ == 0 && prompt_tokens_ - cached_tokens_ <= kLateRowsMax; }

  // -- Embedding: the text is not continued.
  bool embeds() const { return embed_.has_value(); }
  /// Which hidden rows the step must keep, depending on whether its rows reach the end of the text.
  LogitsWanted wants_hidden(bool to_the_end) const;
  /// Takes the hidden rows of the next tokens, before they are counted as computed. True when the vector is complete:
  /// its finish is in `events`.
  bool take_hidden(std::span<const float> rows, bool to_the_end, const Runner& runner, Events& events);

  // -- Speculation.
  bool speculates() const { return speculates_; }
  DraftLengthController& draft_length_controller() { return draft_length_controller_; }
  /// Draft tokens for the next step; written by the drafter, or by draft_expected().
  std::vector<TokenId>& drafts() { return drafts_; }
  void forget_drafts() {
    drafts_.clear();
    drafts_expected_ = false;
  }
  /// Whether the constraint expects tokens that may be drafted.
  bool expects() const { return takes_drafts_ && !is_forced() && !rule_.expected.empty(); }
  /// Drafts what the constraint expects: at most kExpectedDraftsMax tokens, and no more than pay. `row_cost` as for
  /// DraftLengthController.
  void draft_expected(double row_cost);
  /// Tokens that could still follow the next one.
  int32_t drafts_room() const { return tokens_max_ - static_cast<int32_t>(tokens_.size()) - 1; }

  // -- The next token, from logits on the host or from a runner that samples.
  Sampled choose(std::span<const float> logits);
  /// Whether the next token needs no logits.
  bool is_given() const;
  /// Adds a request for the sample from a row: of the next token, or of one `ahead` tokens later if the tokens between
  /// are drafts that are sampled. False if it cannot be told yet, or must be left to choose().
  bool add_request(int32_t row, int32_t ahead, SampleBatch& samples);
  /// Takes a sample that the runner made, in place of choose(); it is not SampleResult::kNeedsHost.
  Sampled take(const SampleResult& sampled);
  /// What the client is told of the prompt, if it asked and the answer has not begun; else nothing.
  std::optional<PrefillProgress> prefill(int64_t now_ns) const;
  /// Adds the token's events. True when the answer has ended.
  bool add_token(Sampled&& sampled, Events& events);
  /// The events of an end that did not come from the answer itself. Text held back is dropped.
  Events end(FinishReason reason, Error error) const;
  void publish(Events&& events, UnnotifiedChannels& unnotified);

  // -- Statistics and state that its client sees.
  void admitted(int64_t now_ns);
  void found_in_cache(int32_t tokens, bool on_disk = false);
  void preempted(PreemptReason why);
  PreemptReason preempt_reason() const { return preempt_reason_; }
  /// Whether it was preempted because its client did not read, and the client had still not read at the last rejoin().
  bool waits_for_client() const { return waits_for_client_; }
  /// Gives the sequence, once its client has read, the place of a request that comes now, and a later one each time:
  /// clients that stall repeatedly come behind those that do not.
  void rejoin(int64_t now_ns);
  /// The nanoseconds since its last tokens; 0 of the first.
  int64_t token_at(int64_t now_ns);
  void drafted(int32_t proposed, int32_t accepted);
  const std::string& request_id() const { return request_id_; }
  int32_t prompt_tokens() const { return prompt_tokens_; }
  int32_t cached_tokens() const { return cached_tokens_; }
  bool was_admitted() const { return admitted_ns_ != 0; }
  /// How long the client has read no events while kPendingTokensMax were waiting.
  std::chrono::nanoseconds stalled_for(int64_t now_ns);

 private:
  bool ends_answer(TokenId token) const;
  /// What must not be sampled next.
  std::span<const TokenId> banned();
  bool is_forced() const { return forced_next_ < rule_.forced.size(); }
  TokenId take_forced();
  void fail(Error error, Events& events);
  void add_event(Sampled&& sampled, Events& events);
  Finish finish(FinishReason reason) const;
  Finish finish_with_rest(FinishReason reason);

  SequenceId id_;
  std::string request_id_;
  std::shared_ptr<EventChannel> channel_;
  TenantTicket ticket_;
  const Tokenizer& tokenizer_;
  std::vector<TokenId> tokens_;  // prompt and answer
  int32_t prompt_tokens_;
  int32_t tokens_max_;
  bool fills_context_;  // whether tokens_max_ is the end of the context, or of the pool
  int32_t sampled_ = 0;
  int32_t cached_tokens_ = 0;
  int32_t disk_tokens_ = 0;
  bool ignore_eos_;
  bool shows_stop_tokens_;
  bool reports_prefill_;
  size_t shown_stops_;
  int32_t min_tokens_;
  std::chrono::nanoseconds line_time_max_;
  std::vector<TokenId> stop_tokens_;
  std::vector<TokenId> ends_;    // tokens that end the answer, if min_tokens_ forbids them for a while
  std::vector<TokenId> banned_;  // scratch
  bool takes_drafts_;
  bool speculates_;
  bool drafts_expected_ = false;  // the drafts are the constraint's
  Priority priority_;
  Party party_;
  uint64_t salt_;
  std::vector<float> adapter_scales_;
  uint64_t tenant_;
  uint64_t disk_owner_ = 0;
  bool may_be_kept_;
  bool keep_on_disk_;
  int32_t slot_;
  SlotAction slot_action_;
  int64_t arrival_ns_;
  int64_t deadline_ns_;
  int64_t patience_ns_;  // time from its arrival to its deadline
  int64_t tbt_ns_;
  int64_t admitted_ns_ = 0;
  int64_t last_token_ns_ = 0;
  int64_t stalled_since_ns_ = -1;  // -1: the client reads its events
  int32_t rank_ = 0;
  PreemptReason preempt_reason_ = PreemptReason::kNever;
  bool waits_for_client_ = false;
  int32_t times_unread_ = 0;  // how often it was preempted as unread
  Timings timings_;
  SequenceMemory memory_;
  std::vector<TokenId> drafts_;
  DraftLengthController draft_length_controller_;
  DraftLengthController expected_length_controller_;
  std::vector<std::string> stops_;
  Sampler sampler_;
  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
  IndentMatcher indent_matcher_;
  std::optional<EmbeddingOptions> embed_;
  std::optional<PoolingAccumulator> pooled_;  // set if embed_ is
  std::shared_ptr<DecodingConstraint> constraint_;
  NextTokenRule rule_;
  size_t forced_next_ = 0;  // next index of rule_.forced
};

/// Maximum number of tokens that a constraint expects and that are drafted in one step: other streams wait for them.
inline constexpr int32_t kExpectedDraftsMax = 8;

/// Running sequences are in order of admission; a finished one is null until its iteration ends.
using Sequences = std::vector<std::unique_ptr<Sequence>>;

}  // namespace cairn
