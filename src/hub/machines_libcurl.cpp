// What http_transfer.cpp and download.cpp call of libcurl, for programs that are not linked with it (CAIRN_STATIC): the
// first transfer opens the machine's own, which knows where that machine's certificates are. Where there is none, every
// transfer fails with an error that says so.
#include <curl/curl.h>
#include <dlfcn.h>

#include <cstdarg>
#include <initializer_list>

namespace {

constexpr unsigned kVersionMin = 0x075500;  // 7.85, the first that can be told by name which protocols are allowed

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

// The names are in brackets because curl.h has macros of some.
#define CAIRN_LIBCURL(name) static const auto real = reinterpret_cast<decltype(&(::name))>(function(#name))

extern "C" {

CURLcode(curl_global_init)(long flags) {
  CAIRN_LIBCURL(curl_global_init);
  return real == nullptr ? CURLE_OK : real(flags);
}

CURL*(curl_easy_init)() {
  CAIRN_LIBCURL(curl_easy_init);
  return real == nullptr ? &absent_handle : real();
}

CURLcode(curl_easy_setopt)(CURL* handle, CURLoption option, ...) {
  CAIRN_LIBCURL(curl_easy_setopt);
  va_list arguments;
  va_start(arguments, option);
  // A long, a pointer or a curl_off_t: all are passed alike.
  void* const value = va_arg(arguments, void*);
  va_end(arguments);
  return real == nullptr ? CURLE_OK : real(handle, option, value);
}

CURLcode(curl_easy_getinfo)(CURL* handle, CURLINFO info, ...) {
  CAIRN_LIBCURL(curl_easy_getinfo);
  va_list arguments;
  va_start(arguments, info);
  void* const out = va_arg(arguments, void*);
  va_end(arguments);
  return real == nullptr ? CURLE_FAILED_INIT : real(handle, info, out);
}

CURLcode(curl_easy_perform)(CURL* handle) {
  CAIRN_LIBCURL(curl_easy_perform);
  return real == nullptr ? CURLE_FAILED_INIT : real(handle);
}

void(curl_easy_cleanup)(CURL* handle) {
  CAIRN_LIBCURL(curl_easy_cleanup);
  if (real != nullptr) real(handle);
}

const char*(curl_easy_strerror)(CURLcode code) {
  CAIRN_LIBCURL(curl_easy_strerror);
  return real == nullptr ? "this machine has no libcurl of version 7.85 or later (Debian, Ubuntu: libcurl4)"
                         : real(code);
}

curl_slist*(curl_slist_append)(curl_slist* list, const char* line) {
  CAIRN_LIBCURL(curl_slist_append);
  return real == nullptr ? nullptr : real(list, line);
}

void(curl_slist_free_all)(curl_slist* list) {
  CAIRN_LIBCURL(curl_slist_free_all);
  if (real != nullptr) real(list);
}

CURLM*(curl_multi_init)() {
  CAIRN_LIBCURL(curl_multi_init);
  return real == nullptr ? &absent_handle : real();
}

CURLMcode(curl_multi_add_handle)(CURLM* multi, CURL* handle) {
  CAIRN_LIBCURL(curl_multi_add_handle);
  return real == nullptr ? CURLM_INTERNAL_ERROR : real(multi, handle);
}

CURLMcode(curl_multi_remove_handle)(CURLM* multi, CURL* handle) {
  CAIRN_LIBCURL(curl_multi_remove_handle);
  return real == nullptr ? CURLM_OK : real(multi, handle);
}

CURLMcode(curl_multi_perform)(CURLM* multi, int* running) {
  CAIRN_LIBCURL(curl_multi_perform);
  return real == nullptr ? CURLM_INTERNAL_ERROR : real(multi, running);
}

CURLMcode(curl_multi_poll)(CURLM* multi, curl_waitfd* more, unsigned more_count, int timeout_ms, int* ready) {
  CAIRN_LIBCURL(curl_multi_poll);
  return real == nullptr ? CURLM_INTERNAL_ERROR : real(multi, more, more_count, timeout_ms, ready);
}

CURLMsg*(curl_multi_info_read)(CURLM* multi, int* left) {
  CAIRN_LIBCURL(curl_multi_info_read);
  return real == nullptr ? nullptr : real(multi, left);
}

CURLMcode(curl_multi_cleanup)(CURLM* multi) {
  CAIRN_LIBCURL(curl_multi_cleanup);
  return real == nullptr ? CURLM_OK : real(multi);
}

}  // extern "C"
