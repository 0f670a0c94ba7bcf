/// Reading the shapes of hybrids: layers without attention, without a feed-forward, or with a state.
#pragma once

#include "base/error.h"
#include "model/config.h"
#include "model/metadata_reader.h"

namespace cairn {

/// feed_forward_length, where it may be an array: layers of 0 have no feed-forward. With experts the key may be
/// missing.
Result<void> read_hybrid_feed_forward(const MetadataReader& keys, DecoderConfig& config);
/// attention.head_count and head_count_kv, where they may be arrays: layers of 0 have no attention, and their mixer
/// becomes Mixer::kNone. No heads at all: all layers are such.
Result<void> read_hybrid_heads(const MetadataReader& keys, DecoderConfig& config);

/// ssm.*, for Gated DeltaNet and Mamba-2.
Result<void> read_state_config(const MetadataReader& keys, DecoderConfig& config);
/// The layers that have no attention get this mixer.
void mix_otherwise_by(Mixer mixer, DecoderConfig& config);

}  // namespace cairn
