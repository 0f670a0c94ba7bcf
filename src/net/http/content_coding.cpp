#include "net/http/content_coding.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/text/printable.h"
#include "net/http/authority.h"

namespace cairn::net {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr int kGzipHeader = 16;  // zlib's sign for gzip, added to the window's bits
constexpr int kMemoryLevel = 8;

std::unexpected<Error> broken(std::string_view coding, std::string_view why) {
  return fail(Code::kInvalidArgument, "the request body is not valid {}, which Content-Encoding says: {}", coding, why);
}

/// The body as it grows, within its bounds.
class Body {
 public:
  Body(size_t bytes_max, const RoomFor& room_for) : bytes_max_(bytes_max), room_for_(room_for) {}
  Result<void> add(std::string_view piece) {
    if (piece.size() > bytes_max_ - text_.size()) {
      return fail(Code::kTooLarge, "the request body has more than {} bytes once it is decompressed", bytes_max_);
    }
    // A string that grows is there twice for a moment.
    if (text_.size() + piece.size() > text_.capacity() && !room_for_(3 * (text_.size() + piece.size())))
      return fail(Code::kOutOfMemory, "the memory for requests is used up; try again later");
    text_ += piece;
    return {};
  }
  std::string take() { return std::move(text_); }

 private:
  size_t bytes_max_;
  const RoomFor& room_for_;
  std::string text_;
};

Result<std::string> decode_gzip(std::string_view bytes, Body body) {
  struct Stream : z_stream {
    Stream() : z_stream() {}
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() { ::inflateEnd(this); }
  } stream;
  if (::inflateInit2(&stream, MAX_WBITS + kGzipHeader) != Z_OK) throw std::bad_alloc();
  std::array<char, kPieceBytes> piece;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  for (;;) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = kPieceBytes;
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    CAIRN_TRY_VOID(body.add({piece.data(), kPieceBytes - stream.avail_out}));
    if (result == Z_STREAM_END) {
      if (stream.avail_in == 0) return body.take();
      ::inflateReset(&stream);  // another member follows
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return broken("gzip", stream.msg == nullptr ? "it is damaged" : stream.msg);
    } else if (stream.avail_in == 0 && stream.avail_out > 0) {
      return broken("gzip", "it is cut");
    }
  }
}

Result<std::string> decode_zstd(std::string_view bytes, Body body) {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kZstdWindowLog);
  std::array<char, kPieceBytes> piece;
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  size_t wanted = 1;  // bytes that the frame still wants; 0: it is whole
  bool full = false;  // more of it may come out without more going in
  while (in.pos < in.size || full) {
    ZSTD_outBuffer out{piece.data(), kPieceBytes, 0};
    wanted = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(wanted) != 0) return broken("zstd", ZSTD_getErrorName(wanted));
    CAIRN_TRY_VOID(body.add({piece.data(), out.pos}));
    full = out.pos == out.size && wanted != 0;
  }
  if (wanted != 0) return broken("zstd", "it is cut");
  return body.take();
}

}  // namespace

std::optional<ContentCoding> content_coding(std::string_view header) {
  const std::string name = lower_case(trimmed(header));
  if (name.empty() || name == "identity") return ContentCoding::kIdentity;
  if (name == "gzip" || name == "x-gzip") return ContentCoding::kGzip;
  if (name == "zstd") return ContentCoding::kZstd;
  return std::nullopt;
}

bool accepts_gzip(std::string_view header) {
  while (!header.empty()) {
    const size_t comma = std::min(header.find(','), header.size());
    std::string_view one = header.substr(0, comma);
    header.remove_prefix(std::min(comma + 1, header.size()));
    const size_t semicolon = std::min(one.find(';'), one.size());
    std::string weight = lower_case(one.substr(semicolon));
    std::erase_if(weight, [](char c) { return c == ' ' || c == '\t' || c == ';'; });
    const bool nothing = weight.starts_with("q=0") && weight.find_first_not_of("0.", 2) == std::string::npos;
    if (lower_case(trimmed(one.substr(0, semicolon))) == "gzip") return !nothing;
  }
  return false;
}

Result<std::string> decode_body(ContentCoding coding, std::string_view bytes, size_t bytes_max,
                                const RoomFor& room_for) {
  switch (coding) {
    case ContentCoding::kGzip:
      return decode_gzip(bytes, Body(bytes_max, room_for));
    case ContentCoding::kZstd:
      return decode_zstd(bytes, Body(bytes_max, room_for));
    case ContentCoding::kIdentity:
      break;
  }
  return std::string(bytes);
}

struct GzipWriter::State : z_stream {
  State() : z_stream() {
    if (::deflateInit2(this, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzipHeader, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
        Z_OK)
      throw std::bad_alloc();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ::deflateEnd(this); }
};

GzipWriter::GzipWriter() : state_(std::make_unique<State>()) {}
GzipWriter::~GzipWriter() = default;

std::string GzipWriter::add(std::string_view bytes, bool flush) {
  return run(bytes, flush ? Z_SYNC_FLUSH : Z_NO_FLUSH);
}

std::string GzipWriter::finish() { return run({}, Z_FINISH); }

std::string GzipWriter::run(std::string_view bytes, int mode) {
  std::string out;
  state_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  state_->avail_in = static_cast<uInt>(bytes.size());
  std::array<char, kPieceBytes / 4> piece;
  do {
    state_->next_out = reinterpret_cast<Bytef*>(piece.data());
    state_->avail_out = static_cast<uInt>(piece.size());
    const int result = ::deflate(state_.get(), mode);
    CAIRN_CHECK(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR);
    out.append(piece.data(), piece.size() - state_->avail_out);
  } while (state_->avail_out == 0);
  return out;
}

}  // namespace cairn::net
