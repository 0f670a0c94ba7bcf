/// Names of tensors in Hugging Face's checkpoints, and those that GGUF files have for them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "convert/huggingface/conversion.h"

namespace cairn::convert {

/// A part's name there, without prefix, layer and suffix ("self_attn.q_proj"), and here ("attn_q"). A name here that
/// ends in a dot is written without it and without the suffix.
struct NameRow {
  std::string_view part;
  std::string_view name;
};

/// Takes a name apart: fills name, layer, expert, part and suffix.
SourceTensor parse_tensor_name(std::string_view name);

/// Whether the tensor belongs to another part of a model (vision, audio), or is a table that every reader computes.
bool is_left_out(std::string_view name);

/// The name here without "blk.N.", with its suffix: that of `own`, a family's own rows, or else the one that most
/// families have. Empty if neither knows it.
std::string new_tensor_name(const SourceTensor& tensor, std::span<const NameRow> own);

}  // namespace cairn::convert
