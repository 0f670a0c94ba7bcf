#include "convert/huggingface/source_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text/printable.h"

namespace cairn::convert {
namespace {

bool is_fp8(StoredType type) { return type == StoredType::kF8E4M3 || type == StoredType::kF8E5M2; }
bool is_byte(StoredType type) { return type == StoredType::kU8 || type == StoredType::kI8; }

std::string_view stem(std::string_view name, std::string_view suffix) {
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : std::string_view();
}

// The scales of a weight, by any of the names that quantisers give them; nullptr if it has none.
const StoredTensor* find_scale(const Checkpoint& checkpoint, std::string_view name) {
  const std::string_view plain = name.ends_with(".weight") ? stem(name, ".weight") : name;
  for (const std::string& scale :
       {fmt::format("{}_scale_inv", name), fmt::format("{}_scale", name), fmt::format("{}.scale", plain)}) {
    if (const StoredTensor* found = checkpoint.find(scale)) return found;
  }
  return nullptr;
}

// Whether the tensor is the scales of another, or was only needed to quantise it.
bool belongs_to_another(const Checkpoint& checkpoint, std::string_view name) {
  for (const std::string_view suffix : {".input_scale", ".k_scale", ".v_scale", ".activation_scale"}) {
    if (name.ends_with(suffix)) return true;
  }
  for (const std::string_view suffix : {"_scale_inv", "_scale", "_scales"}) {
    const std::string_view weight = stem(name, suffix);
    if (weight.empty()) continue;
    const StoredTensor* found =
        suffix == "_scales" ? checkpoint.find(fmt::format("{}_blocks", weight)) : checkpoint.find(weight);
    if (found != nullptr && (is_fp8(found->type) || is_byte(found->type))) return true;
  }
  if (const std::string_view plain = stem(name, ".scale"); !plain.empty()) {
    const StoredTensor* found = checkpoint.find(fmt::format("{}.weight", plain));
    return found != nullptr && (is_fp8(found->type) || is_byte(found->type));
  }
  return false;
}

// The names of experts' tensors, in which each is one of many.
struct ExpertGroup {
  SourceTensor first;
  std::map<int64_t, RowsPtr> rows;
};

class TensorAdder {
 public:
  TensorAdder(Conversion& conversion, const Family& family) : conversion_(conversion), family_(family) {}

  Result<SourceCounts> run() {
    for (const auto& [name, tensor] : conversion_.checkpoint().tensors()) CAIRN_TRY_VOID(add(name, tensor));
    for (auto& [name, group] : groups_) CAIRN_TRY_VOID(add_group(name, group));
    return counts_;
  }

 private:
  Result<void> add(const std::string& name, const StoredTensor& tensor) {
    const Checkpoint& checkpoint = conversion_.checkpoint();
    if (is_left_out(name)) {
      ++counts_.left_out;
      return {};
    }
    if (belongs_to_another(checkpoint, name) || tensor.elements() == 0) return {};
    std::string renamed = family_.rename == nullptr ? std::string() : family_.rename(conversion_, name);
    SourceTensor source = parse_tensor_name(renamed.empty() ? std::string_view(name) : std::string_view(renamed));
    source.name = name;
    source.shape = tensor.shape;
    if (source.part.ends_with("_blocks")) source.part.resize(source.part.size() - std::string_view("_blocks").size());
    CAIRN_TRY(source.rows, number_rows(checkpoint, name, tensor, source.shape));
    if (source.expert < 0) return add(source);
    const std::string group = fmt::format("{}.{}{}", source.layer, source.part, source.suffix);
    const int64_t expert = source.expert;
    RowsPtr rows = source.rows;
    ExpertGroup& found = groups_[group];
    if (found.rows.empty()) {
      found.first = std::move(source);
    } else if (found.first.shape != source.shape) {
      return fail_at(fmt::format("tensor {}", printable(name)), Code::kCorruptFile,
                     "it has another shape than {}, which is another expert", printable(found.first.name));
    }
    found.rows.emplace(expert, std::move(rows));
    return {};
  }

  Result<void> add(SourceTensor& source) {
    if (family_.tensor != nullptr && family_.tensor(conversion_, source)) return conversion_.config().status();
    CAIRN_TRY_VOID(conversion_.config().status());
    const std::string name = new_tensor_name(source, family_.names);
    if (name.empty()) {
      return fail_at(fmt::format("tensor {}", printable(source.name)), Code::kUnsupported,
                     "models of the architecture {} have no such tensor, as far as is known here",
                     conversion_.architecture());
    }
    conversion_.add(source, name);
    return {};
  }

  Result<void> add_group(const std::string& name, ExpertGroup& group) {
    std::vector<RowsPtr> rows;
    for (auto& [expert, each] : group.rows) {
      if (expert != static_cast<int64_t>(rows.size())) {
        return fail_at(fmt::format("tensor {}", printable(group.first.name)), Code::kCorruptFile,
                       "expert {} is missing: those of {} are not numbered from 0", rows.size(), printable(name));
      }
      rows.push_back(std::move(each));
    }
    SourceTensor source = std::move(group.first);
    source.shape.insert(source.shape.begin(), static_cast<int64_t>(rows.size()));
    source.rows = stacked(std::move(rows));
    return add(source);
  }

  Conversion& conversion_;
  const Family& family_;
  std::map<std::string, ExpertGroup> groups_;
  SourceCounts counts_;
};

}  // namespace

Result<RowsPtr> number_rows(const Checkpoint& checkpoint, std::string_view name, const StoredTensor& tensor,
                            std::vector<int64_t>& shape) {
  const auto named = [&](Result<RowsPtr> rows) -> Result<RowsPtr> {
    if (!rows) return fail_at(fmt::format("tensor {}", printable(name)), rows.error().code, "{}", rows.error().message);
    return rows;
  };
  const int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  const StoredTensor* scale = nullptr;
  if (const std::string_view weight = stem(name, "_blocks"); !weight.empty()) {
    scale = checkpoint.find(fmt::format("{}_scales", weight));
  } else if (is_fp8(tensor.type) || is_byte(tensor.type)) {
    scale = find_scale(checkpoint, name);
  }
  if (scale == nullptr) {
    if (is_byte(tensor.type)) {
      return fail_at(fmt::format("tensor {}", printable(name)), Code::kUnsupported,
                     "the weights are packed in bytes in a way that is not known; FP8 and MXFP4 can be converted");
    }
    return stored_rows(checkpoint, tensor, columns);
  }
  if (is_fp8(tensor.type)) return named(scaled_rows(checkpoint, tensor, *scale));
  auto rows = named(mxfp4_rows(checkpoint, tensor, *scale));
  if (!rows) return rows;
  if (shape.size() == scale->shape.size() + 1) shape.pop_back();
  shape.back() = (*rows)->length();
  return rows;
}

Result<SourceCounts> add_tensors(Conversion& conversion, const Family& family) {
  return TensorAdder(conversion, family).run();
}

}  // namespace cairn::convert
