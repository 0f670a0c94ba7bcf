#include "net/http/http_client.h"

#define CURL_DISABLE_DEPRECATION  // for CURLOPT_PROTOCOLS: the libcurl of Ubuntu 22.04 does not know what replaced it
#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/text/printable.h"
#include "base/version.h"
#include "net/http/authority.h"
#include "net/listen_address.h"
#include "net/unix_socket.h"

namespace cairn::net {
namespace {

constexpr size_t kHeadersMax = 256;                   // of an answer; more are passed over
constexpr std::chrono::milliseconds kCancelPoll{50};  // how soon a cancelled transfer ends

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The hosts that are asked without a proxy, in libcurl's form.
std::string hosts_without_proxy() {
  std::string hosts = variable("no_proxy");
  if (hosts.empty()) hosts = variable("NO_PROXY");
  return hosts == "*" ? hosts : "localhost,127.0.0.1,::1," + hosts;
}

/// Where the host of a URL begins, and where it ends with its port.
std::pair<size_t, size_t> authority_of(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const size_t end = std::min(url.find_first_of("/?#", begin), url.size());
  const size_t user = url.substr(0, end).rfind('@');
  return {user == std::string_view::npos || user < begin ? begin : user + 1, end};
}

/// "https://HOST:PORT".
std::string shown_origin(std::string_view url) { return shown_url(url.substr(0, authority_of(url).second)); }

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

Result<std::string> check_http_url(std::string_view url) {
  std::string_view checked = url;
  while (checked.ends_with('/')) checked.remove_suffix(1);
  const bool http = checked.starts_with("http://") || checked.starts_with("https://");
  const bool plain = std::ranges::none_of(checked, [](char c) { return (c >= 0 && c <= ' ') || c == '?' || c == '#'; });
  const auto [begin, end] = authority_of(checked);
  const auto authority = parse_authority(checked.substr(begin, end - begin));
  if (!http || !plain || !authority || authority->host.empty())
    return fail(Code::kInvalidArgument, "{} is not of the form http://HOST:PORT or https://HOST:PORT",
                printable(url, kEchoBytesMax));
  const std::string digits = authority->port.empty() ? "80" : authority->port;
  uint16_t port = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || port == 0)
    return fail(Code::kInvalidArgument, "{}: \"{}\" is not a port", shown_url(url), digits);
  return std::string(checked);
}

Result<ServerAddress> parse_server_address(std::string_view text) {
  ServerAddress address;
  if (auto path = unix_path_of(text)) {
    CAIRN_TRY_VOID(check_socket_path(*path));
    address = {"http://localhost", std::move(*path)};
  } else {
    CAIRN_TRY(address.url, check_http_url(text));
  }
  return address;
}

std::string shown_url(std::string_view url) {
  const size_t scheme = url.find("://");
  const std::string_view rest = url.substr(authority_of(url).first);
  return printable((scheme == std::string_view::npos ? "" : std::string(url.substr(0, scheme + 3))) +
                       std::string(rest.substr(0, rest.find('?'))),
                   kEchoBytesMax);
}

std::string_view HttpHead::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

struct HttpTransfer::State {
  HttpCall call;
  Sink sink;
  CURL* curl = nullptr;
  CURLM* multi = nullptr;  // while it is under way
  curl_slist* lines = nullptr;
  CURLcode result = CURLE_OK;
  HttpHead head;
  std::string error_body;
  std::array<char, CURL_ERROR_SIZE> error{};

  std::string text(CURLINFO info) const {
    const char* value = nullptr;
    ::curl_easy_getinfo(curl, info, &value);
    return value == nullptr ? "" : value;
  }

  void read_header(std::string_view line) {
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {  // of the next answer, after a redirect
      head = {.url = text(CURLINFO_EFFECTIVE_URL)};
      error_body.clear();
      const size_t space = line.find(' ');
      if (space != std::string_view::npos)
        std::from_chars(line.data() + space + 1, line.data() + line.size(), head.status);
      return;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || head.headers.size() >= kHeadersMax) return;
    head.headers.insert_or_assign(lower_case(line.substr(0, colon)), std::string(trimmed(line.substr(colon + 1))));
  }

  static size_t on_header(char* data, size_t, size_t bytes, void* self) {
    static_cast<State*>(self)->read_header({data, bytes});
    return bytes;
  }

  static size_t on_body(char* data, size_t, size_t bytes, void* self) {
    auto& state = *static_cast<State*>(self);
    if (state.head.success()) return state.sink(state.head, {data, bytes}) ? bytes : 0;
    const size_t room = kErrorBodyBytesMax - std::min(kErrorBodyBytesMax, state.error_body.size());
    state.error_body.append(data, std::min(bytes, room));
    return bytes;
  }

  void set(CURLoption option, auto value) { ::curl_easy_setopt(curl, option, value); }
  void add_header(const std::string& line) { lines = ::curl_slist_append(lines, line.c_str()); }

  void set_up(HttpTransfer* owner) {
    set(CURLOPT_PRIVATE, owner);
    set(CURLOPT_URL, call.url.c_str());
    if (!call.socket.empty()) set(CURLOPT_UNIX_SOCKET_PATH, call.socket.c_str());
    set(CURLOPT_ERRORBUFFER, error.data());
    set(CURLOPT_USERAGENT, (std::string("cairn/") + std::string(kVersion)).c_str());
    set(CURLOPT_NOSIGNAL, 1L);
    // Streams of one HTTP/2 connection would share its speed.
    set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    const auto connect_timeout = std::min(kConnectTimeout, call.stall);
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(connect_timeout.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(call.stall.count()));
    set(CURLOPT_HEADERFUNCTION, &State::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &State::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROXY, hosts_without_proxy().c_str());
    set_up_certificates();
    set_up_request();
  }

  /// The same variables, in the same order, as curl itself has.
  void set_up_certificates() {
    std::string file = variable("CURL_CA_BUNDLE");
    if (file.empty()) {
      file = variable("SSL_CERT_FILE");
      const std::string folder = variable("SSL_CERT_DIR");
      if (!folder.empty()) set(CURLOPT_CAPATH, folder.c_str());
    }
    if (!file.empty()) set(CURLOPT_CAINFO, file.c_str());
  }

  void set_up_request() {
    const bool secure = call.url.starts_with("https:");
    set(CURLOPT_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
    set(CURLOPT_REDIR_PROTOCOLS, long{secure ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS});
    set(CURLOPT_FOLLOWLOCATION, call.body ? 0L : 1L);
    set(CURLOPT_MAXREDIRS, long{kRedirectsMax});
    for (const auto& [name, value] : call.headers) add_header(name + ": " + value);
    if (call.body) {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDS, call.body->data());
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body->size()));
      add_header("Expect:");  // none: waiting for the server to agree takes time
    }
    if (lines != nullptr) set(CURLOPT_HTTPHEADER, lines);
    // Left out after a redirect to another host, port or scheme (CURLOPT_UNRESTRICTED_AUTH is off).
    if (!call.token.empty()) {
      set(CURLOPT_HTTPAUTH, long{CURLAUTH_BEARER});
      set(CURLOPT_XOAUTH2_BEARER, call.token.c_str());
    }
  }

  void detach() {
    if (multi != nullptr) ::curl_multi_remove_handle(multi, curl);
    multi = nullptr;
  }

  std::string failure_text() const {
    const std::string url = text(CURLINFO_EFFECTIVE_URL);
    const std::string place = call.socket.empty() ? shown_origin(url) : printable("unix:" + call.socket, kEchoBytesMax);
    const std::string why = printable(error[0] != '\0' ? error.data() : ::curl_easy_strerror(result), kEchoBytesMax);
    long number = 0;
    switch (result) {
      case CURLE_COULDNT_CONNECT:
        ::curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &number);
        return fmt::format("{}{}: {} ({})", kCannotConnect, place, std::strerror(static_cast<int>(number)), why);
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
        return fmt::format("{}{}: {}", kCannotConnect, place, why);
      case CURLE_PEER_FAILED_VERIFICATION:
        return fmt::format(
            "the certificate of {} is not accepted: {}; it must be valid today, for this very name or address, and of "
            "an authority that this machine knows, or whose own is in the file that CURL_CA_BUNDLE, else "
            "SSL_CERT_FILE, names",
            place, why);
      case CURLE_SSL_CONNECT_ERROR:
        return fmt::format("cannot agree on TLS with {}: {}; a server without TLS has an address with http://", place,
                           why);
      default:
        return fmt::format("the request to {} failed: {}", shown_url(url), why);
    }
  }
};

HttpTransfer::HttpTransfer(HttpCall call, Sink sink) : state_(std::make_unique<State>()) {
  state_->call = std::move(call);
  state_->sink = std::move(sink);
}

HttpTransfer::~HttpTransfer() {
  state_->detach();
  ::curl_slist_free_all(state_->lines);
  if (state_->curl != nullptr) ::curl_easy_cleanup(state_->curl);
}

const HttpCall& HttpTransfer::call() const { return state_->call; }
const HttpHead& HttpTransfer::head() const { return state_->head; }
const std::string& HttpTransfer::error_body() const { return state_->error_body; }

std::optional<HttpFailure> HttpTransfer::failure() const {
  if (state_->result != CURLE_OK)
    return HttpFailure{{Code::kUnavailable, state_->failure_text(), {}}, may_pass(state_->result)};
  const std::string elsewhere = state_->text(CURLINFO_REDIRECT_URL);
  if (elsewhere.empty()) return std::nullopt;
  return HttpFailure{{Code::kUnavailable,
                      fmt::format("{} has moved to {} (status {}): ask there", shown_url(state_->call.url),
                                  shown_url(elsewhere), state_->head.status),
                      {}}};
}

namespace {

CURLM* new_multi() {
  static const CURLcode started = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  return started == CURLE_OK ? ::curl_multi_init() : nullptr;
}

}  // namespace

HttpClient::HttpClient() : multi_(new_multi()) {}

HttpClient::~HttpClient() {
  if (multi_ != nullptr) ::curl_multi_cleanup(multi_);
}

Result<void> HttpClient::start(HttpTransfer& transfer) {
  HttpTransfer::State& state = *transfer.state_;
  if (multi_ != nullptr) state.curl = ::curl_easy_init();
  if (state.curl == nullptr) return fail(Code::kOutOfMemory, "no memory for a connection");
  state.set_up(&transfer);
  if (const CURLMcode code = ::curl_multi_add_handle(multi_, state.curl); code != CURLM_OK)
    return fail(Code::kUnavailable, "{}", ::curl_multi_strerror(code));
  state.multi = multi_;
  return {};
}

Result<std::vector<HttpTransfer*>> HttpClient::advance(std::chrono::milliseconds wait_max) {
  int running = 0, left = 0;
  ::curl_multi_poll(multi_, nullptr, 0, static_cast<int>(wait_max.count()), nullptr);
  if (const CURLMcode code = ::curl_multi_perform(multi_, &running); code != CURLM_OK)
    return fail(Code::kUnavailable, "{}", ::curl_multi_strerror(code));
  std::vector<HttpTransfer*> ended;
  while (const CURLMsg* const message = ::curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* owner = nullptr;
    ::curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner);
    auto* const transfer = reinterpret_cast<HttpTransfer*>(owner);
    transfer->state_->result = message->data.result;
    transfer->state_->detach();
    ended.push_back(transfer);
  }
  return ended;
}

Result<void> HttpClient::run(HttpTransfer& transfer) {
  CAIRN_TRY_VOID(start(transfer));
  const std::atomic<bool>* const cancelled = transfer.call().cancelled;
  while (cancelled == nullptr || !cancelled->load()) {
    CAIRN_TRY(const auto ended, advance(kCancelPoll));
    if (!ended.empty()) return {};
  }
  return fail(Code::kCancelled, "stopped");
}

Result<HttpReply> HttpClient::request(HttpCall call, const std::function<void(std::string_view)>& on_data) {
  HttpReply reply;
  size_t bytes = 0;
  HttpTransfer transfer(std::move(call), [&](const HttpHead&, std::string_view part) {
    bytes += part.size();
    if (bytes > kReplyBytesMax) return false;
    if (on_data) {
      on_data(part);
    } else {
      reply.body += part;
    }
    return true;
  });
  CAIRN_TRY_VOID(run(transfer));
  if (bytes > kReplyBytesMax)
    return fail(Code::kTooLarge, "the answer of {} is longer than {} bytes", shown_url(transfer.call().url),
                kReplyBytesMax);
  if (auto failed = transfer.failure()) return std::unexpected(std::move(failed->error));
  static_cast<HttpHead&>(reply) = transfer.head();
  if (!reply.success()) reply.body = transfer.error_body();
  return reply;
}

std::vector<std::string> EventSplitter::push(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\r') pending_ += c;  // neither our data nor JSON contains it
  }
  std::vector<std::string> events;
  size_t begin = 0;
  for (size_t end; (end = pending_.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    std::string data;
    std::string_view rest = std::string_view(pending_).substr(begin, end - begin);
    while (!rest.empty()) {
      const size_t line_end = rest.find('\n');
      std::string_view line = rest.substr(0, line_end);
      rest = line_end == std::string_view::npos ? std::string_view{} : rest.substr(line_end + 1);
      if (!line.starts_with("data:")) continue;
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      if (!data.empty()) data += '\n';
      data += line;
    }
    if (!data.empty()) events.push_back(std::move(data));
  }
  pending_.erase(0, begin);
  return events;
}

}  // namespace cairn::net
