// Reads the model files of SentencePiece (tokenizer.model).
//
// Source: sentencepiece_model.proto: field 1 of the whole is a piece (1 text, 2 score, 3 type, as TokenKind), repeated.
#include <fmt/format.h>

#include <cstring>

#include "base/text/utf8.h"
#include "convert/huggingface/vocabulary.h"

namespace cairn::convert {
namespace {

constexpr int kPieces = 1;                       // of the whole
constexpr int kText = 1, kScore = 2, kKind = 3;  // of a piece
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  int number = 0;
  int type = 0;
  uint64_t value = 0;  // of kVarint and kFixed32
  std::span<const std::byte> bytes;
};

// Reads one field after another of a message.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  bool at_end() const { return rest_.empty(); }

  Result<Field> next() {
    CAIRN_TRY(const uint64_t tag, varint());
    Field field{static_cast<int>(tag >> 3), static_cast<int>(tag & 7), 0, {}};
    switch (field.type) {
      case kVarint: {
        CAIRN_TRY(field.value, varint());
        return field;
      }
      case kFixed64: {
        CAIRN_TRY(field.bytes, take(8));
        return field;
      }
      case kFixed32: {
        CAIRN_TRY(field.bytes, take(4));
        uint32_t value = 0;
        std::memcpy(&value, field.bytes.data(), sizeof value);
        field.value = value;
        return field;
      }
      case kBytes: {
        CAIRN_TRY(const uint64_t length, varint());
        CAIRN_TRY(field.bytes, take(length));
        return field;
      }
      default:
        return corrupt();
    }
  }

 private:
  static std::unexpected<Error> corrupt() {
    return fail(Code::kCorruptFile, "tokenizer.model is no model of SentencePiece, or is damaged");
  }
  Result<std::span<const std::byte>> take(uint64_t length) {
    if (length > rest_.size()) return corrupt();
    const auto bytes = rest_.first(static_cast<size_t>(length));
    rest_ = rest_.subspan(static_cast<size_t>(length));
    return bytes;
  }
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return corrupt();
      const auto byte = static_cast<uint64_t>(rest_.front());
      rest_ = rest_.subspan(1);
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return corrupt();
  }

  std::span<const std::byte> rest_;
};

Result<void> read_piece(std::span<const std::byte> bytes, int64_t id, NewVocabulary& vocabulary) {
  std::string text;
  float score = 0;
  uint64_t kind = 1;
  for (FieldReader piece(bytes); !piece.at_end();) {
    CAIRN_TRY(const Field field, piece.next());
    if (field.number == kText && field.type == kBytes) {
      text.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    } else if (field.number == kScore && field.type == kFixed32) {
      score = __builtin_bit_cast(float, static_cast<uint32_t>(field.value));
    } else if (field.number == kKind && field.type == kVarint) {
      kind = field.value;
    }
  }
  if (!utf8_valid(text) || kind < 1 || kind > 6) {
    return fail(Code::kCorruptFile, "tokenizer.model: piece {} is not UTF-8, or of an unknown kind", id);
  }
  // Symbols of users are merged like others unless the tokenizer's config lists them.
  const auto token_kind = static_cast<TokenKind>(kind);
  vocabulary.set(id, std::move(text), token_kind == TokenKind::kUserDefined ? TokenKind::kNormal : token_kind,
                 static_cast<double>(score));
  return {};
}

}  // namespace

Result<NewVocabulary> read_sentencepiece(std::span<const std::byte> file, int64_t size) {
  NewVocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.pre = "default";
  for (int64_t id = 0; id < size; ++id) {
    vocabulary.tokens.push_back(fmt::format("[PAD{}]", id));
    vocabulary.kinds.push_back(TokenKind::kUnused);
    vocabulary.scores.push_back(-10'000.0);
  }
  int64_t id = 0;
  for (FieldReader fields(file); !fields.at_end();) {
    CAIRN_TRY(const Field field, fields.next());
    if (field.number == kPieces && field.type == kBytes) CAIRN_TRY_VOID(read_piece(field.bytes, id++, vocabulary));
  }
  if (id == 0) return fail(Code::kCorruptFile, "tokenizer.model has no pieces; is it a model of SentencePiece?");
  return vocabulary;
}

}  // namespace cairn::convert
