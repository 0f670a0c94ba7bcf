/// How a model is loaded and served.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chat/chat_input.h"
#include "engine/engine_options.h"
#include "kernels/kv.h"
#include "loader/device.h"
#include "loader/kv_disk.h"
#include "model/control_vectors.h"
#include "model/weights/lora.h"

namespace cairn {

struct LoadOptions {
  /// Id that clients use; empty: the first alias, or else the file's name without ".gguf".
  std::string name;
  std::vector<std::string> aliases;  ///< other names for it
  int32_t context_tokens = 0;        ///< 0: trained context, bounded by the memory plan
  KvType kv_type = KvType::kF16;
  int64_t kv_bytes = 0;   ///< KV budget; 0: enough for `sequences` whole contexts, bounded by memory
  int32_t sequences = 4;  ///< see kv_bytes
  int32_t queue_max = 256;
  int32_t sequences_max = 64;       ///< sequences at once
  int32_t step_ms = 30;             ///< see EngineOptions::step
  int32_t tenant_requests_max = 0;  ///< see EngineOptions
  bool prefix_cache = true;
  int64_t kv_host_bytes = 0;  ///< see EngineOptions
  KvDiskOptions kv_disk{};
  SpeculationOptions speculation{};
  /// File of a smaller model for speculation, or of an MTP module for this one (is_mtp_file); empty: the
  /// model's own block, if it has one, or else prompt lookup.
  std::string draft_model;
  int32_t gpu_layers = kGpuLayersAuto;  ///< see DeviceRequest
  int32_t threads = 0;                  ///< 0: one per usable core
  std::string isa;
  ControlVectorOptions control_vectors{};
  std::vector<LoraFile> lora;     ///< adapters, whose products are added
  bool simulate_rounding = true;  ///< see ModelOptions
  bool pack_cache = false;        ///< weights as the kernels read them are kept in a file beside the model
  std::string chat_template;      ///< replaces the file's; empty: the file's
  TemplateDefaults template_defaults{};
};

}  // namespace cairn
