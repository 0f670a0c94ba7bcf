/// The metadata of a file that is to be written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gguf/writer.h"

namespace cairn::convert {

/// Keys in the order in which they were set first; setting one again replaces its value.
class NewMetadata {
 public:
  using Value = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                             std::vector<bool>, std::vector<std::string>, std::vector<uint8_t>>;

  /// Whole numbers become u32, lists of them i32; other numbers f32.
  void set(std::string_view key, Value value);
  void erase(std::string_view key);
  bool contains(std::string_view key) const;

  /// Sets all of them in a file.
  void write(gguf::Writer& writer) const;

 private:
  std::vector<std::pair<std::string, Value>> entries_;
};

}  // namespace cairn::convert
