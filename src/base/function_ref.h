/// A reference to a callable for use as a parameter: it neither owns nor allocates, and is valid only while the
/// callable lives.
#pragma once

#include <type_traits>
#include <utility>

namespace cairn {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& callable)  // NOLINT: implicit, so that a lambda can be passed as it stands
      : object_(const_cast<void*>(static_cast<const void*>(&callable))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace cairn
