/// Where the bytes of a text come from: the template wrote them ("own"), or they came with the request ("foreign").
///
/// Every text of a rendering tracks the origin of each of its bytes, and derived texts keep it: joined, cut, replaced,
/// formatted or written as JSON, foreign bytes stay foreign, whatever the template does with them. The tokenizer then
/// finds control tokens only in own bytes. Comparing, searching and measuring texts ignore it, so that a template
/// renders the same bytes as without. llama.cpp's template engine does the same and calls it input marking.
///
/// A derived text whose bytes cannot be attributed to source bytes is foreign as a whole if any source byte is; numbers
/// and truth values are own.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/byte_range.h"

namespace cairn::jinja {

class Origin {
 public:
  Origin() = default;  ///< all bytes are own
  static Origin foreign(size_t bytes);

  bool any_foreign(size_t begin, size_t end) const;
  bool all_foreign(size_t begin, size_t end) const;
  /// Appends to the origin of a text of `size` bytes that of bytes [begin, end) of a text with the origin `of`.
  void append(size_t size, const Origin& of, size_t begin, size_t end);
  void append_foreign(size_t size, size_t bytes);
  /// The foreign ranges: ascending, not touching.
  const std::vector<ByteRange>& ranges() const { return ranges_; }
  std::vector<ByteRange> release() { return std::move(ranges_); }

 private:
  std::vector<ByteRange> ranges_;
};

/// A view of a text with the origin of its bytes. The origin must always be given: a literal of the program is own, for
/// everything else it is stated.
class Piece {
 public:
  template <size_t kSize>
  consteval Piece(const char (&literal)[kSize]) : bytes_(literal, kSize - 1) {}  // NOLINT(google-explicit-constructor)
  /// A whole text; `origin` outlives the piece.
  Piece(std::string_view bytes, const Origin& origin) : bytes_(bytes), origin_(&origin) {}
  static Piece own(std::string_view bytes) { return {bytes, nullptr, 0, false}; }
  static Piece foreign(std::string_view bytes) { return {bytes, nullptr, 0, true}; }

  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool any_foreign() const;
  bool all_foreign() const;
  /// `bytes` is a view into this piece's bytes, or empty.
  Piece part(std::string_view bytes) const;
  Piece substr(size_t begin, size_t count = std::string_view::npos) const { return part(bytes_.substr(begin, count)); }
  /// Appends this piece's origin to `to`, which belongs to a text of `size` bytes.
  void append_origin(Origin& to, size_t size) const;

 private:
  Piece(std::string_view bytes, const Origin* origin, size_t at, bool foreign)
      : bytes_(bytes), origin_(origin), at_(at), foreign_(foreign) {}

  std::string_view bytes_;
  // Origin of a text in which bytes_ begins at at_; nullptr: foreign_ holds for all bytes.
  const Origin* origin_ = nullptr;
  size_t at_ = 0;
  bool foreign_ = false;
};

}  // namespace cairn::jinja
