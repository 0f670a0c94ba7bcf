/// Cutting strings into pieces, as Python does.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "jinja/value/value.h"

namespace cairn::jinja {

/// str.split and str.rsplit. `separator` nullptr: runs of white space. `splits_max` < 0: no limit.
std::vector<std::string_view> split_text(std::string_view text, const std::string_view* separator, int64_t splits_max,
                                         bool from_right);
/// Python's str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// str.replace; `count` < 0: all.
Result<Value> replace_text(Budget& budget, const Value& text, std::string_view old_text, const Piece& new_text,
                           int64_t count);

/// Number of occurrences that do not overlap.
int64_t count_text(std::string_view text, std::string_view needle);

/// Pieces of `text`, views into it, as a list of strings of the same markup.
Result<Value> make_text_list(Budget& budget, const Value& text, const std::vector<std::string_view>& pieces);

/// separator.join(items), where all items must be strings.
Result<Value> join_texts(Budget& budget, const Value& separator, const std::vector<Value>& items);

}  // namespace cairn::jinja
