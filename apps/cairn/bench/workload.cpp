#include "bench/workload.h"

#include <array>
#include <random>
#include <utility>

namespace cairn::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, kMixes> kNames = {"chat", "agent", "long", "shared"};

// Words that are one token each, including the space before it, in most English vocabularies.
constexpr std::string_view kWords[] = {
    "time",   "year",  "people", "way",   "day",    "thing", "world", "life",   "hand",   "part",   "child",
    "eye",    "place", "work",   "week",  "case",   "point", "home",  "water",  "room",   "area",   "money",
    "story",  "fact",  "month",  "right", "study",  "book",  "word",  "side",   "kind",   "head",   "house",
    "page",   "night", "line",   "end",   "city",   "name",  "team",  "minute", "idea",   "body",   "back",
    "face",   "level", "office", "door",  "health", "art",   "war",   "party",  "result", "change", "morning",
    "reason", "girl",  "moment", "air",   "force",  "find",  "give",  "tell",   "ask",    "seem",   "feel",
    "try",    "leave", "call",   "good",  "new",    "first", "last",  "long",   "great",  "little", "own",
    "other",  "old",   "big",    "high",  "small",  "large", "next",  "early",  "young",  "public", "bad",
    "same",   "able",  "the",    "and",   "of",     "to",    "in",    "for",    "with",   "on",     "at",
    "from",   "by",    "about",  "into",  "over",   "after", "under", "before", "between"};

/// Writes sentences of random words.
class Writer {
 public:
  Writer(uint64_t seed, uint64_t stream, uint64_t position) {
    std::seed_seq sequence{seed, seed >> 32, stream, stream >> 32, position};
    random_.seed(sequence);
  }

  std::string text(int words) {
    constexpr int kSentenceMin = 6, kSentenceSpread = 9;
    std::string out;
    int left = 0;
    for (int i = 0; i < words; ++i) {
      std::string word(kWords[random_() % std::size(kWords)]);
      if (left == 0) {
        if (!out.empty()) out += ".";
        word[0] = static_cast<char>(word[0] - 'a' + 'A');
        left = kSentenceMin + static_cast<int>(random_() % kSentenceSpread);
      }
      if (!out.empty()) out += " ";
      out += word;
      --left;
    }
    return out + ".";
  }

 private:
  std::mt19937_64 random_;
};

// The random stream for texts that every request of a mix shares; no index uses it.
constexpr uint64_t kSharedStream = ~0ull;
constexpr uint64_t kConversationStream = 1ull << 40;  // plus the conversation's number

constexpr int kQuestionWords = 60;
constexpr int kDocumentWords = 4'500;
constexpr int kSharedWords = 3'400;  // about 4,000 tokens
constexpr int kAgentSystemWords = 300;
constexpr int kToolResultWords = 120;

ordered_json message(std::string_view role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

}  // namespace

std::string_view mix_name(Mix mix) { return kNames[static_cast<size_t>(mix)]; }

Result<std::vector<Mix>> parse_mixes(std::string_view names) {
  std::vector<Mix> mixes;
  while (true) {
    const size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    size_t i = 0;
    while (i < kNames.size() && kNames[i] != name) ++i;
    if (i == kNames.size()) {
      return fail_at("--mix", Code::kInvalidArgument, "\"{}\" is not one of chat, agent, long, shared", name);
    }
    mixes.push_back(static_cast<Mix>(i));
    if (comma == std::string_view::npos) return mixes;
    names.remove_prefix(comma + 1);
  }
}

Job Workload::agent(int64_t index) {
  Job job;
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty()) {
      job = std::move(waiting_.front());
      waiting_.pop_front();
    } else {
      job.conversation = conversations_begun_++;
    }
  }
  job.index = index;
  job.mix = Mix::kAgent;
  Writer writer(options_.seed, kConversationStream + static_cast<uint64_t>(job.conversation), job.turn);
  const int words = options_.words > 0 ? options_.words : kToolResultWords;
  if (job.turn == 0) {
    Writer shared(options_.seed, kSharedStream, static_cast<uint64_t>(Mix::kAgent));
    const int system_words = options_.words > 0 ? options_.words : kAgentSystemWords;
    job.messages = ordered_json::array();
    job.messages.push_back(message("system", shared.text(system_words)));
    job.messages.push_back(message("user", writer.text(words)));
  } else {
    // Sent as a user's message: many templates refuse a tool message without a tool call before it.
    job.messages.push_back(message("user", "Tool result: " + writer.text(words)));
  }
  return job;
}

Job Workload::next(int64_t index) {
  const Mix mix = options_.mixes[static_cast<size_t>(index) % options_.mixes.size()];
  if (mix == Mix::kAgent) return agent(index);
  Job job;
  job.index = index;
  job.mix = mix;
  job.messages = ordered_json::array();
  Writer writer(options_.seed, static_cast<uint64_t>(index), 0);
  const auto words = [&](int missing) { return options_.words > 0 ? options_.words : missing; };
  switch (mix) {
    case Mix::kChat:
      job.messages.push_back(message("user", writer.text(words(kQuestionWords))));
      break;
    case Mix::kLong:
      job.messages.push_back(message("user", writer.text(words(kDocumentWords)) + "\n\nSummarise this text."));
      break;
    case Mix::kShared: {
      Writer shared(options_.seed, kSharedStream, static_cast<uint64_t>(Mix::kShared));
      job.messages.push_back(message("system", shared.text(words(kSharedWords))));
      job.messages.push_back(message("user", writer.text(std::min(words(kQuestionWords), kQuestionWords))));
      break;
    }
    case Mix::kAgent:
      break;
  }
  return job;
}

void Workload::answered(Job job, std::string answer) {
  if (job.mix != Mix::kAgent || ++job.turn >= options_.turns) return;
  job.messages.push_back(message("assistant", std::move(answer)));
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(job));
}

std::string plain_text(const ordered_json& messages) {
  std::string text;
  for (const auto& item : messages) {
    text += fmt::format("{}: {}\n\n", item["role"].get_ref<const std::string&>(),
                        item["content"].get_ref<const std::string&>());
  }
  return text + "assistant:";
}

}  // namespace cairn::bench
