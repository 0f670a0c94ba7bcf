// Fuzzes the bytes of the frames socket: the same messages and errors however they are cut, and only messages that the
// protocol can answer.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/frames/events.h"
#include "api/frames/message.h"
#include "net/frames/frame_codec.h"

using namespace cairn;       // NOLINT: one small program
using namespace cairn::api;  // NOLINT

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

struct Outcome {
  std::vector<std::string> messages, errors;
  net::Framing framing = net::Framing::kUndecided;
  bool operator==(const Outcome&) const = default;
};

void add(Outcome& outcome, const Result<std::optional<std::string>>& read) {
  if (!read) return outcome.errors.push_back(read.error().text());
  require(!(*read)->empty() && (*read)->size() <= net::kFrameBytesMax);
  outcome.messages.push_back(**read);
}

Outcome read_all(std::string_view bytes, size_t piece) {
  Outcome outcome;
  net::FrameReader reader;
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    reader.push(bytes.substr(begin, piece));
    for (auto read = reader.next(); !read || *read; read = reader.next()) add(outcome, read);
  }
  for (auto last = reader.finish(); !last || *last; last = reader.finish()) add(outcome, last);
  require(!reader.partial() || reader.framing() != net::Framing::kLines);
  outcome.framing = reader.framing();
  return outcome;
}

void check_error(std::string_view id, const Error& error) {
  require(!error.message.empty());
  const std::string event = frames::error_event(id, error);
  require(event.size() <= net::kFrameBytesMax && nlohmann::ordered_json::accept(event));
}

void check_message(const std::string& text) {
  RequestContext context;
  const auto message = frames::parse_message(context, text);
  if (!message) return check_error(message.error().id, message.error().error);
  if (const auto* generate = std::get_if<frames::Generate>(&*message)) {
    require(!generate->id.empty() && generate->id.size() <= frames::kIdBytesMax);
    require(generate->request.max_tokens == -1 || generate->request.max_tokens >= 1);
    (void)generate->request.sampling.validate(1000);
  }
  if (const auto* chat = std::get_if<frames::Chat>(&*message)) {
    require(!chat->id.empty() && chat->id.size() <= frames::kIdBytesMax);
    require(chat->request.choices == 1 && chat->request.generate.id == chat->id);
    require(chat->request.generate.max_tokens == -1 || chat->request.generate.max_tokens >= 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = read_all(bytes, bytes.size() + 1);
  const size_t piece = size == 0 ? 1 : 1 + data[size - 1] % 16;
  require(read_all(bytes, piece) == whole && read_all(bytes, 1) == whole);

  std::string again;
  for (const std::string& message : whole.messages) {
    check_message(message);
    again += net::encode_frame(net::Framing::kLength, message);
  }
  for (const std::string& error : whole.errors) check_error({}, {Code::kInvalidArgument, error, error});
  require(read_all(again, piece).messages == whole.messages);
  return 0;
}
