#include "convert/huggingface/new_metadata.h"

#include <algorithm>
#include <span>

namespace cairn::convert {
namespace {

using gguf::ValueType;

template <class Number, class From>
void write_numbers(gguf::Writer& writer, std::string_view key, ValueType type, const std::vector<From>& from) {
  std::vector<Number> numbers(from.begin(), from.end());
  gguf::Value value;
  value.type = ValueType::kArray;
  value.data = gguf::Array{type, numbers.size(), std::as_bytes(std::span(numbers)), {}, {}};
  writer.set(key, value);
}

struct ValueWriter {
  gguf::Writer& writer;
  std::string_view key;

  void operator()(int64_t value) const { writer.set_integer(key, ValueType::kU32, value); }
  void operator()(double value) const { writer.set_number(key, ValueType::kF32, value); }
  void operator()(bool value) const { writer.set_boolean(key, value); }
  void operator()(const std::string& value) const { writer.set(key, std::string_view(value)); }
  void operator()(const std::vector<int64_t>& list) const {
    write_numbers<int32_t>(writer, key, ValueType::kI32, list);
  }
  void operator()(const std::vector<double>& list) const { write_numbers<float>(writer, key, ValueType::kF32, list); }
  void operator()(const std::vector<bool>& list) const { write_numbers<uint8_t>(writer, key, ValueType::kBool, list); }
  void operator()(const std::vector<uint8_t>& list) const { write_numbers<uint8_t>(writer, key, ValueType::kU8, list); }
  void operator()(const std::vector<std::string>& list) const {
    gguf::Value value;
    value.type = ValueType::kArray;
    value.data = gguf::Array{ValueType::kString, list.size(), {}, {list.begin(), list.end()}, {}};
    writer.set(key, value);
  }
};

}  // namespace

void NewMetadata::set(std::string_view key, Value value) {
  const auto found = std::ranges::find(entries_, key, &std::pair<std::string, Value>::first);
  if (found != entries_.end()) {
    found->second = std::move(value);
  } else {
    entries_.emplace_back(key, std::move(value));
  }
}

void NewMetadata::erase(std::string_view key) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
}

bool NewMetadata::contains(std::string_view key) const {
  return std::ranges::find(entries_, key, &std::pair<std::string, Value>::first) != entries_.end();
}

void NewMetadata::write(gguf::Writer& writer) const {
  for (const auto& [key, value] : entries_) std::visit(ValueWriter{writer, key}, value);
}

}  // namespace cairn::convert
