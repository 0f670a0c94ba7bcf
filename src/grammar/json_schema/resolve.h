/// The schemas of a document and the documents that it refers to: identities, base URIs, anchors and references.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace cairn::grammar {

enum class Draft { k4, k6, k7, k2019, k2020 };

/// A schema within its document.
struct SchemaPlace {
  const nlohmann::ordered_json* value = nullptr;
  std::string base;     ///< absolute URI without a fragment, or empty
  std::string pointer;  ///< JSON Pointer from the root of the document
  Draft draft = Draft::k2020;
  const nlohmann::ordered_json* document = nullptr;  ///< its root
};

/// The draft that a `$schema` names; nullopt: another one.
std::optional<Draft> draft_of(std::string_view schema_uri);
/// RFC 3986, section 5.2.
std::string resolve_uri(std::string_view base, std::string_view reference);
/// A reference token of a JSON Pointer.
std::string pointer_token(std::string_view name);

/// All schemas of the documents, found by walking the keywords that hold schemas.
class SchemaIndex {
 public:
  static constexpr int kDepthMax = 256;           ///< of JSON values in a document
  static constexpr size_t kNodesMax = 200'000;    ///< JSON values of all documents
  static constexpr int kPointerStepsMax = 1'000;  ///< of one reference

  /// Adds a document and names it `uri`. The value must outlive the index. Errors: kTooLarge.
  Result<void> add(const nlohmann::ordered_json& document, std::string uri, Draft draft);

  /// The place of a schema that the index knows, or of one below a known one.
  const SchemaPlace& at(const nlohmann::ordered_json& schema) const { return places_.at(&schema); }
  bool knows(const nlohmann::ordered_json& schema) const { return places_.contains(&schema); }
  /// Registers a value that is no subschema of a known keyword as a schema in the context of another place.
  void adopt(const nlohmann::ordered_json& value, const SchemaPlace& context, std::string pointer);

  /// The schema that a reference means, or null. Fragments are pointers or anchors. A pointer that leads nowhere within
  /// a schema with an id of its own is taken from the document's root, as generators mean it that do not know of bases.
  const nlohmann::ordered_json* find(const SchemaPlace& from, std::string_view reference);
  /// Finds the schema that a dynamic reference means, as `find` does; `ambiguous` is set if the schema depends on how
  /// it is reached.
  const nlohmann::ordered_json* find_dynamic(const SchemaPlace& from, std::string_view reference, bool& ambiguous);
  /// Finds the schema that `$recursiveRef: "#"` of draft 2019-09 means, as `find_dynamic` does.
  const nlohmann::ordered_json* find_recursive(const SchemaPlace& from, bool& ambiguous);

 private:
  struct Step {
    const nlohmann::ordered_json* value;
    SchemaPlace place;
    bool schema;
    int depth;
  };
  void visit(const Step& step, std::vector<Step>& open);
  void identify(const nlohmann::ordered_json& schema, SchemaPlace& place);
  const nlohmann::ordered_json* follow(const nlohmann::ordered_json& root, std::string_view pointer);

  std::unordered_map<const nlohmann::ordered_json*, SchemaPlace> places_;
  std::map<std::string, const nlohmann::ordered_json*, std::less<>> resources_;             ///< by absolute URI
  std::map<std::string, const nlohmann::ordered_json*, std::less<>> anchors_;               ///< by "base#name"
  std::map<std::string, std::vector<const nlohmann::ordered_json*>, std::less<>> dynamic_;  ///< by name
  std::vector<const nlohmann::ordered_json*> recursive_;                                    ///< with $recursiveAnchor
  size_t nodes_ = 0;
};

}  // namespace cairn::grammar
