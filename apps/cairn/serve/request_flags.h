/// Flags of `cairn serve` that say how requests are read, whoever sends them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "api/service.h"
#include "grammar/grammar_source.h"

namespace cairn {

struct RequestFlags {
  bool strict_fields = false;
  std::string api_sampling = "same";   ///< or "openai"
  std::string tool_calls = "lenient";  ///< or "strict"
  grammar::SchemaReading schema_reading = grammar::SchemaReading::kDeclared;

  void add_to(CLI::App& command, const std::string& group);
  /// What they say of a service, whose other options have their defaults.
  api::ServiceOptions service_options() const;
};

}  // namespace cairn
