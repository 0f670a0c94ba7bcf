/// What `cairn bench serve` asks a server: prompts of known shapes, the same for the same seed.
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
  kAgent,   ///< turns of a conversation: the history with the model's own answers, then a tool's result
  kLong,    ///< a question about a long document
  kShared,  ///< a short question after a long system message that all requests share
};
inline constexpr int kMixes = 4;
std::string_view mix_name(Mix mix);
/// "chat,long": requests take them in turn. Error: kInvalidArgument, listing the names.
Result<std::vector<Mix>> parse_mixes(std::string_view names);

inline constexpr int kWordsMax = 1'000'000;
inline constexpr int kTurnsMax = 10'000;

struct WorkloadOptions {
  std::vector<Mix> mixes = {Mix::kChat};
  uint64_t seed = 1;
  /// Of the question (chat), each tool result (agent), the document (long) or the system message (shared); 0: default
  int words = 0;
  int turns = 30;  ///< of one conversation (agent); then another begins
};

/// A conversation that waits for the model's answer.
struct Job {
  int64_t index = 0;
  Mix mix = Mix::kChat;
  nlohmann::ordered_json messages;
  int64_t conversation = -1;  ///< of an agent
  int turn = 0;
};

/// Makes jobs. Thread-safe. Texts depend on the seed and the job's index, or the conversation's number and turn.
class Workload {
 public:
  explicit Workload(const WorkloadOptions& options) : options_(options) {}
  Job next(int64_t index);
  /// The conversation of an agent goes on with this answer.
  void answered(Job job, std::string answer);

 private:
  Job agent(int64_t index);

  const WorkloadOptions options_;
  std::mutex mutex_;                 // guards the next two
  std::deque<Job> waiting_;          // conversations whose last answer has come
  int64_t conversations_begun_ = 0;  // their numbers
};

/// The conversation as one text, for servers and endpoints without messages.
std::string plain_text(const nlohmann::ordered_json& messages);

}  // namespace cairn::bench
