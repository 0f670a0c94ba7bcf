/// What a schema allows, as a union over the types of JSON: sets of texts for scalars, alternatives for arrays and
/// objects.
///
/// A form describes one level of a value. What is below it is a goal: a conjunction of schemas and of negated schemas,
/// which has a form of its own when somebody asks. So recursive schemas have finite forms. Forms are exact: they can be
/// intersected, united and negated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/json_schema/number.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar {

/// A conjunction of literals, by number.
enum class GoalId : uint32_t {};
inline constexpr GoalId kAnyValue{0};
inline constexpr GoalId kNoValue{1};

/// Texts of numbers or, without quotes, of strings.
struct TextSet {
  RegexId text = kNoMatch;
  /// The set is taken among all spellings, not among the canonical (strings) or plain (numbers) ones.
  bool every_spelling = true;
  bool exact = true;   ///< else some values are left out, and the set has no complement
  bool whole = false;  ///< integers, which are written without a point
  /// The values, if they are listed: strings decoded, numbers as they are written.
  std::optional<std::vector<std::string>> values{};
  /// The text is those of `numbers` that are multiples of `divisor`.
  struct Multiples {
    Decimal divisor;
    RegexId numbers{};
    bool operator==(const Multiples&) const = default;
  };
  std::optional<Multiples> multiples{};

  bool operator==(const TextSet&) const = default;
};

/// Among the items from number `from` on, at least `min` and at most `max` fit the goal.
struct Contains {
  GoalId goal = kAnyValue;
  uint64_t from = 0;
  uint64_t min = 1;
  std::optional<uint64_t> max{};
  bool operator==(const Contains&) const = default;
};

struct ArrayForm {
  std::vector<GoalId> prefix{};  ///< goals of the first items
  GoalId rest = kAnyValue;       ///< of all others
  uint64_t min = 0;
  std::optional<uint64_t> max{};
  std::vector<Contains> contains{};
  bool unique = false;

  // What unevaluatedItems leaves alone.
  uint64_t evaluated_prefix = 0;
  bool evaluated_all = false;
  std::vector<GoalId> evaluated_contains{};

  bool operator==(const ArrayForm&) const = default;
};

struct Member {
  enum class Presence { kOptional, kRequired, kAbsent };
  std::string name;
  GoalId goal = kAnyValue;
  Presence presence = Presence::kOptional;
  bool declared = false;  ///< by `properties`, which gives it its place in the order
  bool named = false;     ///< by `required` or by what depends on another name
  bool operator==(const Member&) const = default;
};

/// Members whose keys match `keys` (spellings without quotes) have values for the goal.
struct KeyRule {
  RegexId keys{};
  GoalId goal = kAnyValue;
  bool operator==(const KeyRule&) const = default;
};

struct ObjectForm {
  std::vector<Member> members{};     ///< the declared ones first, in the order in which they are written
  std::vector<KeyRule> rules{};      ///< for all keys, those of `members` too
  std::vector<KeyRule> witnesses{};  ///< for each there is a member with such a key and such a value
  uint64_t min = 0;
  std::optional<uint64_t> max{};

  // What unevaluatedProperties leaves alone.
  std::vector<std::string> evaluated_names{};
  std::vector<RegexId> evaluated_keys{};
  bool evaluated_all = false;

  bool operator==(const ObjectForm&) const = default;
};

struct NormalForm {
  bool null = false, no = false, yes = false;
  TextSet number{}, string{};
  std::vector<ArrayForm> arrays{};
  std::vector<ObjectForm> objects{};

  bool operator==(const NormalForm&) const = default;
};

}  // namespace cairn::grammar
