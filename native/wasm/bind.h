// The bridge to JavaScript under WebAssembly: a kernel becomes an export that takes the address of its arguments, a row of doubles. An array is two of
// them, address and length. `signatures` tells JavaScript what each kernel takes, so that the C++ function is the only place that says it.
#pragma once
#include <utility>

#include "../arrays.h"

namespace SACCADE_ISA {

// Throw in JavaScript, through the frames of the kernel; wasm.ts puts the stack pointer back.
extern "C" [[noreturn]] __attribute__((import_module("saccade"), import_name("lack"))) void wasm_lack(const char* name, double need, double have);
extern "C" [[noreturn]] __attribute__((import_module("saccade"), import_name("refuse"))) void wasm_refuse(const char* name, double found);
[[noreturn]] INLINE void lack(const char* name, Wide need, Wide have) { wasm_lack(name, static_cast<double>(need), static_cast<double>(have)); }
[[noreturn]] INLINE void refuse(const char* name, Wide found) { wasm_refuse(name, static_cast<double>(found)); }

template <class T> struct Read;
template <class T, char letter> struct ReadArray {
  static constexpr char kLetter = letter;
  static constexpr int kDoubles = 2;
  static Array<T> from(const double* at) { return {reinterpret_cast<T*>(static_cast<uintptr_t>(at[0])), static_cast<Wide>(at[1])}; }
};
template <> struct Read<Out> : ReadArray<float, 'F'> {};
template <> struct Read<In> : ReadArray<const float, 'f'> {};
template <> struct Read<I32> : ReadArray<const int32_t, 'i'> {};
template <> struct Read<U8> : ReadArray<const uint8_t, 'u'> {};
template <class T, char letter> struct ReadNumber {
  static constexpr char kLetter = letter;
  static constexpr int kDoubles = 1;
  static T from(const double* at) { return static_cast<T>(*at); }
};
template <> struct Read<double> : ReadNumber<double, 'd'> {};
template <> struct Read<Wide> : ReadNumber<Wide, 's'> {};
template <> struct Read<Flag> : ReadNumber<Flag, 'b'> {};

template <auto function> struct Call;
template <class R, class... A, R (*function)(A...)> struct Call<function> {
  static constexpr char kLetters[] = {Read<A>::kLetter..., 0};
  /** Where argument `index` begins. */
  static constexpr int place(size_t index) {
    constexpr int doubles[] = {Read<A>::kDoubles...};
    int at = 0;
    for (size_t i = 0; i < index; i++) at += doubles[i];
    return at;
  }
  template <size_t... I> static R apply(const double* argv, std::index_sequence<I...>) { return function(Read<A>::from(argv + place(I))...); }
  static R run(const double* argv) { return apply(argv, std::index_sequence_for<A...>{}); }
};

#define EXPORT_KERNEL(name)                                                                                             \
  extern "C" __attribute__((export_name(#name))) auto wasm_##name(const double* argv) { return Call<&js_##name>::run(argv); } \
  extern "C" __attribute__((export_name(#name "_takes"))) const char* wasm_##name##_takes() { return Call<&js_##name>::kLetters; }

}  // namespace SACCADE_ISA
