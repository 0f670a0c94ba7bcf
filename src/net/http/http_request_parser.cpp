#include "net/http/http_request_parser.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>

#include "net/http/authority.h"
#include "net/http/percent.h"

namespace cairn::net {
namespace {

/// Maximum hexadecimal digits of a chunk's size, which fit into 64 bits.
constexpr size_t kChunkDigitsMax = 16;
/// Decimal digits of a length that are read; a longer number is over every limit.
constexpr size_t kLengthDigitsMax = 18;
constexpr std::string_view kLineEnd = "\r\n";

/// Whether the character may be in a token (RFC 9110, section 5.6.2).
bool is_token_char(char c) {
  if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) return true;
  return c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool is_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token_char); }
bool is_blank(char c) { return c == ' ' || c == '\t'; }
/// Control characters, except for the tab, are not allowed in any line.
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

/// Calls `visit` with each element of a comma-separated list, in lower case, including empty ones.
template <class Visit>
void for_each_element(std::string_view list, Visit&& visit) {
  while (true) {
    const size_t comma = list.find(',');
    visit(lower_case(trimmed(list.substr(0, comma))));
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

HttpRequestParser::HttpRequestParser(const HttpLimits& limits) : limits_(limits) {
  if (limits.budget) request_.share = std::make_shared<ByteShare>(limits.budget);
}

size_t HttpRequestParser::push(std::string_view bytes) noexcept {
  size_t taken = 0;
  try {
    while (taken < bytes.size() && state_ != State::kDone && state_ != State::kRefused) {
      const std::string_view rest = bytes.substr(taken);
      const bool in_body = state_ == State::kBody || state_ == State::kChunk;
      taken += in_body ? take_body(rest) : take_line(rest);
    }
  } catch (...) {  // only std::bad_alloc can occur here
    state_ = State::kRefused;
    status_ = 503;
    request_ = {};
  }
  return taken;
}

void HttpRequestParser::refuse(int status, std::string message) {
  state_ = State::kRefused;
  status_ = status;
  message_ = std::move(message);
  request_ = {};  // frees the memory before the answer is written
  line_ = {};
}

size_t HttpRequestParser::take_line(std::string_view bytes) {
  const size_t end = bytes.find('\n');
  const bool whole = end != std::string_view::npos;
  const std::string_view part = bytes.substr(0, whole ? end + 1 : bytes.size());
  const size_t room = line_room();
  // Checked as the bytes come, so that input that is not HTTP is refused before the end of its line.
  const auto seen = part.substr(0, std::min(room, whole ? end : part.size()));
  const auto bad = std::ranges::find_if(seen, [](char c) { return is_control(c) && c != '\r'; });
  if (bad != seen.end()) {
    refuse(400, fmt::format("not a well-formed HTTP/1.1 request: it has the control character 0x{:02x} in its {}",
                            static_cast<int>(*bad), state_ == State::kBegin ? "first line" : "headers or chunks"));
    return part.size();
  }
  if (part.size() > room) {
    refuse_long_line();
    return part.size();
  }
  line_ += part;
  if (!whole) return part.size();
  const std::string complete = std::exchange(line_, {});
  if (!complete.ends_with(kLineEnd) || complete.find('\r') != complete.size() - kLineEnd.size()) {
    refuse(400, "not a well-formed HTTP/1.1 request: a line must end with CR LF, and neither may stand alone");
    return part.size();
  }
  line(std::string_view(complete).substr(0, complete.size() - kLineEnd.size()));
  return part.size();
}

/// Bytes that this line may still have before the limit for all lines is reached; the end of a chunk and the digits of
/// its size do not count as header bytes.
size_t HttpRequestParser::line_room() const {
  if (state_ == State::kChunkEnd) return kLineEnd.size() - line_.size();
  const size_t free = state_ == State::kChunkSize ? kChunkDigitsMax + kLineEnd.size() : 0;
  const size_t most = limits_.header_bytes_max + free;
  return most - std::min(most, head_bytes_ + line_.size());
}

void HttpRequestParser::refuse_long_line() {
  if (state_ == State::kChunkEnd) {
    return refuse(400, "not a well-formed HTTP/1.1 request: a chunk is longer than its size says");
  }
  const bool in_head = state_ == State::kBegin || state_ == State::kFields;
  refuse(431, fmt::format("the headers{} are over the limit of {} bytes",
                          in_head ? "" : ", trailers and chunk extensions", limits_.header_bytes_max));
}

void HttpRequestParser::line(std::string_view text) {
  const size_t bytes = text.size() + kLineEnd.size();
  switch (state_) {
    case State::kBegin:
      head_bytes_ += bytes;
      if (!text.empty()) request_line(text);
      return;
    case State::kFields:
      head_bytes_ += bytes;
      if (text.empty()) return end_head();
      if (field(text)) charge(0);
      return;
    case State::kTrailer:  // checked and dropped: no trailer field is used
      head_bytes_ += bytes;
      if (text.empty()) {
        state_ = State::kDone;
      } else {
        field(text);
      }
      return;
    case State::kChunkSize:
      return chunk_size(text);
    default:  // kChunkEnd: line_room let two bytes through
      state_ = State::kChunkSize;
  }
}

void HttpRequestParser::request_line(std::string_view text) {
  const size_t first = text.find(' ');
  const size_t last = text.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return refuse(400, "not a well-formed HTTP/1.1 request: its first line must be a method, a target and HTTP/1.1");
  }
  const std::string_view method = text.substr(0, first), version = text.substr(last + 1);
  if (!is_token(method)) return refuse(400, "not a well-formed HTTP/1.1 request: its method is no word");
  const bool known_form = version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) &&
                          version[6] == '.' && is_digit(version[7]);
  if (!known_form) return refuse(400, "not a well-formed HTTP/1.1 request: its first line must end with HTTP/1.1");
  if (version[5] != '1') return refuse(505, "this server speaks HTTP/1.1 and HTTP/1.0");
  modern_ = version[7] != '0';
  request_.method = method;
  state_ = State::kFields;
  target(text.substr(first + 1, last - first - 1));
}

/// Parses the request's target (RFC 9112, section 3.2).
void HttpRequestParser::target(std::string_view text) {
  const auto is_visible = [](char c) { return c > 0x20 && c < 0x7f; };
  if (!std::ranges::all_of(text, is_visible)) {
    return refuse(400, "the request target has bytes that must be percent-encoded");
  }
  const std::string start = lower_case(text.substr(0, 8));
  const size_t scheme = start.starts_with("http://") ? 7 : start.starts_with("https://") ? 8 : 0;
  if (scheme != 0) {
    text.remove_prefix(scheme);
    const size_t end = std::min(text.find_first_of("/?"), text.size());
    authority_ = text.substr(0, end);
    text.remove_prefix(end);
    const auto parsed = parse_authority(authority_);
    if (!parsed || parsed->host.empty()) return refuse(400, "the request target names no host");
  }
  const bool of_server = text == "*" && request_.method == "OPTIONS" && scheme == 0;
  if (scheme == 0 && !text.starts_with('/') && !of_server) {
    return refuse(400, "the request target must begin with \"/\" or \"http://\"");
  }
  const size_t mark = text.find('?');
  auto path = percent_decode(text.substr(0, mark));
  if (!path) return refuse(400, "the request path has a '%' that two hexadecimal digits do not follow");
  request_.path = path->empty() ? "/" : std::move(*path);
  if (mark != std::string_view::npos) request_.query = text.substr(mark + 1);
}

bool HttpRequestParser::field(std::string_view text) {
  if (++fields_ > kFieldsMax) {
    refuse(431, fmt::format("there are more than {} headers", kFieldsMax));
    return false;
  }
  if (is_blank(text.front())) {
    refuse(400, "not a well-formed HTTP/1.1 request: a header goes on in a second line, or begins with white space");
    return false;
  }
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || !is_token(text.substr(0, colon))) {
    refuse(400, "not a well-formed HTTP/1.1 request: a header must be a name, with ':' right behind it, and a value");
    return false;
  }
  if (state_ == State::kFields) {
    request_.headers.emplace_back(lower_case(text.substr(0, colon)), trimmed(text.substr(colon + 1)));
  }
  return true;
}

size_t HttpRequestParser::count(std::string_view name) const {
  return static_cast<size_t>(std::ranges::count(request_.headers, name, [](const auto& field) { return field.first; }));
}

std::optional<std::string> HttpRequestParser::combined(std::string_view name) const {
  std::optional<std::string> values;
  for (const auto& [key, value] : request_.headers) {
    if (key == name) values = values ? *values + "," + value : value;
  }
  return values;
}

void HttpRequestParser::end_head() {
  if (!check_host()) return;
  keep_alive_ = read_connection();
  frame_body();
}

/// Checks the Host header (RFC 9112, section 3.2).
bool HttpRequestParser::check_host() {
  const size_t hosts = count("host");
  if (hosts > 1 || (hosts == 0 && modern_)) {
    refuse(400, fmt::format("an HTTP/1.1 request has one Host header, and this one has {}", hosts));
    return false;
  }
  if (hosts == 1 && !parse_authority(request_.header("host"))) {
    refuse(400, "the Host header is not of the form HOST or HOST:PORT");
    return false;
  }
  if (authority_.empty()) return true;
  const auto host = std::ranges::find(request_.headers, "host", [](const auto& field) { return field.first; });
  if (host != request_.headers.end()) {
    host->second = authority_;
  } else {
    request_.headers.emplace_back("host", authority_);
  }
  return true;
}

/// Reads whether the client keeps the connection open (RFC 9112, section 9.3).
bool HttpRequestParser::read_connection() {
  bool close = false, stay = modern_;
  for_each_element(combined("connection").value_or(""), [&](const std::string& option) {
    close = close || option == "close";
    stay = stay || option == "keep-alive";
  });
  wants_continue_ = modern_ && lower_case(request_.header("expect")) == "100-continue";
  return stay && !close;
}

void HttpRequestParser::frame_body() {
  const auto codings = combined("transfer-encoding");
  const size_t lengths = count("content-length");
  if (codings) {
    if (!modern_) return refuse(400, "an HTTP/1.0 request has no Transfer-Encoding");
    if (lengths > 0) return refuse(400, "a request has either Content-Length or Transfer-Encoding, not both");
    return check_coding(*codings);
  }
  if (lengths > 1) return refuse(400, "the request has more than one Content-Length");
  if (lengths == 0) {
    state_ = State::kDone;
    return;
  }
  read_length(request_.header("content-length"));
}

/// Checks the transfer codings (RFC 9112, sections 6.1 and 7).
void HttpRequestParser::check_coding(std::string_view codings) {
  size_t chunked = 0, others = 0;
  bool last = false, malformed = false;
  for_each_element(codings, [&](const std::string& coding) {
    last = coding == "chunked";
    ++(last ? chunked : others);
    malformed = malformed || !is_token(trimmed(coding.substr(0, coding.find(';'))));
  });
  if (malformed) return refuse(400, "the Transfer-Encoding is not a list of codings");
  if (chunked > 1) return refuse(400, "the Transfer-Encoding has \"chunked\" more than once");
  if (chunked == 1 && !last) return refuse(400, "in the Transfer-Encoding \"chunked\" must come last");
  if (others > 0) return refuse(501, "the only Transfer-Encoding that this server knows is \"chunked\"");
  fields_ = 0;
  state_ = State::kChunkSize;
}

void HttpRequestParser::read_length(std::string_view digits) {
  if (digits.empty() || !std::ranges::all_of(digits, is_digit)) {
    return refuse(400, "the Content-Length is not a number");
  }
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  uint64_t bytes = UINT64_MAX;
  if (digits.size() <= kLengthDigitsMax) std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  if (bytes > limits_.body_bytes_max) {
    return refuse(413, fmt::format("the body is over the limit of {} bytes", limits_.body_bytes_max));
  }
  length_ = remaining_ = bytes;
  state_ = bytes == 0 ? State::kDone : State::kBody;
}

/// Parses a chunk's size (RFC 9112, section 7.1).
void HttpRequestParser::chunk_size(std::string_view text) {
  const auto is_hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  const auto end = std::ranges::find_if_not(text, is_hex);
  std::string_view digits(text.begin(), end);
  const std::string_view rest = text.substr(digits.size());
  const std::string_view extensions = trimmed(rest);
  if (digits.empty() || (!rest.empty() && !extensions.starts_with(';'))) {
    return refuse(400, "not a well-formed HTTP/1.1 request: a chunk must begin with its size, in hexadecimal digits");
  }
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  if (digits.size() > kChunkDigitsMax) return refuse(413, "a chunk has no size that this server could count");
  head_bytes_ += text.size() - digits.size();
  uint64_t bytes = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), bytes, 16);
  if (bytes > limits_.body_bytes_max - request_.body.size()) {
    return refuse(413, fmt::format("the body is over the limit of {} bytes", limits_.body_bytes_max));
  }
  remaining_ = bytes;
  body_untouched_ = false;
  state_ = bytes == 0 ? State::kTrailer : State::kChunk;
}

size_t HttpRequestParser::take_body(std::string_view bytes) {
  const auto count = static_cast<size_t>(std::min<uint64_t>(bytes.size(), remaining_));
  body_untouched_ = false;
  if (!make_room(count)) return count;
  request_.body.append(bytes.substr(0, count));
  remaining_ -= count;
  if (remaining_ == 0) state_ = state_ == State::kBody ? State::kDone : State::kChunkEnd;
  return count;
}

/// Doubles the capacity each time, so that the bytes copied stay in proportion, but never beyond what the body can
/// have.
bool HttpRequestParser::make_room(size_t bytes) {
  std::string& body = request_.body;
  const size_t need = body.size() + bytes;
  if (need <= body.capacity()) return true;
  const size_t most = length_ > 0 ? length_ : limits_.body_bytes_max;
  const size_t room = std::max(need, std::min(2 * body.capacity(), most));
  if (!charge(room)) return false;
  body.reserve(room);
  return true;
}

bool HttpRequestParser::charge(size_t body_bytes) {
  if (!request_.share) return true;
  const size_t fields = request_.headers.capacity() * sizeof(request_.headers[0]);
  const auto held = static_cast<int64_t>(head_bytes_ + fields + body_bytes);
  if (request_.share->grow_to(std::max<int64_t>(0, held - kUncountedBytes))) return true;
  refuse(503, "the server has no memory left for this request: other requests hold what there is for them; try again");
  return false;
}

}  // namespace cairn::net
