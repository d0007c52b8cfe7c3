// What a kernel takes from JavaScript: arrays with their lengths, whole numbers, numbers, flags. bind.h unpacks them from Node-API, wasm/bind.h from
// a row of doubles. A bad argument ends the call before any work is done, by `lack` or `refuse`, which do not return.
#pragma once
#include "vec.h"

namespace SACCADE_ISA {

/** Sizes as they are given, and products of two of them: 64 bits wherever the kernels run. */
typedef int64_t Wide;

[[noreturn]] INLINE void lack(const char* name, Wide need, Wide have);
[[noreturn]] INLINE void refuse(const char* name, Wide found);

template <class T> struct Array {
  T* at;
  Wide size;
  /** Ends the call unless the array holds at least `count` elements. */
  void need(const char* name, Wide count) const {
    if (size < count) lack(name, count, size);
  }
};
/** Read only; written to, and perhaps read before. */
typedef Array<const float> In;
typedef Array<float> Out;
typedef Array<const int32_t> I32;
typedef Array<const uint8_t> U8;
typedef bool Flag;

}  // namespace SACCADE_ISA
