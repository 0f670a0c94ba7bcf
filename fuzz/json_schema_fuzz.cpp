// Fuzzes the compiler of JSON Schema, and walks what it made along the input's last bytes: no crash, what is taken back
// can be taken again, and what may end is JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text/json.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/matcher.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Json = nlohmann::ordered_json;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.rfind('\xFF');
  const auto schema = cairn::read_json(input.substr(0, cut));  // with all digits of its numbers
  if (!schema) return 0;
  const auto made = cairn::grammar::compile_json_schema(*schema, {});
  if (!made.has_value() || cut == std::string_view::npos) return 0;
  cairn::grammar::Matcher matcher(*made);
  const std::string_view text = input.substr(cut + 1);
  const size_t taken = matcher.push(text);
  if (!matcher.failure() && matcher.may_end() && !Json::accept(text.substr(0, taken))) __builtin_trap();
  matcher.rewind(taken / 2);
  if (!matcher.failure() && matcher.push(text.substr(taken / 2)) != taken - taken / 2 && !matcher.failure())
    __builtin_trap();
  return 0;
}
