/// What a client calls its request, so that its log and ours can be put together.
///
/// Source: OpenAI API reference, "Debugging requests".
#pragma once

#include <string_view>

#include "base/error.h"
#include "net/http/http_server.h"

namespace cairn::api {

inline constexpr size_t kClientRequestIdBytesMax = 512;

/// X-Client-Request-Id. Error (kInvalidArgument): it is over kClientRequestIdBytesMax or not printable ASCII. Without
/// it X-Request-Id, as proxies set it, if that is neither. Empty: the client calls it nothing. Lives as long as
/// `request`.
Result<std::string_view> client_request_id(const net::HttpRequest& request);

}  // namespace cairn::api
