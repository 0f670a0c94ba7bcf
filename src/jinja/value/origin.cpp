#include "jinja/value/origin.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace cairn::jinja {

Origin Origin::foreign(size_t bytes) {
  Origin origin;
  origin.append_foreign(0, bytes);
  return origin;
}

bool Origin::any_foreign(size_t begin, size_t end) const {
  const auto range = std::ranges::upper_bound(ranges_, begin, {}, &ByteRange::end);
  return range != ranges_.end() && range->begin < end;
}

bool Origin::all_foreign(size_t begin, size_t end) const {
  const auto range = std::ranges::upper_bound(ranges_, begin, {}, &ByteRange::end);
  return begin >= end || (range != ranges_.end() && range->begin <= begin && range->end >= end);
}

void Origin::append_foreign(size_t size, size_t bytes) {
  if (bytes == 0) return;
  if (!ranges_.empty() && ranges_.back().end == size) {
    ranges_.back().end += bytes;
  } else {
    ranges_.push_back({size, size + bytes});
  }
}

void Origin::append(size_t size, const Origin& of, size_t begin, size_t end) {
  auto range = std::ranges::upper_bound(of.ranges_, begin, {}, &ByteRange::end);
  for (; range != of.ranges_.end() && range->begin < end; ++range) {
    const size_t from = std::max(range->begin, begin);
    append_foreign(size + from - begin, std::min(range->end, end) - from);
  }
}

bool Piece::any_foreign() const {
  return origin_ == nullptr ? foreign_ && !bytes_.empty() : origin_->any_foreign(at_, at_ + bytes_.size());
}

bool Piece::all_foreign() const {
  return origin_ == nullptr ? foreign_ || bytes_.empty() : origin_->all_foreign(at_, at_ + bytes_.size());
}

Piece Piece::part(std::string_view bytes) const {
  if (bytes.empty()) return own({});
  const std::less_equal<> before;
  CAIRN_CHECK(before(bytes_.data(), bytes.data()) &&
              before(bytes.data() + bytes.size(), bytes_.data() + bytes_.size()));
  return {bytes, origin_, at_ + static_cast<size_t>(bytes.data() - bytes_.data()), foreign_};
}

void Piece::append_origin(Origin& to, size_t size) const {
  if (origin_ != nullptr) {
    to.append(size, *origin_, at_, at_ + bytes_.size());
  } else if (foreign_) {
    to.append_foreign(size, bytes_.size());
  }
}

}  // namespace cairn::jinja
