#include "api/web/page.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "net/http/content_coding.h"

namespace cairn::api::web {
namespace {

constexpr std::string_view kIndex = "index.html";
constexpr std::string_view kFilesFolder = "/assets/";
/// Far more than a file of the page has.
constexpr size_t kFileBytesMax = 16 << 20;
constexpr std::string_view kPlainText = "text/plain; charset=utf-8";

/// Nothing comes from elsewhere, nothing goes elsewhere, and no script runs but the page's own files. MathML's colours
/// and plots set styles by script, which the policy allows.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

std::string_view content_type_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{".html", "text/html; charset=utf-8"},
                                                                      {".js", "text/javascript; charset=utf-8"},
                                                                      {".css", "text/css; charset=utf-8"},
                                                                      {".svg", "image/svg+xml"}};
  for (const auto& [suffix, type] : kTypes)
    if (name.ends_with(suffix)) return type;
  return kPlainText;
}

/// Names with a hash never change their content.
bool has_hash(std::string_view name) { return name.find('-') != std::string_view::npos; }

}  // namespace

const PageFile* asked_file(const net::HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") return nullptr;
  std::string_view name = request.path;
  if (name == "/") {
    if (request.header("accept").find("text/html") == std::string_view::npos) return nullptr;
    name = kIndex;
  } else if (name.starts_with(kFilesFolder)) {
    name.remove_prefix(1);
  } else {
    return nullptr;
  }
  const auto files = page_files();
  const auto file = std::ranges::find(files, name, &PageFile::name);
  return file == files.end() ? nullptr : &*file;
}

void send_file(const PageFile& file, const net::HttpRequest& request, net::HttpResponse& response) {
  std::vector<std::pair<std::string, std::string>> headers = {
      {"ETag", std::string(file.etag)},
      {"Cache-Control", has_hash(file.name) ? "public, max-age=31536000, immutable" : "no-cache"},
      {"Vary", file.name == kIndex ? "Accept, Accept-Encoding" : "Accept-Encoding"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Content-Security-Policy", std::string(kContentSecurityPolicy)}};
  if (request.header("if-none-match").find(file.etag) != std::string_view::npos)
    return response.send(304, {}, {}, std::move(headers));
  if (net::accepts_gzip(request.header("accept-encoding"))) {
    headers.emplace_back("Content-Encoding", "gzip");
    return response.send(200, content_type_of(file.name), std::string(file.gzip), std::move(headers));
  }
  auto plain = net::decode_body(net::ContentCoding::kGzip, file.gzip, kFileBytesMax, [](size_t) { return true; });
  if (!plain) return send_error(response, plain.error(), ErrorFormat::kOpenAi);
  response.send(200, content_type_of(file.name), *std::move(plain), std::move(headers));
}

}  // namespace cairn::api::web
