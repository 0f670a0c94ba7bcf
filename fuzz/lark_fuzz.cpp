// Fuzzes the reader of Lark, and walks what it made along the input's last bytes: no crash, and what
// is taken back can be taken again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "grammar/json_schema/json_schema.h"
#include "grammar/matcher.h"
#include "grammar/readers/lark_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.rfind('\xFF');
  const auto made = cairn::grammar::read_lark(input.substr(0, cut), cairn::grammar::SchemaAdder{});
  if (!made.has_value() || cut == std::string_view::npos) return 0;
  cairn::grammar::Matcher matcher(*made);
  const std::string_view text = input.substr(cut + 1);
  const size_t taken = matcher.push(text);
  matcher.rewind(taken / 2);
  if (!matcher.failure() && matcher.push(text.substr(taken / 2)) != taken - taken / 2 && !matcher.failure())
    __builtin_trap();
  return 0;
}
