/// How a model is loaded and served.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chat/chat_input.h"
#include "engine/engine_options.h"
#include "loader/device.h"
#include "loader/kv_disk.h"
#include "model/model_options.h"
#include "model/rope_options.h"
#include "model/weights/lora.h"

namespace cairn::loader {

struct LoadOptions {
  /// Id that clients use; empty: the first alias, or else the file's name without ".gguf".
  std::string name;
  std::vector<std::string> aliases;  ///< other names for it
  /// What says how the model computes. Its context is bounded by the memory plan; sizes of steps, files and memory are
  /// the loader's to set.
  model::ModelOptions model{.kv_type = kernels::KvType::kF16};
  model::RopeOptions rope{};          ///< set over the file's keys
  std::vector<model::LoraFile> lora;  ///< adapters, whose products are added
  DeviceRequest device{};
  /// What says how the engine works. What it has and is told, names, pages and adapters, is the loader's to set.
  engine::EngineOptions engine{};
  KvDiskOptions kv_disk{};
  int64_t kv_bytes = 0;   ///< KV budget; 0: enough for `sequences` whole contexts, bounded by memory
  int32_t sequences = 4;  ///< see kv_bytes
  /// File of a smaller model for speculation, or of an MTP module for this one (is_mtp_file); empty: the
  /// model's own block, if it has one, or else prompt lookup.
  std::string draft_model;
  bool pack_cache = false;    ///< weights as the kernels read them are kept in a file beside the model
  std::string chat_template;  ///< replaces the file's; empty: the file's
  chat::TemplateDefaults template_defaults{};
};

}  // namespace cairn::loader
