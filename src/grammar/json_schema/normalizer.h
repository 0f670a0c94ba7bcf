/// Computes the normal forms of schemas.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/json_schema/json_text.h"
#include "grammar/json_schema/normal_form.h"
#include "grammar/json_schema/number.h"
#include "grammar/json_schema/resolve.h"

namespace cairn::grammar {

/// A normalizer serves one schema at a time. The first error is kept; what is returned after it has no meaning.
class Normalizer {
 public:
  static constexpr size_t kAlternativesMax = 2'000;  ///< of arrays or of objects in one form
  static constexpr int64_t kWorkMax = 20'000'000;    ///< parts of array and object forms that are looked at in all
  static constexpr int kReferenceDepthMax = 200;     ///< of schemas that apply to the same value
  static constexpr int kEmptinessDepthMax = 16;      ///< of values that are looked into to see that nothing fits
  static constexpr size_t kEnumValuesMax = 100'000;  ///< their time is linear in their bytes
  static constexpr size_t kOneOfBranchesMax = 500;
  static constexpr size_t kTrackedBranchesMax = 6;  ///< of anyOf below unevaluatedProperties or unevaluatedItems

  /// `tracks`: the documents have unevaluatedProperties or unevaluatedItems.
  Normalizer(SchemaIndex& index, JsonText& text, NumberText& numbers, const SchemaOptions& options, bool tracks);

  GoalId goal_of(const nlohmann::ordered_json& schema);
  GoalId both(GoalId a, GoalId b);
  /// The goals of which a value fits at least one if it does not fit this.
  std::vector<GoalId> negations(GoalId goal);
  /// The normal form of a goal, without evaluated sets, and without alternatives that are known to be empty.
  const NormalForm& form(GoalId goal);
  /// Whether it is certain that no value fits.
  bool empty(GoalId goal, int depth = 0);

  /// The goal of a member, with all rules that its name meets.
  GoalId member_goal(const ObjectForm& object, const Member& member);
  bool key_matches(RegexId keys, const std::string& name);
  NormalForm any_form() const;
  std::optional<ObjectForm> intersect(const ObjectForm& a, const ObjectForm& b);

  JsonText& text() { return text_; }
  NumberText& numbers() { return numbers_; }
  const std::optional<SchemaError>& error() const { return error_; }
  void fail(Code code, const SchemaPlace& place, std::string_view keyword, std::string message);
  /// Where a goal's first schema stands.
  const SchemaPlace& place_of(GoalId goal) const;

 private:
  using Json = nlohmann::ordered_json;
  enum class NodeKind { kSchema, kConstant, kUnion };
  struct Node {
    NodeKind kind = NodeKind::kSchema;
    const Json* value = nullptr;
    std::vector<GoalId> goals{};  ///< of a union
    std::optional<NormalForm> form{}, negated{};
    bool busy = false;
  };
  struct Literal {
    uint32_t node = 0;
    bool negated = false;
    auto operator<=>(const Literal&) const = default;
  };
  struct Goal {
    std::vector<Literal> literals;
    std::optional<NormalForm> form{};
    enum class Emptiness { kUnknown, kBusy, kEmpty, kNotEmpty } emptiness = Emptiness::kUnknown;
  };
  struct Made {
    enum class What : uint8_t { kForm, kNegated, kGoal } what;
    uint32_t id;
  };
  struct Schema {  ///< while it is being read
    const Json& value;
    const SchemaPlace& place;
  };

  // Goals and nodes (normalizer.cpp).
  uint32_t node_of(const Json& value, NodeKind kind);
  GoalId conjunction(std::vector<Literal> literals);
  GoalId constant_goal(const Json& value);
  GoalId union_goal(std::vector<GoalId> goals);
  const NormalForm& node_form(uint32_t node);
  const NormalForm& negated_form(uint32_t node);
  void prune(NormalForm& form);
  /// Takes the keys away that are not declared where nothing is said of them, unless no object is left then.
  void close_objects(NormalForm& form);
  /// Takes the error of a circle back, and all forms that were made since there were so many.
  void forget_circle(size_t kept);
  bool empty(const NormalForm& form, int depth);
  bool empty(const ObjectForm& object, int depth);
  bool empty(const ArrayForm& array, int depth);

  // Operations on forms (form_operations.cpp).
  NormalForm intersect(const NormalForm& a, const NormalForm& b);
  std::optional<ArrayForm> intersect(const ArrayForm& a, const ArrayForm& b);
  TextSet intersect(const TextSet& a, const TextSet& b, bool numbers);
  /// What is in both sets of multiples, or in one and in another set.
  RegexId common_multiples(const TextSet& a, const TextSet& b, TextSet& out);
  TextSet unite(std::span<const TextSet* const> sets);
  TextSet complement(const TextSet& set, bool numbers);
  void unite(NormalForm& form, const NormalForm& other);
  /// All at once, since one by one takes quadratic time.
  NormalForm unite(std::span<const NormalForm* const> forms);
  NormalForm negate(const NormalForm& form);
  std::vector<ObjectForm> negations(const ObjectForm& object);
  std::vector<ArrayForm> negations(const ArrayForm& array);
  bool stronger(GoalId a, GoalId b) const;
  bool apart(const NormalForm& a, const NormalForm& b);
  bool apart(const ObjectForm& a, const ObjectForm& b);
  bool within(const ObjectForm& a, const ObjectForm& b);
  bool within(const ArrayForm& a, const ArrayForm& b);
  /// Counts parts of forms that are looked at. False: over kWorkMax, which is the error then.
  bool spend(int64_t parts);

  // Keywords (keywords.cpp, object_keywords.cpp, applicators.cpp).
  NormalForm schema_form(const Json& value);
  NormalForm value_form(const Json& value);
  bool type_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out);
  bool number_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out);
  bool string_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out);
  bool array_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out);
  bool object_keyword(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out);
  bool applicator(const Schema& schema, std::string_view keyword, const Json& value, const NormalForm& siblings,
                  NormalForm& out);
  bool reference(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out);
  void properties(const Schema& schema, const Json& value, NormalForm& out);
  void pattern_properties(const Schema& schema, const Json& value, NormalForm& out);
  void additional_properties(const Schema& schema, const Json& value, NormalForm& out);
  void property_names(const Json& value, NormalForm& out);
  void dependency(const Schema& schema, std::string_view keyword, const Json& value, NormalForm& out);
  void any_of(const Schema& schema, const Json& value, NormalForm& out);
  void one_of(const Schema& schema, const Json& value, const NormalForm& siblings, NormalForm& out);
  void if_then_else(const Schema& schema, const Json& value, NormalForm& out);
  void unevaluated(const Schema& schema, NormalForm& form);
  bool bound(const Schema& schema, std::string_view keyword, const Json& value, bool exclusive, NormalForm& out);
  std::optional<uint64_t> count(const Schema& schema, std::string_view keyword, const Json& value);
  RegexId key_pattern(const SchemaPlace& place, std::string_view keyword, const std::string& pattern);
  const NormalForm& form_of(const Json& schema);
  NormalForm object_only(ObjectForm object) const;
  NormalForm array_only(ArrayForm array) const;
  bool bad(const Schema& schema, std::string_view keyword, std::string_view want);

  SchemaIndex& index_;
  JsonText& text_;
  NumberText& numbers_;
  bool assert_formats_, declared_only_, tracks_;
  std::deque<Node> nodes_;
  std::map<std::pair<const Json*, NodeKind>, uint32_t> node_ids_;
  std::map<std::vector<GoalId>, uint32_t> union_ids_;
  std::deque<Goal> goals_;
  std::map<std::vector<Literal>, GoalId> goal_ids_;
  std::map<std::string, RegexId> patterns_;
  std::map<std::pair<RegexId, std::string>, bool> key_matches_;
  SchemaPlace current_place_;  ///< for messages
  int64_t work_ = 0;
  int depth_ = 0;
  std::vector<Made> made_;  ///< forms in the order in which they were made
  std::optional<SchemaError> error_;
  bool circle_ = false;  ///< the error is one of references in a circle
};

}  // namespace cairn::grammar
