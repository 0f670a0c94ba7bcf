#include "hub/http_transfer.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "base/system/random_id.h"
#include "base/text/printable.h"
#include "base/version.h"

namespace cairn::hub {
namespace {

constexpr size_t kErrorBodyBytesMax = 4 << 10;  // of an error's body, for its message
constexpr size_t kHeadersMax = 256;             // of an answer; more are passed over
constexpr size_t kTokenBytesMax = 1 << 10;
constexpr std::chrono::seconds kWaitMax{60};
constexpr std::chrono::milliseconds kWaitStep{50};  // how soon a wait notices that it is cancelled

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::string> endpoint(const char* variable, std::string_view otherwise) {
  std::string url = environment(variable);
  if (url.empty()) return std::string(otherwise);
  while (url.ends_with('/')) url.pop_back();
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    return fail(Code::kInvalidArgument, "{} is \"{}\", which is no URL with http:// or https://", variable,
                printable(url));
  return url;
}

std::filesystem::path token_file() {
  if (const std::string path = environment("HF_TOKEN_PATH"); !path.empty()) return path;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return std::filesystem::path(home) / "token";
  const std::string cache = environment("XDG_CACHE_HOME");
  if (!cache.empty()) return std::filesystem::path(cache) / "huggingface" / "token";
  return std::filesystem::path(environment("HOME")) / ".cache/huggingface/token";
}

Result<std::string> read_token() {
  std::string token = environment("HF_TOKEN");
  std::string place = "HF_TOKEN";
  if (token.empty()) {
    const std::filesystem::path path = token_file();
    place = path.string();
    std::ifstream file(path, std::ios::binary);
    token.resize(kTokenBytesMax + 1);
    file.read(token.data(), static_cast<std::streamsize>(token.size()));
    token.resize(static_cast<size_t>(file.gcount()));
  }
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0) token.pop_back();
  // What would end the header.
  if (token.size() > kTokenBytesMax || std::ranges::any_of(token, [](char c) { return c <= ' ' || c > '~'; }))
    return fail(Code::kInvalidArgument, "{} holds no token of Hugging Face: spaces or other signs are in it", place);
  return token;
}

/// The message in a hub's error: {"error": "..."} of Hugging Face, {"errors": [{"message": "..."}]} of Ollama. It is
/// looked for as text, because the body may be cut or no JSON at all.
std::string message_in(std::string_view body) {
  for (const std::string_view key : {"\"message\":\"", "\"error\":\""}) {
    const size_t begin = body.find(key);
    if (begin == std::string_view::npos) continue;
    const std::string_view rest = body.substr(begin + key.size());
    return ": " + printable(rest.substr(0, rest.find('"')), kEchoBytesMax);
  }
  return {};
}

std::chrono::seconds seconds_of(std::string_view text) {
  int seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::clamp(std::chrono::seconds(seconds), std::chrono::seconds(0), kWaitMax);
}

/// Errors of the connection and of the time, which may pass.
bool may_pass(CURLcode code) {
  constexpr std::array kPassing = {CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY,
                                   CURLE_COULDNT_CONNECT,      CURLE_OPERATION_TIMEDOUT,
                                   CURLE_GOT_NOTHING,          CURLE_SEND_ERROR,
                                   CURLE_RECV_ERROR,           CURLE_PARTIAL_FILE,
                                   CURLE_SSL_CONNECT_ERROR,    CURLE_HTTP2,
                                   CURLE_HTTP2_STREAM,         CURLE_WEIRD_SERVER_REPLY};
  return std::ranges::find(kPassing, code) != kPassing.end();
}

}  // namespace

Result<Endpoints> Endpoints::from_environment() {
  Endpoints endpoints;
  CAIRN_TRY(endpoints.hugging_face, endpoint("HF_ENDPOINT", kHuggingFaceEndpoint));
  CAIRN_TRY(endpoints.ollama, endpoint("CAIRN_OLLAMA_REGISTRY", kOllamaEndpoint));
  CAIRN_TRY(endpoints.token, read_token());
  return endpoints;
}

std::string_view HttpHead::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

struct HttpTransfer::State {
  HttpQuery query;
  Sink sink;
  CURL* curl = nullptr;
  curl_slist* lines = nullptr;
  HttpHead head;
  std::string error_body;
  std::array<char, CURL_ERROR_SIZE> error{};

  bool good() const { return head.status == 200 || head.status == 206; }

  void read_header(std::string_view line) {
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {  // of the next answer, after a redirect
      head = {};
      const size_t space = line.find(' ');
      if (space != std::string_view::npos)
        std::from_chars(line.data() + space + 1, line.data() + line.size(), head.status);
      return;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || head.headers.size() >= kHeadersMax) return;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    head.headers.insert_or_assign(std::move(name), std::string(value));
  }

  static size_t on_header(char* data, size_t, size_t bytes, void* self) {
    static_cast<State*>(self)->read_header({data, bytes});
    return bytes;
  }

  static size_t on_body(char* data, size_t, size_t bytes, void* self) {
    auto& state = *static_cast<State*>(self);
    if (state.good()) {
      if (state.head.url.empty()) {
        const char* url = nullptr;
        ::curl_easy_getinfo(state.curl, CURLINFO_EFFECTIVE_URL, &url);
        state.head.url = url == nullptr ? state.query.url : url;
      }
      return state.sink(state.head, {data, bytes}) ? bytes : CURL_WRITEFUNC_ERROR;
    }
    const size_t room = kErrorBodyBytesMax - std::min(kErrorBodyBytesMax, state.error_body.size());
    state.error_body.append(data, std::min(bytes, room));
    return bytes;
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const std::atomic<bool>* const cancelled = static_cast<State*>(self)->query.cancelled;
    return cancelled != nullptr && cancelled->load() ? 1 : 0;
  }

  void set_up() {
    const auto set = [&](CURLoption option, auto value) { ::curl_easy_setopt(curl, option, value); };
    set(CURLOPT_URL, query.url.c_str());
    set(CURLOPT_ERRORBUFFER, error.data());
    set(CURLOPT_USERAGENT, (std::string("cairn/") + std::string(kVersion)).c_str());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, long{kRedirectsMax});
    const bool secure = query.url.starts_with("https:");
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
    // A connection for each transfer: streams of one would share its speed.
    set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(kConnectTimeout.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(query.stall.count()));
    set(CURLOPT_HEADERFUNCTION, &State::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &State::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &State::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    const auto header = [&](const std::string& line) { lines = ::curl_slist_append(lines, line.c_str()); };
    if (!query.accept.empty()) header("Accept: " + query.accept);
    if (query.range) header(fmt::format("Range: bytes={}-{}", query.range->begin, query.range->end - 1));
    if (query.range && !query.if_range.empty()) header("If-Range: " + query.if_range);
    if (lines != nullptr) set(CURLOPT_HTTPHEADER, lines);
    // Left out after a redirect to another host, port or scheme (CURLOPT_UNRESTRICTED_AUTH is off).
    if (!query.token.empty()) {
      set(CURLOPT_HTTPAUTH, long{CURLAUTH_BEARER});
      set(CURLOPT_XOAUTH2_BEARER, query.token.c_str());
    }
  }
};

HttpTransfer::HttpTransfer(HttpQuery query, Sink sink) : state_(std::make_unique<State>()) {
  static const CURLcode started = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  state_->query = std::move(query);
  state_->sink = std::move(sink);
  state_->curl = started == CURLE_OK ? ::curl_easy_init() : nullptr;
  if (state_->curl != nullptr) state_->set_up();
}

HttpTransfer::~HttpTransfer() {
  ::curl_slist_free_all(state_->lines);
  if (state_->curl != nullptr) ::curl_easy_cleanup(state_->curl);
}

void* HttpTransfer::handle() const { return state_->curl; }
const HttpHead& HttpTransfer::head() const { return state_->head; }

std::optional<HttpFailure> HttpTransfer::failure(int code) const {
  const int status = state_->head.status;
  const auto curl_code = static_cast<CURLcode>(code);
  const std::string place = printable(state_->query.url.substr(0, state_->query.url.find('?')), kEchoBytesMax);
  if (curl_code == CURLE_OK && state_->good()) return std::nullopt;
  if (curl_code != CURLE_OK) {
    const char* const why = state_->error[0] != '\0' ? state_->error.data() : ::curl_easy_strerror(curl_code);
    return HttpFailure{{Code::kUnavailable, fmt::format("{} cannot be fetched: {}", place, printable(why)), {}},
                       0,
                       may_pass(curl_code)};
  }
  const bool passes = status == 408 || status == 429 || status >= 500;
  const Code kind = status == 404 ? Code::kNotFound : passes ? Code::kUnavailable : Code::kInvalidArgument;
  return HttpFailure{{kind, fmt::format("{} is answered {}{}", place, status, message_in(state_->error_body)), {}},
                     status,
                     passes,
                     seconds_of(state_->head.header("retry-after"))};
}

std::chrono::milliseconds wait_before(int attempt, std::chrono::milliseconds first, std::chrono::seconds retry_after) {
  constexpr int kDoublingsMax = 16;
  const auto doubled = first * (int64_t{1} << std::clamp(attempt - 1, 0, kDoublingsMax));
  const auto bounded = std::min<std::chrono::milliseconds>(doubled, kWaitMax);
  const auto random =
      bounded * static_cast<int64_t>(secure_random() % 256) / 1024;  // so that clients do not return together
  return std::max<std::chrono::milliseconds>(bounded + random, retry_after);
}

bool wait_unless(const std::atomic<bool>& cancelled, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!cancelled.load()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return true;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kWaitStep));
  }
  return false;
}

Result<HttpText> fetch_text(const HttpQuery& query, size_t bytes_max, int attempts,
                            std::chrono::milliseconds first_wait, const std::atomic<bool>& cancelled) {
  for (int attempt = 1;; ++attempt) {
    HttpText text;
    bool too_large = false;
    HttpQuery asked = query;
    asked.cancelled = &cancelled;
    HttpTransfer transfer(std::move(asked), [&](const HttpHead&, std::string_view bytes) {
      too_large = text.body.size() + bytes.size() > bytes_max;
      if (!too_large && !cancelled.load()) text.body += bytes;
      return !too_large && !cancelled.load();
    });
    if (transfer.handle() == nullptr) return fail(Code::kOutOfMemory, "no memory for a connection");
    const CURLcode code = ::curl_easy_perform(transfer.handle());
    if (cancelled.load()) return fail(Code::kCancelled, "stopped");
    if (too_large)
      return fail(Code::kTooLarge, "the answer of {} is longer than {} bytes", printable(query.url), bytes_max);
    const auto failed = transfer.failure(code);
    if (!failed) {
      text.head = transfer.head();
      return text;
    }
    if (!failed->retry || attempt >= attempts) return std::unexpected(failed->error);
    if (!wait_unless(cancelled, wait_before(attempt, first_wait, failed->retry_after)))
      return fail(Code::kCancelled, "stopped");
  }
}

std::string url_path(std::string_view path) {
  std::string url;
  for (const unsigned char letter : path) {
    const bool plain = std::isalnum(letter) != 0 ||
                       std::string_view("-._~/").find(static_cast<char>(letter)) != std::string_view::npos;
    url += plain ? std::string(1, static_cast<char>(letter)) : fmt::format("%{:02X}", letter);
  }
  return url;
}

}  // namespace cairn::hub
