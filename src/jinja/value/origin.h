/// Where the bytes of a text come from: the template wrote them ("own"), or they came with the request ("foreign").
///
/// Every text of a rendering knows it of each of its bytes, and what is made of texts keeps it: joined, cut, replaced,
/// formatted or written as JSON, foreign bytes stay foreign, whatever the template does with them. The tokenizer
/// then finds control tokens only in what is own. Comparing, searching and measuring texts do not look at it, so that
/// a template renders the same bytes as without. llama.cpp's template engine does the same and calls it input marking.
///
/// What a function makes of a text in a way that does not keep its bytes apart is foreign as a whole if any of it is;
/// numbers and truth values are own.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/byte_range.h"

namespace cairn::jinja {

class Origin {
 public:
  Origin() = default;  ///< all own
  static Origin foreign(size_t bytes);

  bool any_foreign(size_t begin, size_t end) const;
  bool all_foreign(size_t begin, size_t end) const;
  /// A text of `size` bytes with this origin goes on with bytes [begin, end) of a text whose origin is `of`.
  void append(size_t size, const Origin& of, size_t begin, size_t end);
  void append_foreign(size_t size, size_t bytes);
  /// The foreign bytes: ascending, none touches the next.
  const std::vector<ByteRange>& ranges() const { return ranges_; }
  std::vector<ByteRange> release() { return std::move(ranges_); }

 private:
  std::vector<ByteRange> ranges_;
};

/// A view of a text that knows where its bytes come from. There is none of bytes whose origin is not stated: a literal
/// of the program is own, of everything else it has to be said.
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
  /// A text of `size` bytes with the origin `to` goes on with this piece.
  void append_origin(Origin& to, size_t size) const;

 private:
  Piece(std::string_view bytes, const Origin* origin, size_t at, bool foreign)
      : bytes_(bytes), origin_(origin), at_(at), foreign_(foreign) {}

  std::string_view bytes_;
  const Origin* origin_ = nullptr;  // of a text in which bytes_ begins at at_; nullptr: foreign_ tells it of all
  size_t at_ = 0;
  bool foreign_ = false;
};

}  // namespace cairn::jinja
