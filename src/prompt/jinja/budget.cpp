#include "prompt/jinja/budget.h"

namespace cairn::jinja {

std::unexpected<Error> Budget::too_many_steps() const {
  return fail(Code::kTooLarge, "the chat template does not end within {} steps; is there a loop over loops in it?",
              limits_.steps_max);
}

Result<void> Budget::check_length(int64_t bytes) const {
  if (bytes <= limits_.output_bytes_max) return {};
  return fail(Code::kTooLarge, "the chat template builds a text of {} bytes; the limit is {}", bytes,
              limits_.output_bytes_max);
}

Result<void> Budget::take(int64_t bytes) {
  if (bytes > limits_.memory_bytes_max - memory_)
    return fail(Code::kTooLarge, "the chat template and its variables need more than {} bytes of memory",
                limits_.memory_bytes_max);
  memory_ += bytes;
  return {};
}

Result<void> DepthGuard::check() const {
  if (budget_.depth_ <= budget_.limits_.depth_max) return {};
  return fail(Code::kTooLarge, "the chat template nests deeper than {} levels; does a macro call itself without end?",
              budget_.limits_.depth_max);
}

Result<void> Buffer::put(std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  CAIRN_TRY_VOID(budget_.check_length(static_cast<int64_t>(text_.size()) + size));
  CAIRN_TRY_VOID(budget_.work(size));
  CAIRN_TRY_VOID(charge_.take(budget_, size));
  text_.append(bytes);
  return {};
}

Result<void> Buffer::put_repeated(std::string_view bytes, int64_t count) {
  if (count <= 0 || bytes.empty()) return {};
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t room = budget_.limits().output_bytes_max - static_cast<int64_t>(text_.size());
  if (count > room / size) return budget_.check_length(budget_.limits().output_bytes_max + 1);
  CAIRN_TRY_VOID(budget_.work(size * count));
  CAIRN_TRY_VOID(charge_.take(budget_, size * count));
  if (size == 1) {
    text_.append(static_cast<size_t>(count), bytes[0]);
  } else {
    for (int64_t i = 0; i < count; ++i) text_.append(bytes);
  }
  return {};
}

}  // namespace cairn::jinja
