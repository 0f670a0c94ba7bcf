#include "chat/answer/call_id.h"

#include <random>
#include <string_view>

#include "base/system/random_id.h"

namespace cairn::chat {

std::string call_id_of(uint64_t number, int bytes) {
  static constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr int kLettersOfLongId = 24;
  std::mt19937_64 random{number};
  std::string id = bytes > 0 ? "" : "call_";
  for (int i = 0; i < (bytes > 0 ? bytes : kLettersOfLongId); ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

std::string make_call_id(int bytes) { return call_id_of(secure_random(), bytes); }

}  // namespace cairn::chat
