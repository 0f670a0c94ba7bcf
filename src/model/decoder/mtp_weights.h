/// The MTP module (multi-token prediction: the token after the next one): what it has beside a layer like the others.
///
/// It reads a token's embedding and the row before it, or all streams of that, as the model's last layer leaves them.
/// Two kinds of files have it: models, as one more block ("blk.N.nextn.", llama.cpp), and for DeepSeek V4 files of
/// their own ("mtp.0.", antirez/ds4).
#pragma once

#include "base/error.h"
#include "gguf/reader.h"
#include "model/decoder/decoder_weights.h"

namespace cairn::model {

/// Whether the file is of DeepSeek V4's module alone.
bool is_mtp_module_file(const gguf::Reader& file);
/// Whether the model's file, or one with a module alone, has the module of a model of so many layers.
bool has_mtp_module(const gguf::Reader& file, size_t layers);

/// Fills weights.mtp and adds the module's layer. `loader` is of the file that has the module. Errors: the loader's,
/// with the way to load the model without it.
Result<void> load_mtp_weights(WeightLoader& loader, const DecoderConfig& config, DecoderWeights& weights);

}  // namespace cairn::model
