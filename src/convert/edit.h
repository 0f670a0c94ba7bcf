/// Writes a model file again with other metadata, or with tensors of another file. Tensors are copied byte for byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "convert/contents.h"
#include "gguf/reader.h"

namespace cairn::convert {

/// The type of a value, or of the elements of an array.
struct ValueForm {
  gguf::ValueType type = gguf::ValueType::kString;
  bool array = false;
};

/// A key and its value as a person writes them.
struct Assignment {
  std::string key;
  std::optional<ValueForm> form;  ///< nullopt: that of the file's own value, or else what the text looks like
  std::string text;
};

/// Reads KEY=VALUE, KEY:TYPE=VALUE or KEY:TYPE[]=[1,2]. TYPE is a name of gguf::value_type_name, or uint32, float32 and
/// so on, as the gguf package calls them. Error (kInvalidArgument): it has none of these forms.
Result<Assignment> parse_assignment(std::string_view typed);

/// A text is true or false (a bool), a whole number (u32, or if it does not fit i32, u64 or i64), another number (f32),
/// a JSON array of strings, bools or numbers (i32, i64 or f32), and otherwise a string.
struct MetadataEdit {
  std::vector<Assignment> set{};
  std::vector<std::string> remove{};  ///< keys, or patterns with '*' and '?'
};

struct EditReport {
  int64_t keys_set = 0;
  int64_t keys_removed = 0;
  int64_t tensors_taken = 0;
  int64_t bytes_taken = 0;
};

/// Reads `in` (any part of a split model stands for the whole) and writes one file `out`: first keys are removed, then
/// set. A key that was there keeps its place. Errors: those of gguf::Reader and Writer; kInvalidArgument (a value that
/// its type cannot hold, a key to remove that is not there, a key given twice, one of split.*, an `out` that is the
/// input); kIo (the input was changed meanwhile).
Result<EditReport> edit_metadata(const std::filesystem::path& in, const std::filesystem::path& out,
                                 const MetadataEdit& edit, const OnCopy& on_copy = {});

/// Writes `in` with the tensors whose names the regular expression (ECMAScript; it may match a part) matches taken from
/// `from` as they are there, type included. Metadata stays that of `in`. Errors: those of edit_metadata; also
/// kInvalidArgument for an expression that is none or matches no tensor; kNotFound for a tensor that `from` lacks;
/// kUnsupported for one that has another shape there.
Result<EditReport> splice(const std::filesystem::path& in, const std::filesystem::path& from,
                          const std::string& tensors, const std::filesystem::path& out, const OnCopy& on_copy = {});

}  // namespace cairn::convert
