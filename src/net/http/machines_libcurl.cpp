// What http_client.cpp calls of libcurl, for programs that are not linked with it (CAIRN_STATIC): the first transfer
// opens the machine's own, which knows where that machine's certificates are. Where there is none, every transfer fails
// with an error that says so.
#include <curl/curl.h>
#include <dlfcn.h>

#include <cstdarg>
#include <initializer_list>

namespace {

constexpr unsigned kVersionMin = 0x075100;  // 7.81, which Ubuntu 22.04 has

void* open_libcurl() {
  for (const char* const name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    const auto version = reinterpret_cast<decltype(&::curl_version_info)>(::dlsym(library, "curl_version_info"));
    if (version != nullptr && version(CURLVERSION_NOW)->version_num >= kVersionMin) return library;
  }
  return nullptr;
}

/// Null where there is no library.
void* function(const char* name) {
  static void* const library = open_libcurl();
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

char absent_handle;  // of transfers that cannot be

}  // namespace

// What libcurl's function of that name returns, or `absent` where there is none. The names are in brackets because
// curl.h has macros of some.
#define CAIRN_CALL(name, absent, ...)                                              \
  static const auto real = reinterpret_cast<decltype(&(::name))>(function(#name)); \
  return real == nullptr ? absent : real(__VA_ARGS__)
#define CAIRN_LIBCURL(type, name, parameters, absent, ...) \
  type(name) parameters { CAIRN_CALL(name, absent, __VA_ARGS__); }

extern "C" {

CURLcode(curl_easy_setopt)(CURL* handle, CURLoption option, ...) {
  va_list arguments;
  va_start(arguments, option);
  // A long, a pointer or a curl_off_t: all are passed alike.
  void* const value = va_arg(arguments, void*);
  va_end(arguments);
  CAIRN_CALL(curl_easy_setopt, CURLE_OK, handle, option, value);
}

CURLcode(curl_easy_getinfo)(CURL* handle, CURLINFO info, ...) {
  va_list arguments;
  va_start(arguments, info);
  void* const out = va_arg(arguments, void*);
  va_end(arguments);
  CAIRN_CALL(curl_easy_getinfo, CURLE_FAILED_INIT, handle, info, out);
}

// clang-format off
CAIRN_LIBCURL(CURLcode, curl_global_init, (long flags), CURLE_OK, flags)
CAIRN_LIBCURL(CURL*, curl_easy_init, (), &absent_handle)
CAIRN_LIBCURL(void, curl_easy_cleanup, (CURL* handle), void(), handle)
CAIRN_LIBCURL(const char*, curl_easy_strerror, (CURLcode code), "", code)
CAIRN_LIBCURL(curl_slist*, curl_slist_append, (curl_slist* list, const char* line), nullptr, list, line)
CAIRN_LIBCURL(void, curl_slist_free_all, (curl_slist* list), void(), list)
CAIRN_LIBCURL(CURLM*, curl_multi_init, (), &absent_handle)
CAIRN_LIBCURL(CURLMcode, curl_multi_add_handle, (CURLM* multi, CURL* handle), CURLM_INTERNAL_ERROR, multi, handle)
CAIRN_LIBCURL(CURLMcode, curl_multi_remove_handle, (CURLM* multi, CURL* handle), CURLM_OK, multi, handle)
CAIRN_LIBCURL(CURLMcode, curl_multi_perform, (CURLM* multi, int* running), CURLM_INTERNAL_ERROR, multi, running)
CAIRN_LIBCURL(CURLMcode, curl_multi_poll, (CURLM* multi, curl_waitfd* more, unsigned count, int timeout_ms, int* ready),
              CURLM_INTERNAL_ERROR, multi, more, count, timeout_ms, ready)
CAIRN_LIBCURL(CURLMsg*, curl_multi_info_read, (CURLM* multi, int* left), nullptr, multi, left)
CAIRN_LIBCURL(CURLMcode, curl_multi_cleanup, (CURLM* multi), CURLM_OK, multi)
CAIRN_LIBCURL(const char*, curl_multi_strerror, (CURLMcode code),
              "this machine has no libcurl of version 7.81 or later (Debian, Ubuntu: libcurl4)", code)
// clang-format on

}  // extern "C"
