// The module: one object of kernels per instruction set that this machine can run, and `crew`, through which worker threads help
// one another. Any number of threads may load it at once. SACCADE_WITH_AVX2 says that kernels.cc was also compiled for AVX2.
#include <node_api.h>

#include "crew.h"

namespace generic { void fill(napi_env env, napi_value to); }
#if SACCADE_WITH_AVX2
#include <cpuid.h>
namespace avx2 { void fill(napi_env env, napi_value to); }

/** Processor and operating system do AVX2 and fused multiply-adds. (__builtin_cpu_supports needs a variable that zig does not link into libraries.) */
static bool has_avx2() {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
  const unsigned wanted = bit_FMA | bit_OSXSAVE | bit_AVX;
  if ((c & wanted) != wanted) return false;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#endif

static void add(napi_env env, napi_value exports, const char* name, void (*fill)(napi_env, napi_value)) {
  napi_value kernels;
  napi_create_object(env, &kernels);
  fill(env, kernels);
  napi_set_named_property(env, exports, name, kernels);
}

static napi_value join(napi_env env, napi_callback_info info) {
  napi_value argv[2];
  size_t argc = 2;
  uint32_t pool = 0, threads = 0;
  napi_get_cb_info(env, info, &argc, argv, nullptr, nullptr);
  if (argc < 2 || napi_get_value_uint32(env, argv[0], &pool) != napi_ok || napi_get_value_uint32(env, argv[1], &threads) != napi_ok) {
    napi_throw_type_error(env, nullptr, "join: needs the number of a pool and how many threads it has");
    return nullptr;
  }
  crew::join(pool, static_cast<int>(threads));
  return nullptr;
}

static void add_crew(napi_env env, napi_value exports) {
  napi_value object, function;
  napi_create_object(env, &object);
  const auto set = [&](const char* name, napi_callback call) {
    napi_create_function(env, name, NAPI_AUTO_LENGTH, call, nullptr, &function);
    napi_set_named_property(env, object, name, function);
  };
  set("join", join);
  set("begin", [](napi_env, napi_callback_info) -> napi_value { return crew::begin(), nullptr; });
  set("end", [](napi_env, napi_callback_info) -> napi_value { return crew::end(), nullptr; });
  set("helped", [](napi_env env, napi_callback_info) -> napi_value {
    napi_value count;
    napi_create_int64(env, crew::helped(), &count);
    return count;
  });
  napi_set_named_property(env, exports, "crew", object);
  napi_add_env_cleanup_hook(env, [](void*) { crew::leave(); }, nullptr);
}

NAPI_MODULE_INIT() {
  add_crew(env, exports);
  add(env, exports, "generic", generic::fill);
#if SACCADE_WITH_AVX2
  if (has_avx2()) add(env, exports, "avx2", avx2::fill);
#endif
  return exports;
}
