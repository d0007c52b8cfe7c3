// The bridge to JavaScript: a C++ function of typed arrays and numbers becomes an N-API function. Positional arguments are
// unpacked by type; anything that does not fit is thrown as a RangeError or TypeError that names kernel and argument.
#pragma once
#include <node_api.h>

#include <cstdio>
#include <type_traits>
#include <utility>

#include "arrays.h"

namespace SACCADE_ISA {

struct Fault { const char* argument; int64_t need, have; };
struct WrongType { size_t position; const char* expected; };

[[noreturn]] INLINE void lack(const char* name, Wide need, Wide have) { throw Fault{name, need, have}; }
[[noreturn]] INLINE void refuse(const char* name, Wide found) { throw Fault{name, -1, found}; }

template <class T> struct Read;
template <class T, napi_typedarray_type type, bool nullable> struct ReadArray {
  static Array<T> from(napi_env env, napi_value value, size_t position) {
    napi_typedarray_type found;
    size_t length;
    void* data;
    if (napi_get_typedarray_info(env, value, &found, &length, &data, nullptr, nullptr) == napi_ok && found == type)
      return {static_cast<T*>(data), static_cast<int64_t>(length)};
    napi_valuetype kind;
    if (nullable && napi_typeof(env, value, &kind) == napi_ok && kind == napi_null) return {nullptr, 0};
    throw WrongType{position, type == napi_float32_array ? "a Float32Array" : type == napi_int32_array ? "an Int32Array" : "a Uint8Array"};
  }
};
template <> struct Read<Out> : ReadArray<float, napi_float32_array, true> {};
template <> struct Read<In> : ReadArray<const float, napi_float32_array, true> {};
template <> struct Read<I32> : ReadArray<const int32_t, napi_int32_array, false> {};
template <> struct Read<U8> : ReadArray<const uint8_t, napi_uint8_array, true> {};
template <> struct Read<double> {
  static double from(napi_env env, napi_value value, size_t position) {
    double x;
    if (napi_get_value_double(env, value, &x) != napi_ok) throw WrongType{position, "a number"};
    return x;
  }
};
template <> struct Read<Wide> {
  static Wide from(napi_env env, napi_value value, size_t position) {
    const double x = Read<double>::from(env, value, position);
    if (!(x >= 0 && x < 2147483648.0 && x == static_cast<double>(static_cast<Wide>(x)))) throw WrongType{position, "a whole number from 0 to 2^31-1"};
    return static_cast<Wide>(x);
  }
};
template <> struct Read<Flag> {
  static Flag from(napi_env env, napi_value value, size_t position) { return Read<double>::from(env, value, position) != 0; }
};

template <auto function> struct Call;
template <class R, class... A, R (*function)(A...)> struct Call<function> {
  template <size_t... I> static napi_value apply(napi_env env, napi_value* argv, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
      function(Read<A>::from(env, argv[I], I)...);
      return nullptr;
    } else {
      napi_value result = nullptr;
      napi_create_double(env, static_cast<double>(function(Read<A>::from(env, argv[I], I)...)), &result);
      return result;
    }
  }
  static napi_value run(napi_env env, napi_callback_info info) {
    napi_value argv[sizeof...(A)];
    size_t argc = sizeof...(A);
    void* name = nullptr;
    napi_get_cb_info(env, info, &argc, argv, nullptr, &name);
    char text[200];
    const char* kernel = static_cast<const char*>(name);
    try {
      return apply(env, argv, std::index_sequence_for<A...>{});
    } catch (const Fault& fault) {
      if (fault.need < 0) snprintf(text, sizeof text, "%s: %s is out of range (%lld)", kernel, fault.argument, static_cast<long long>(fault.have));
      else snprintf(text, sizeof text, "%s: %s needs %lld elements, has %lld", kernel, fault.argument, static_cast<long long>(fault.need), static_cast<long long>(fault.have));
      napi_throw_range_error(env, nullptr, text);
    } catch (const WrongType& wrong) {
      snprintf(text, sizeof text, "%s: argument %d must be %s", kernel, static_cast<int>(wrong.position) + 1, wrong.expected);
      napi_throw_type_error(env, nullptr, text);
    } catch (const char* message) {
      napi_throw_error(env, nullptr, message);
    }
    return nullptr;
  }
  static void add(napi_env env, napi_value to, const char* name) {
    napi_value made;
    napi_create_function(env, name, NAPI_AUTO_LENGTH, run, const_cast<char*>(name), &made);
    napi_set_named_property(env, to, name, made);
  }
};

}  // namespace SACCADE_ISA
