#include <algorithm>

#include "engine/speculation/drafter.h"

namespace cairn::engine {
namespace {

// Tokens that are compared before the loop checks for a match, so that the compiler can compare several at once.
constexpr int64_t kTokensPerBlock = 64;

bool block_has(const TokenId* tokens, TokenId wanted) {
  int32_t found = 0;
  for (int64_t i = 0; i < kTokensPerBlock; ++i) found |= tokens[i] == wanted ? 1 : 0;
  return found != 0;
}

class PromptLookup final : public Drafter {
 public:
  explicit PromptLookup(int32_t ngram_max) : ngram_max_(std::max(ngram_max, 2)) {}

  void propose(std::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) propose_one(request);
  }
  void forget(SequenceId /*sequence*/) override {}

 private:
  void propose_one(const DraftRequest& request) const {
    const size_t look_back = std::min<size_t>(request.tokens.size(), kLookupTokensMax);
    const std::span<const TokenId> tokens = request.tokens.last(look_back);
    const int64_t match = last_match(tokens);
    if (match < 0) return;
    const auto size = static_cast<int64_t>(tokens.size());
    for (int64_t i = 0; i < request.tokens_max; ++i) {
      const int64_t from = match + 1 + i;
      request.proposed->push_back(from < size ? tokens[static_cast<size_t>(from)]
                                              : (*request.proposed)[static_cast<size_t>(from - size)]);
    }
  }

  // Where the latest earlier occurrence of the longest run that ends the tokens ended, or -1.
  int64_t last_match(std::span<const TokenId> tokens) const {
    const auto size = static_cast<int64_t>(tokens.size());
    if (size < 3) return -1;
    const TokenId last = tokens.back();
    int64_t best = -1;
    int32_t best_length = 1;
    // The end of the run goes from the last position but one down to the first that has a token before it.
    int64_t end = size - 2;
    while (end >= 1 && best_length < ngram_max_) {
      if (end >= kTokensPerBlock && !block_has(&tokens[static_cast<size_t>(end - kTokensPerBlock + 1)], last)) {
        end -= kTokensPerBlock;
        continue;
      }
      for (const int64_t stop = std::max<int64_t>(end - kTokensPerBlock, 0); end > stop && best_length < ngram_max_;
           --end) {
        if (tokens[static_cast<size_t>(end)] != last) continue;
        const int32_t length = run_length(tokens, end);
        if (length <= best_length) continue;
        best_length = length;
        best = end;
      }
    }
    return best;
  }

  // How many tokens up to and including `end` equal those at the very end, at most ngram_max.
  int32_t run_length(std::span<const TokenId> tokens, int64_t end) const {
    int32_t length = 1;
    while (length < ngram_max_ && length <= end &&
           tokens[static_cast<size_t>(end - length)] == tokens[tokens.size() - 1 - static_cast<size_t>(length)]) {
      ++length;
    }
    return length;
  }

  const int32_t ngram_max_;
};

}  // namespace

std::unique_ptr<Drafter> make_prompt_lookup(int32_t ngram_max) { return std::make_unique<PromptLookup>(ngram_max); }

}  // namespace cairn::engine
