/// DSpark, the drafting head of DeepSeek V4.1 and of V4 since July 2026: a block of drafts in one pass.
///
/// What it reads of the text are the inputs of some of the model's layers, of which its own layers make the keys of
/// their windows. A block is the last token and noise in the places behind it; all of its rows see the window and each
/// other. Their logits are those of drafts, and depend on the draft before by a table of pairs of low rank (the Markov
/// head). The confidence head says how likely a draft is right.
///
/// Three kinds of files have it: models ("mtp.N.", with keys "<architecture>.dspark.*"), files of its own with the same
/// names ("deepseek41-dspark", antirez/ds4), and llama.cpp's ("dflash").
/// Source: the model's own inference/model.py (DSparkBlock), antirez/ds4, and llama.cpp's converter.
#pragma once

#include "base/error.h"
#include "gguf/reader.h"
#include "model/decoder/decoder_weights.h"

namespace cairn::model {

/// Whether the file is such a head alone.
bool is_dspark_file(const gguf::Reader& file);
/// Whether the file has such a head, alone or beside a model.
bool has_dspark(const gguf::Reader& file);

/// Adds the head of `file` to the model's numbers. Errors: kCorruptFile with the key or the tensor, kInvalidArgument
/// (it is of the other one of V4 and V4.1), kUnsupported (a form of the head that is not known).
Result<void> read_dspark_config(const gguf::Reader& file, DecoderConfig& config);

/// Fills weights.dspark and adds the layers. `loader` is of the file that has the head. Errors: the loader's.
Result<void> load_dspark_weights(WeightLoader& loader, const DecoderConfig& config, DecoderWeights& weights);

}  // namespace cairn::model
