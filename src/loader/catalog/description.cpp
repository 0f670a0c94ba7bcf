#include "loader/catalog/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text/utf8.h"
#include "chat/builtin_templates.h"
#include "gguf/split.h"
#include "model/arch/table.h"
#include "model/model.h"
#include "model/pooling.h"

namespace cairn::loader {
namespace {

constexpr ModelKind kKinds[] = {ModelKind::kChat, ModelKind::kText, ModelKind::kEmbedding, ModelKind::kReranking};
constexpr std::string_view kRankHead = "cls.output.weight";

/// Text of the file's names may be any bytes.
std::string text_or_empty(const Result<std::string_view>& text) {
  return text ? utf8_replace_invalid(std::string(*text)) : std::string();
}

bool part_of_a_model(const gguf::Reader& file, std::string_view architecture) {
  const auto type = file.metadata().string("general.type");
  const bool other = type && *type != "model" && !type->empty();
  return other || architecture == "clip" || architecture == "controlvector" || model::is_mtp_file(file);
}

bool has_template(const gguf::Reader& file, std::string_view architecture) {
  const auto own = file.metadata().string_or("tokenizer.chat_template", "");
  return (own && !own->empty()) || !chat::builtin_template(architecture).empty();
}

ModelKind kind_of(const gguf::Reader& file, const model::Architecture* architecture) {
  const auto pooling = model::read_pooling(file, model::Pooling::kNone);
  if (file.find_tensor(kRankHead) != nullptr || (pooling && *pooling == model::Pooling::kRank))
    return ModelKind::kReranking;
  const bool encoder = architecture != nullptr && architecture->kind == model::ArchitectureKind::kEncoder;
  if (encoder || (pooling && *pooling != model::Pooling::kNone)) return ModelKind::kEmbedding;
  const auto name = file.metadata().string_or("general.architecture", "");
  return name && has_template(file, *name) ? ModelKind::kChat : ModelKind::kText;
}

}  // namespace

std::string_view kind_name(ModelKind kind) {
  switch (kind) {
    case ModelKind::kChat:
      return "chat";
    case ModelKind::kText:
      return "text";
    case ModelKind::kEmbedding:
      return "embedding";
    case ModelKind::kReranking:
      return "reranking";
  }
  return "";
}

std::optional<ModelKind> kind_named(std::string_view name) {
  for (const ModelKind kind : kKinds)
    if (kind_name(kind) == name) return kind;
  return std::nullopt;
}

bool answers(ModelKind kind, ModelKind asked) {
  return kind == asked || (kind == ModelKind::kText && asked == ModelKind::kChat);
}

std::optional<ModelSummary> describe_model(const gguf::Reader& file) {
  const gguf::Metadata& metadata = file.metadata();
  ModelSummary made;
  made.architecture = text_or_empty(metadata.string("general.architecture"));
  if (part_of_a_model(file, made.architecture)) return std::nullopt;
  const auto architecture = model::architecture_of(file);
  if (!architecture) made.unusable = fmt::format("its architecture \"{}\" is not supported", made.architecture);
  if (file.tensors().empty()) made.unusable = "it holds no weights, but a vocabulary alone";
  made.encoder = architecture && (*architecture)->kind == model::ArchitectureKind::kEncoder;
  made.title = text_or_empty(metadata.string("general.name"));
  made.kind = kind_of(file, architecture ? *architecture : nullptr);
  made.quantisation = quantisation_of(file);
  for (const gguf::Tensor& tensor : file.tensors()) made.parameters += tensor.elements();
  made.file_bytes = file.file_bytes();
  made.context_tokens = metadata.integer_or(made.architecture + ".context_length", 0).value_or(0);
  made.width = metadata.integer_or(made.architecture + ".embedding_length", 0).value_or(0);
  if (const auto tokens = metadata.strings("tokenizer.ggml.tokens"))
    made.vocabulary = static_cast<int64_t>(tokens->size());
  return made;
}

FileState::FileState(const struct stat& status)
    : size(static_cast<uint64_t>(status.st_size)),
      modified_ns(status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec),
      inode(static_cast<uint64_t>(status.st_ino)) {}

std::optional<FileState> FileState::of(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileState(status);
}

std::string quantisation_of(const gguf::Reader& file) {
  if (const auto id = file.metadata().integer("general.file_type")) {
    if (const auto name = file_type_name(*id)) return std::string(*name);
  }
  std::map<TensorType, size_t> bytes;
  for (const auto& tensor : file.tensors()) bytes[tensor.type] += tensor.bytes.size();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return most == bytes.end() ? std::string("none") : std::string(tensor_type_name(most->first));
}

std::string model_name_of(const std::filesystem::path& path) {
  const auto split = gguf::split_name(path.filename().string());
  return utf8_replace_invalid(split ? split->stem : path.stem().string());
}

}  // namespace cairn::loader
