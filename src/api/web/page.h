/// The page for browsers, which is built from web/ and lies in the program (cmake/web_page.cmake).
#pragma once

#include <span>
#include <string_view>

#include "net/http/http_server.h"

namespace cairn::api::web {

/// A file of the page.
struct PageFile {
  std::string_view name;  ///< "index.html", "assets/main-ABCDEFGH.js"
  std::string_view gzip;  ///< its bytes, compressed
  std::string_view etag;  ///< with its quotes
};
/// index.html and what it needs.
std::span<const PageFile> page_files();

/// The file that the request asks for: index.html is GET / of a browser, which accepts text/html. Null: it is no
/// request for the page.
const PageFile* asked_file(const net::HttpRequest& request);
void send_file(const PageFile& file, const net::HttpRequest& request, net::HttpResponse& response);

}  // namespace cairn::api::web
