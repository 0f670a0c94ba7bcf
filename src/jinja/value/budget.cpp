#include "jinja/value/budget.h"

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

Result<void> Buffer::append(const Piece& piece) {
  const size_t ranges = origin_.ranges().size();
  piece.append_origin(origin_, text_.size());
  text_.append(piece.bytes());
  const auto bytes = static_cast<int64_t>((origin_.ranges().size() - ranges) * sizeof(ByteRange));
  if (bytes == 0) return {};
  CAIRN_TRY_VOID(budget_.work(bytes));
  return charge_.take(budget_, bytes);
}

Result<void> Buffer::put(const Piece& piece) {
  const auto size = static_cast<int64_t>(piece.size());
  CAIRN_TRY_VOID(budget_.check_length(static_cast<int64_t>(text_.size()) + size));
  CAIRN_TRY_VOID(budget_.work(size));
  CAIRN_TRY_VOID(charge_.take(budget_, size));
  return append(piece);
}

Result<void> Buffer::put_repeated(const Piece& piece, int64_t count) {
  if (count <= 0 || piece.size() == 0) return {};
  const auto size = static_cast<int64_t>(piece.size());
  const int64_t room = budget_.limits().output_bytes_max - static_cast<int64_t>(text_.size());
  if (count > room / size) return budget_.check_length(budget_.limits().output_bytes_max + 1);
  CAIRN_TRY_VOID(budget_.work(size * count));
  CAIRN_TRY_VOID(charge_.take(budget_, size * count));
  if (size == 1 && !piece.any_foreign()) {
    text_.append(static_cast<size_t>(count), piece.bytes()[0]);
    return {};
  }
  for (int64_t i = 0; i < count; ++i) CAIRN_TRY_VOID(append(piece));
  return {};
}

Derivation::Derivation(Buffer& out, const Piece& from)
    : out_(out), from_(from), mixed_(from.any_foreign() && !from.all_foreign()), pending_foreign_(from.any_foreign()) {}

Result<void> Derivation::put(std::string_view made, std::string_view of) {
  const bool foreign = mixed_ ? from_.part(of).any_foreign() : pending_foreign_;
  if (foreign != pending_foreign_ || pending_.size() >= kPendingBytes) CAIRN_TRY_VOID(finish());
  pending_foreign_ = foreign;
  pending_ += made;
  return {};
}

Result<void> Derivation::finish() {
  CAIRN_TRY_VOID(out_.put(pending_foreign_ ? Piece::foreign(pending_) : Piece::own(pending_)));
  pending_.clear();
  return {};
}

}  // namespace cairn::jinja
