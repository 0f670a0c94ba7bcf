#include "net/exceptions.h"

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <new>

#include "base/log.h"

namespace cairn::net {

void log_exception(std::string_view what, const std::exception_ptr& exception) noexcept {
  try {
    try {
      std::rethrow_exception(exception);
    } catch (const boost::system::system_error& error) {
      if (error.code() == boost::asio::error::operation_aborted) return;
      log_error("{} failed: {}", what, error.what());
    } catch (const std::bad_alloc&) {
      log_error("{} failed: out of memory", what);
    } catch (const std::exception& error) {
      log_error("{} failed: {}", what, error.what());
    } catch (...) {
      log_error("{} failed: something that is no std::exception was thrown", what);
    }
  } catch (...) {  // there is not even memory for the line
  }
}

bool is_out_of_memory(const std::exception_ptr& exception) noexcept {
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace cairn::net
