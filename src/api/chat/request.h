/// A conversation to go on with, as every protocol's request ends up.
#pragma once

#include <cstdint>
#include <string>

#include "chat/answer/request.h"

namespace cairn::api {

struct ChatRequest : chat::AnswerRequest {
  std::string model;
  std::string prompt_field = "messages";  ///< has the conversation, for errors
  int choices = 1;
  bool stream = false;
  bool stored = true;      ///< its calls may be kept in the file of --store
  int64_t kept_bytes = 0;  ///< about what the answer's serializer keeps of the request until its end
};

}  // namespace cairn::api
