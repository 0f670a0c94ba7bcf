/// A long story with facts in it, and a question for each of them: whether a model finds again what it has read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::bench {

inline constexpr int kFactsMax = 40;    ///< as many as there are people
inline constexpr int kScenesMax = 999;  ///< their numbers have fewer digits than those that facts are about

struct StoryOptions {
  int scenes = 190;
  int facts = 16;  ///< at most kFactsMax, and one in a scene
  int words = 30;  ///< of each scene besides its fact, at least
  uint64_t seed = 1;
};

/// Something that one sentence of the story says, and nothing else in it.
struct Fact {
  int scene = 0;  ///< counted from 1
  std::string sentence;
  std::string question;
  std::string answer;   ///< a number, or a word
  bool number = false;  ///< whether it is a number; no other number of the story has so many digits
};

struct Story {
  std::string text;  ///< scenes, each with a heading
  std::vector<Fact> facts;
};

/// The same for the same options, on every machine. Facts are spread evenly over the scenes, and each is of another
/// person, who does nothing else. More words make the same scenes longer.
Story make_story(const StoryOptions& options);

}  // namespace cairn::bench
