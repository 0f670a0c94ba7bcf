/// The requests of `cairn bench serve`: prompts of known shapes, the same for the same seed.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn::bench {

enum class Mix {
  kChat,    ///< one short question
  kAgent,   ///< turns of a conversation: the history with the model's own answers, then a tool result
  kLong,    ///< a question about a long document
  kShared,  ///< a short question after a long system message that all requests share
};
inline constexpr int kMixes = 4;
std::string_view mix_name(Mix mix);
/// Parses a list like "chat,long"; requests use the mixes in turn. Error: kInvalidArgument, which lists the names.
Result<std::vector<Mix>> parse_mixes(std::string_view names);

inline constexpr int kWordsMax = 1'000'000;
inline constexpr int kTurnsMax = 10'000;

struct WorkloadOptions {
  std::vector<Mix> mixes = {Mix::kChat};
  uint64_t seed = 1;
  /// Words of the question (chat), of each tool result (agent), of the document (long) or of the system message
  /// (shared); 0: default.
  int words = 0;
  int turns = 30;  ///< turns of a conversation (agent), after which another begins
};

/// A conversation that is waiting for the model's answer.
struct Job {
  int64_t index = 0;
  Mix mix = Mix::kChat;
  nlohmann::ordered_json messages;
  int64_t conversation = -1;  ///< number of an agent's conversation
  int turn = 0;
};

/// Creates jobs. Thread-safe. Texts depend on the seed and the job's index, or on the conversation's number and turn.
class Workload {
 public:
  explicit Workload(const WorkloadOptions& options) : options_(options) {}
  Job next(int64_t index);
  /// Continues an agent's conversation with this answer.
  void answered(Job job, std::string answer);

 private:
  Job agent(int64_t index);

  const WorkloadOptions options_;
  std::mutex mutex_;                 // guards the next two members
  std::deque<Job> waiting_;          // conversations whose last answer has arrived
  int64_t conversations_begun_ = 0;  // number of conversations begun, which is the next one's number
};

/// The conversation as a single text, for endpoints without messages.
std::string plain_text(const nlohmann::ordered_json& messages);

}  // namespace cairn::bench
