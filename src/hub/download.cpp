#include "hub/download.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "base/system/mapped_file.h"
#include "base/text/printable.h"
#include "gguf/parse.h"
#include "hub/part_file.h"

namespace cairn::hub {
namespace {

using Time = std::chrono::steady_clock::time_point;
constexpr std::chrono::seconds kSaveInterval{2};
constexpr std::chrono::milliseconds kPollMax{100};
constexpr std::string_view kMagic = "GGUF";

/// What a request asks for, and how often it has failed since it made progress.
struct Piece {
  ByteSpan span;
  int attempts = 0;
  Time not_before{};
};

/// A transfer with the piece that it loads; idle without a transfer.
struct Lane {
  std::unique_ptr<net::HttpTransfer> transfer;
  Piece piece;
  int64_t at = 0;  // the next byte
  bool checked = false;
  std::optional<Error> fatal;  // why the sink has ended the transfer
};

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// "bytes 0-99/1000"; the whole is -1 where it is "*".
struct ContentRange {
  int64_t begin = 0, whole = -1;
};
std::optional<ContentRange> read_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash) return std::nullopt;
  const auto begin = number_of(text.substr(0, dash));
  const std::string_view whole = text.substr(slash + 1);
  const auto bytes = whole == "*" ? std::optional<int64_t>(-1) : number_of(whole);
  if (!begin || !bytes) return std::nullopt;
  return ContentRange{*begin, *bytes};
}

/// The transfers of one file.
class Loading {
 public:
  Loading(const DownloadSource& source, const DownloadLimits& limits, PartFile& file, DownloadState& state,
          const OnProgress& on_progress, const std::atomic<bool>& cancelled)
      : source_(source),
        limits_(limits),
        file_(file),
        state_(state),
        on_progress_(on_progress),
        cancelled_(cancelled) {}

  /// Loads what is missing. What was loaded is saved, whatever the result.
  Result<void> run() {
    queue_missing();
    Result<void> done;
    while (done && !finished()) {
      done = cancelled_.load() ? Result<void>(fail(Code::kCancelled, "stopped")) : step();
    }
    const Result<void> saved = save();
    report();
    return done ? saved : done;
  }

 private:
  bool finished() const {
    return pieces_.empty() && std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.transfer == nullptr; });
  }

  void queue_missing() {
    pieces_.clear();
    const int64_t piece_bytes = whole_ ? std::max<int64_t>(source_.bytes, 1) : limits_.piece_bytes;
    for (const ByteSpan span : state_.loaded.missing(source_.bytes, piece_bytes)) pieces_.push_back({.span = span});
    lanes_.resize(whole_ ? 1 : static_cast<size_t>(std::max(limits_.connections, 1)));
  }

  Result<void> step() {
    for (Lane& lane : lanes_) {
      if (lane.transfer == nullptr) CAIRN_TRY_VOID(start(lane));
    }
    CAIRN_TRY(const auto ended, client_.advance(kPollMax));
    for (const net::HttpTransfer* const transfer : ended)
      CAIRN_TRY_VOID(end(*std::ranges::find(lanes_, transfer, [](const Lane& lane) { return lane.transfer.get(); })));
    if (std::exchange(restarts_, false)) CAIRN_TRY_VOID(restart());
    const Time now = std::chrono::steady_clock::now();
    if (now - reported_ >= limits_.report_interval) report();
    if (now - saved_ >= kSaveInterval) CAIRN_TRY_VOID(save());
    return {};
  }

  Result<void> start(Lane& lane) {
    const Time now = std::chrono::steady_clock::now();
    const auto next = std::ranges::find_if(pieces_, [&](const Piece& piece) { return piece.not_before <= now; });
    if (next == pieces_.end()) return {};
    lane.piece = *next;
    pieces_.erase(next);
    lane.at = lane.piece.span.begin;
    lane.checked = false;
    lane.fatal.reset();
    net::HttpCall call{.url = source_.url, .token = source_.token, .stall = limits_.stall};
    if (!whole_) {
      const ByteSpan& span = lane.piece.span;
      call.headers.emplace_back("Range", fmt::format("bytes={}-{}", span.begin, span.end - 1));
      if (source_.sha256.empty() && !state_.etag.empty() && !state_.etag.starts_with("W/"))
        call.headers.emplace_back("If-Range", state_.etag);
    }
    lane.transfer = std::make_unique<net::HttpTransfer>(
        std::move(call),
        [this, &lane](const net::HttpHead& head, std::string_view bytes) { return take(lane, head, bytes); });
    return client_.start(*lane.transfer);
  }

  /// The sink of a lane: false ends its transfer.
  bool take(Lane& lane, const net::HttpHead& head, std::string_view bytes) {
    const Result<void> done = put(lane, head, bytes);
    if (!done) lane.fatal = done.error();
    return done && !restarts_;
  }

  Result<void> put(Lane& lane, const net::HttpHead& head, std::string_view bytes) {
    if (!std::exchange(lane.checked, true)) CAIRN_TRY_VOID(check(lane, head));
    if (restarts_) return {};
    const auto room = static_cast<size_t>(lane.piece.span.end - lane.at);
    if (bytes.size() > room)
      return fail(Code::kCorruptFile, "{} sends more than the {} bytes that the hub says the file has",
                  net::shown_url(head.url), source_.bytes);
    const auto magic_at = static_cast<size_t>(lane.at);
    if (magic_at < kMagic.size()) {
      const std::string_view rest = kMagic.substr(magic_at);
      if (bytes.substr(0, rest.size()) != rest.substr(0, bytes.size()))
        return fail(Code::kCorruptFile, "{} sends no GGUF file: it begins with \"{}\"", net::shown_url(head.url),
                    printable(bytes.substr(0, 24)));
    }
    CAIRN_TRY_VOID(file_.write(bytes, lane.at));
    lane.at += static_cast<int64_t>(bytes.size());
    return {};
  }

  /// Checks what an answer says of itself before its first byte is taken.
  Result<void> check(const Lane& lane, const net::HttpHead& head) {
    if (head.header("content-type").starts_with("text/html"))
      return fail(Code::kCorruptFile, "{} sends a web page instead of a file", net::shown_url(head.url));
    const std::string etag(head.header("etag"));
    if (source_.sha256.empty() && !state_.etag.empty() && etag != state_.etag) {
      restarts_ = true;  // another file than the one whose bytes are here
      state_.etag.clear();
      return {};
    }
    if (source_.sha256.empty()) state_.etag = etag;
    if (head.status == 200) return check_whole(lane, head);
    const auto range = read_content_range(head.header("content-range"));
    if (!range || range->begin != lane.at)
      return fail(Code::kCorruptFile, "{} sends other bytes than those from {} on (Content-Range: {})",
                  net::shown_url(head.url), lane.at, printable(head.header("content-range")));
    return check_size(head, range->whole);
  }

  /// The server knows no ranges, or has another file by now: all of it comes.
  Result<void> check_whole(const Lane& lane, const net::HttpHead& head) {
    CAIRN_TRY_VOID(check_size(head, number_of(head.header("content-length")).value_or(-1)));
    if (whole_ || lane.piece.span == ByteSpan{0, source_.bytes}) return {};
    whole_ = restarts_ = true;
    return {};
  }

  Result<void> check_size(const net::HttpHead& head, int64_t bytes) const {
    if (bytes < 0 || bytes == source_.bytes) return {};
    return fail(Code::kCorruptFile, "{} has {} bytes, where the hub says {}", net::shown_url(head.url), bytes,
                source_.bytes);
  }

  Result<void> end(Lane& lane) {
    const auto failed = failure_of(*lane.transfer);
    lane.transfer.reset();
    Piece rest = lane.piece;
    const int64_t loaded = lane.at - rest.span.begin;
    const bool complete = lane.at == rest.span.end;
    // Without ranges, the next attempt begins at the beginning.
    if (!whole_ || complete) {
      state_.loaded.add({rest.span.begin, lane.at});
      if (loaded >= limits_.progress_bytes) rest.attempts = 0;
      rest.span.begin = lane.at;
    }
    if (lane.fatal) return std::unexpected(*lane.fatal);
    if (complete || restarts_) return {};
    if (failed && !failed->may_pass) return std::unexpected(failed->error);
    if (++rest.attempts >= limits_.attempts) {
      const Error error =
          failed ? failed->error : Error{Code::kUnavailable, net::shown_url(source_.url) + " ends too early", {}};
      return fail(Code::kUnavailable, "{}; given up after {} attempts, {} of {} bytes are kept", error.message,
                  limits_.attempts, state_.loaded.bytes(), source_.bytes);
    }
    rest.not_before =
        std::chrono::steady_clock::now() +
        wait_before(rest.attempts, limits_.first_wait, failed ? failed->retry_after : std::chrono::seconds(0));
    pieces_.push_front(rest);
    return {};
  }

  Result<void> restart() {
    for (Lane& lane : lanes_) lane.transfer.reset();
    if (++restarts_done_ > limits_.attempts)
      return fail(Code::kUnavailable, "{} becomes another file while it is loaded", net::shown_url(source_.url));
    state_.loaded.clear();
    CAIRN_TRY_VOID(file_.empty());
    queue_missing();
    return {};
  }

  Result<void> save() {
    saved_ = std::chrono::steady_clock::now();
    for (Lane& lane : lanes_) {
      if (lane.transfer == nullptr || whole_) continue;
      state_.loaded.add({lane.piece.span.begin, lane.at});
      if (lane.at - lane.piece.span.begin >= limits_.progress_bytes) lane.piece.attempts = 0;
      lane.piece.span.begin = lane.at;
    }
    return file_.save(state_);
  }

  void report() {
    reported_ = std::chrono::steady_clock::now();
    int64_t completed = state_.loaded.bytes();
    for (const Lane& lane : lanes_)
      if (lane.transfer != nullptr) completed += lane.at - lane.piece.span.begin;
    on_progress_({DownloadProgress::Stage::kLoading, completed, source_.bytes});
  }

  const DownloadSource& source_;
  const DownloadLimits& limits_;
  PartFile& file_;
  DownloadState& state_;
  const OnProgress& on_progress_;
  const std::atomic<bool>& cancelled_;
  net::HttpClient client_;
  std::deque<Piece> pieces_;
  std::vector<Lane> lanes_;
  bool whole_ = false;     // the server sends the whole file alone
  bool restarts_ = false;  // what was loaded is of no use
  int restarts_done_ = 0;
  Time reported_{}, saved_ = std::chrono::steady_clock::now();
};

Result<std::string> verified_sha256(const std::filesystem::path& path, const DownloadSource& source,
                                    const DownloadLimits& limits, const OnProgress& on_progress,
                                    const std::atomic<bool>& cancelled) {
  Time reported{};
  return sha256_of(path, [&](int64_t bytes) {
    const Time now = std::chrono::steady_clock::now();
    if (now - reported >= limits.report_interval || bytes == source.bytes) {
      reported = now;
      on_progress({DownloadProgress::Stage::kVerifying, bytes, source.bytes});
    }
    return !cancelled.load();
  });
}

/// Whether the file is there, whole and right.
Result<bool> is_complete(const std::filesystem::path& target, const DownloadSource& source,
                         const DownloadLimits& limits, const OnProgress& on_progress,
                         const std::atomic<bool>& cancelled) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(target, error);
  if (error || static_cast<int64_t>(bytes) != source.bytes) return false;
  if (source.sha256.empty()) return true;
  CAIRN_TRY(const std::string sha256, verified_sha256(target, source, limits, on_progress, cancelled));
  return sha256 == source.sha256;
}

/// Checks the whole file before it gets its name.
Result<void> check_loaded(const std::filesystem::path& target, const DownloadSource& source,
                          const DownloadLimits& limits, const OnProgress& on_progress,
                          const std::atomic<bool>& cancelled) {
  const std::filesystem::path path = part_path(target);
  if (!source.sha256.empty()) {
    CAIRN_TRY(const std::string sha256, verified_sha256(path, source, limits, on_progress, cancelled));
    if (sha256 != source.sha256)
      return fail(Code::kCorruptFile,
                  "{} has the SHA-256 {} where the hub says {}: what was loaded is deleted; pull again",
                  target.filename().string(), sha256, source.sha256);
  }
  CAIRN_TRY(const MappedFile file, MappedFile::open(path));
  const auto part = gguf::parse_part(file.bytes());
  // What this program cannot run may still be what was asked for.
  if (part || part.error().code != Code::kCorruptFile) return {};
  return fail(Code::kCorruptFile, "{} is no whole GGUF file: {}", target.filename().string(), part.error().text());
}

}  // namespace

Result<std::string> sha256_of(const std::filesystem::path& path, const std::function<bool(int64_t)>& on_bytes) {
  constexpr size_t kBufferBytes = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Code::kIo, "cannot read {}", path.string());
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
    return fail(Code::kOutOfMemory, "no memory for SHA-256");
  std::vector<char> buffer(kBufferBytes);
  int64_t bytes = 0;
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto count = static_cast<size_t>(file.gcount());
    EVP_DigestUpdate(context.get(), buffer.data(), count);
    bytes += static_cast<int64_t>(count);
    if (count > 0 && !on_bytes(bytes)) return fail(Code::kCancelled, "stopped");
  }
  if (file.bad()) return fail(Code::kIo, "cannot read {}", path.string());
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &digest_bytes);
  std::string hex;
  for (unsigned int i = 0; i < digest_bytes; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

int64_t loaded_bytes(const std::filesystem::path& target, const DownloadSource& source) {
  std::ifstream file(state_path(target), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto state = read_state(text);
  return state && state->bytes == source.bytes && state->sha256 == source.sha256 ? state->loaded.bytes() : 0;
}

Result<void> download(const DownloadSource& source, const std::filesystem::path& target, const DownloadLimits& limits,
                      const OnProgress& on_progress, const std::atomic<bool>& cancelled) {
  const auto complete = [&] { return is_complete(target, source, limits, on_progress, cancelled); };
  CAIRN_TRY(bool there, complete());
  if (there) return {};
  bool waited = false;
  const auto on_wait = [&] {
    waited = true;
    on_progress({DownloadProgress::Stage::kWaiting, 0, source.bytes});
  };
  CAIRN_TRY(PartFile file, PartFile::open(target, on_wait, cancelled));
  if (waited) {
    CAIRN_TRY(there, complete());
    if (there) {
      file.remove();
      return {};
    }
  }
  DownloadState state = file.state(source.bytes, source.sha256);
  if (state.loaded.bytes() == 0) CAIRN_TRY_VOID(file.empty());
  Result<void> done = Loading(source, limits, file, state, on_progress, cancelled).run();
  if (done) done = check_loaded(target, source, limits, on_progress, cancelled);
  if (done) return file.finish();
  // What is right goes on next time; what is wrong, or nothing, does not stay.
  if (done.error().code == Code::kCorruptFile || state.loaded.bytes() == 0) file.remove();
  return done;
}

}  // namespace cairn::hub
