#include "bench/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <string_view>

namespace cairn::bench {
namespace {

using Words = std::span<const std::string_view>;

/// People of whom a fact is told.
constexpr std::array<std::string_view, kFactsMax> kPeople = {
    "Adela", "Bruno",  "Carla",  "Dimitri", "Elif",  "Fabian", "Greta",  "Hamid",  "Ines",   "Jonas",
    "Katya", "Lorenz", "Maja",   "Nadir",   "Olga",  "Pavel",  "Quinn",  "Rosa",   "Selim",  "Tilda",
    "Ugo",   "Vera",   "Walter", "Xenia",   "Yusuf", "Zora",   "Anselm", "Brigid", "Cosmo",  "Dagny",
    "Edgar", "Freya",  "Gustav", "Hedda",   "Ivo",   "Judith", "Konrad", "Livia",  "Marcel", "Noemi"};
constexpr std::array<std::string_view, 20> kThings = {
    "a silver compass",  "a sealed letter", "a brass telescope", "a blue notebook",  "a music box",
    "an iron lantern",   "a folded map",    "a velvet purse",    "a glass marble",   "a wooden flute",
    "a torn photograph", "a tin kettle",    "a chess queen",     "a jar of honey",   "a pocket watch",
    "a bone comb",       "a red scarf",     "a pearl button",    "a bundle of keys", "a clay whistle"};
constexpr std::array<std::string_view, 20> kHidingPlaces = {
    "piano",   "staircase",   "beehive",   "altar",    "bathtub",  "wardrobe",  "fountain",
    "chimney", "rowing boat", "haystack",  "doghouse", "bookcase", "wine cask", "sundial",
    "anvil",   "mailbox",     "snowdrift", "loom",     "birdcage", "organ"};
constexpr std::array<std::string_view, 20> kColours = {
    "crimson", "turquoise", "amber",  "violet", "ivory",   "emerald", "scarlet", "indigo",  "bronze", "lavender",
    "saffron", "charcoal",  "copper", "olive",  "magenta", "cobalt",  "maroon",  "apricot", "teal",   "ochre"};
constexpr std::array<std::string_view, 20> kTowns = {
    "Almeria", "Bergen",  "Cracow", "Dundee", "Essen",  "Ferrara", "Ghent",   "Halifax", "Innsbruck", "Jena",
    "Kaunas",  "Limoges", "Malaga", "Nancy",  "Odense", "Porto",   "Rostock", "Siena",   "Tartu",     "Utrecht"};
constexpr std::array<std::string_view, 20> kTrades = {
    "beekeeper",  "surgeon",    "locksmith", "violinist", "baker",  "cartographer", "glazier",
    "translator", "blacksmith", "pilot",     "gardener",  "notary", "weaver",       "diver",
    "printer",    "astronomer", "falconer",  "cooper",    "fencer", "juggler"};

/// What happens besides: of nobody who has a name, and without numbers.
constexpr std::array<std::string_view, 12> kScenery = {"harbour", "market square", "old mill",     "railway yard",
                                                       "orchard", "lighthouse",    "tea room",     "quarry",
                                                       "chapel",  "river bank",    "town archive", "boarding house"};
constexpr std::array<std::string_view, 8> kHours = {"early morning", "noon",    "late afternoon", "dusk",
                                                    "midnight",      "sunrise", "evening",        "the small hours"};
constexpr std::array<std::string_view, 10> kFolk = {"the ferryman",  "an old woman", "the postman", "a schoolboy",
                                                    "the innkeeper", "two sailors",  "the miller",  "a stranger",
                                                    "the sexton",    "a pedlar"};
constexpr std::array<std::string_view, 12> kDeeds = {"swept the steps and hummed a tune that nobody knew",
                                                     "carried baskets of wet laundry up the hill",
                                                     "argued about the price of coal and then laughed",
                                                     "waited for a train that did not come",
                                                     "mended a net in the lee of the wall",
                                                     "told the children about a winter long ago",
                                                     "shared bread and cheese without a word",
                                                     "looked across the water until the lamps were lit",
                                                     "counted coins, frowned, and began once more",
                                                     "chased a goose out of the vegetable beds",
                                                     "read the same page of the newspaper twice",
                                                     "complained about the cold and went on working"};
constexpr std::array<std::string_view, 10> kAsides = {
    "Somewhere a door slammed, and a dog answered.", "The wind smelled of salt and of burnt sugar.",
    "Rain ran down the gutters and under the gate.", "For a while nothing moved but the smoke.",
    "A bell rang, though it was not yet time.",      "Gulls fought over something in the mud.",
    "Dust hung in the light and would not settle.",  "Nobody remembered afterwards who had spoken first.",
    "The shutters were closed on the sunny side.",   "It was the kind of day that leaves no trace."};

/// Chooses in the same way on every machine, which the library's distributions do not promise.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  size_t below(size_t count) { return static_cast<size_t>(random_() % count); }
  std::string_view any(Words words) { return words[below(words.size())]; }
  /// The words in another order.
  std::vector<std::string_view> shuffled(Words words) {
    std::vector<std::string_view> all(words.begin(), words.end());
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[below(i)]);
    return all;
  }

 private:
  std::mt19937_64 random_;
};

std::string_view article(std::string_view noun) {
  return std::string_view("aeiou").find(noun[0]) == std::string_view::npos ? "a" : "an";
}

/// Makes facts of five kinds in turn, none of which has an answer that another one has.
class FactMaker {
 public:
  explicit FactMaker(Dice& dice)
      : dice_(dice),
        people_(dice.shuffled(kPeople)),
        things_(dice.shuffled(kThings)),
        places_(dice.shuffled(kHidingPlaces)),
        colours_(dice.shuffled(kColours)),
        towns_(dice.shuffled(kTowns)),
        trades_(dice.shuffled(kTrades)) {}

  Fact make(size_t index) {
    constexpr size_t kKinds = 5;
    const std::string_view who = people_[index];
    const size_t nth = index / kKinds;
    switch (index % kKinds) {
      case 0: {
        constexpr size_t kFirst = 1000, kDistance = 1100;  // four digits, and all differ
        const size_t number = kFirst + nth * kDistance + dice_.below(kDistance);
        return {.sentence = fmt::format("{} scratched the number {} into the door of the cellar.", who, number),
                .question = fmt::format("Which number did {} scratch into the door of the cellar?", who),
                .answer = fmt::format("{}", number),
                .number = true};
      }
      case 1:
        return {.sentence = fmt::format("{} hid {} behind the {}.", who, things_[nth], places_[nth]),
                .question = fmt::format("Behind what did {} hide {}?", who, things_[nth]),
                .answer = std::string(places_[nth])};
      case 2:
        return {.sentence = fmt::format("{} painted the front of the house {}.", who, colours_[nth]),
                .question = fmt::format("In which colour did {} paint the front of the house?", who),
                .answer = std::string(colours_[nth])};
      case 3:
        return {.sentence = fmt::format("{} bought a ticket to {} and told no one.", who, towns_[nth]),
                .question = fmt::format("To which town did {} buy a ticket?", who),
                .answer = std::string(towns_[nth])};
      default:
        return {.sentence = fmt::format("{} once earned a living as {} {}.", who, article(trades_[nth]), trades_[nth]),
                .question = fmt::format("As what did {} once earn a living?", who),
                .answer = std::string(trades_[nth])};
    }
  }

 private:
  Dice& dice_;
  std::vector<std::string_view> people_, things_, places_, colours_, towns_, trades_;
};

int words_in(std::string_view text) { return 1 + static_cast<int>(std::ranges::count(text, ' ')); }

/// Sentences in which nothing happens that anybody asks for.
std::vector<std::string> filler(Dice& dice, int words) {
  std::vector<std::string> sentences;
  for (int written = 0; written < words; written += words_in(sentences.back())) {
    if (dice.below(3) == 0) {
      sentences.emplace_back(dice.any(kAsides));
      continue;
    }
    std::string sentence = fmt::format("{} {}.", dice.any(kFolk), dice.any(kDeeds));
    sentence[0] = static_cast<char>(sentence[0] - 'a' + 'A');
    sentences.push_back(std::move(sentence));
  }
  return sentences;
}

}  // namespace

Story make_story(const StoryOptions& options) {
  Dice dice(options.seed);
  FactMaker maker(dice);
  Story story;
  for (int i = 0; i < options.facts; ++i) {
    Fact fact = maker.make(static_cast<size_t>(i));
    // In one of the scenes of its part of the story.
    const int begin = i * options.scenes / options.facts, end = (i + 1) * options.scenes / options.facts;
    fact.scene = begin + 1 + static_cast<int>(dice.below(static_cast<size_t>(end - begin)));
    story.facts.push_back(std::move(fact));
  }
  const uint64_t scenes_seed = dice.below(SIZE_MAX);
  size_t next = 0;
  for (int scene = 1; scene <= options.scenes; ++scene) {
    Dice of_scene(scenes_seed + static_cast<uint64_t>(scene));
    story.text += fmt::format("{}Scene {}. The {}, at {}.\n", scene == 1 ? "" : "\n", scene, of_scene.any(kScenery),
                              of_scene.any(kHours));
    const size_t place = of_scene.below(SIZE_MAX);
    std::vector<std::string> sentences = filler(of_scene, options.words);
    if (next < story.facts.size() && story.facts[next].scene == scene) {
      const size_t at = place % (sentences.size() + 1);
      sentences.insert(sentences.begin() + static_cast<ptrdiff_t>(at), story.facts[next++].sentence);
    }
    for (size_t i = 0; i < sentences.size(); ++i) story.text += (i == 0 ? "" : " ") + sentences[i];
    story.text += '\n';
  }
  return story;
}

}  // namespace cairn::bench
