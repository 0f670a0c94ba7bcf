/// The options of a model, which are settings of `cairn serve` by their names, and what they come to.
#pragma once

#include <string>

#include "api/service.h"
#include "base/error.h"
#include "load_flags.h"
#include "memory_report.h"
#include "serve/model_flags.h"
#include "serve/request_flags.h"

namespace cairn::library {

struct Settings {
  ModelFlags model;
  RequestFlags requests;

  /// `options`: a JSON object, or empty. The model's file has been looked for. Errors: kInvalidArgument with all that
  /// is wrong: an unknown name, with the nearest one, or a value that a setting does not take; those of find_model.
  static Result<Settings> read(const std::string& model, const std::string& options);

  /// How requests are read and what they get that leave something out.
  api::ServiceOptions service_options() const;
  /// The memory that the model would take.
  MemoryFlags memory() const;
};

}  // namespace cairn::library
