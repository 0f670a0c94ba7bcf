/// Flags of `cairn eval`, and of its command `score`: which model is asked, here or at a server.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "load_flags.h"
#include "sampling_flags.h"
#include "server_client.h"

namespace cairn {

/// The model that is asked.
struct AskedModel {
  LoadFlags load;
  ServerFlags server;

  bool remote() const { return !server.url.empty(); }
};

struct EvalFlags {
  AskedModel model;
  SamplingFlags sampling;
  std::string set;  ///< file; empty: the set that comes with the program
  int32_t max_tokens = 1'024;
  int32_t parallel = 4;
  std::string thinking = "auto";
  std::string only;   ///< a kind, a tag, or the beginning of an id; empty: all
  std::string trace;  ///< file; empty: none
  std::string json;   ///< file; empty: none
  bool plain = false;
};

}  // namespace cairn
