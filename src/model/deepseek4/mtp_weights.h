/// The MTP module of DeepSeek V4 (multi-token prediction: the token after the next one): what it has beside a
/// layer like the others.
///
/// It reads a token's embedding and the streams of the position before it, after the last layer. Two kinds of files
/// have it: models, as one more block ("blk.N.nextn.", llama.cpp), and files of their own ("mtp.0.", antirez/ds4).
#pragma once

#include <string>

#include "base/error.h"
#include "gguf/reader.h"
#include "model/deepseek4/config.h"
#include "model/deepseek4/weights.h"
#include "model/model_options.h"
#include "model/weights/weight_loader.h"

namespace cairn::deepseek4 {

bool is_mtp_file(const gguf::Reader& file);

/// Adds the block's layer if `options` ask for it and there is one.
void read_mtp_config(const gguf::Reader& file, const ModelOptions& options, ModelConfig& config);

/// Fills weights.mtp and adds the block's layer. `loader` is of the file that has the block. Errors: the
/// loader's, with the way to load the model without the block.
Result<void> load_mtp_weights(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config,
                              ModelWeights& weights);

/// What the model's file has of such blocks, behind its layers and up to its block count, needs no warning, whether it
/// is used or not.
void mark_mtp_used(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config);

}  // namespace cairn::deepseek4
