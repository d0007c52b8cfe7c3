// The module: one object of kernels per instruction set that this machine can run. No state, so any number of worker
// threads may load it at once. SACCADE_WITH_AVX2 says that kernels.cc was also compiled for AVX2.
#include <node_api.h>

namespace generic { void fill(napi_env env, napi_value to); }
#if SACCADE_WITH_AVX2
namespace avx2 { void fill(napi_env env, napi_value to); }
#endif

static void add(napi_env env, napi_value exports, const char* name, void (*fill)(napi_env, napi_value)) {
  napi_value kernels;
  napi_create_object(env, &kernels);
  fill(env, kernels);
  napi_set_named_property(env, exports, name, kernels);
}

NAPI_MODULE_INIT() {
  add(env, exports, "generic", generic::fill);
#if SACCADE_WITH_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) add(env, exports, "avx2", avx2::fill);
#endif
  return exports;
}
