// crew.h under WebAssembly. There is one crew to a memory. Its helpers are worker threads that JavaScript starts, each in `help`, where it sleeps on a
// word of the shared memory (Atomics.wait) until a kernel calls. Offers and their rules are those of ../crew.cc.
#include "../crew.h"

#include <atomic>

namespace crew {

extern "C" __attribute__((import_module("saccade"), import_name("now"))) double now();

namespace {

constexpr double kPatience = 0.2;  // milliseconds
constexpr int kWoken = 4, kMost = 256;

struct alignas(64) Offer {
  Part part;
  void* context;
  int64_t count;
  alignas(64) std::atomic<int64_t> next;
  alignas(64) std::atomic<int> inside;
  std::atomic<int> open;
};

struct {
  std::atomic<int> threads, busy, awake, open, sleeping;
  std::atomic<int64_t> helped;
  /** Helpers that may get up; they sleep on this word. */
  alignas(64) std::atomic<int> calls;
  Offer offers[kMost];
} crew;

thread_local Offer* mine = nullptr;
thread_local bool computing = false, offering = false;
thread_local int64_t helped_before = 0;

int room() { return crew.threads.load(std::memory_order_relaxed) - crew.busy.load(std::memory_order_relaxed); }

void call(int wanted) {
  const int left = room();
  int more = (wanted < left ? wanted : left) - crew.awake.load(std::memory_order_relaxed);
  if (more > kWoken) more = kWoken;
  for (; more > 0; more--) {
    if (crew.calls.load() >= crew.sleeping.load()) return;
    crew.calls++;
    __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(&crew.calls), 1);
  }
}

void take(Offer& offer, bool helper) {
  for (;;) {
    const int64_t index = offer.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= offer.count) return;
    if (helper) crew.helped.fetch_add(1, std::memory_order_relaxed);
    offer.part(offer.context, index);
    // A worker got a job of its own: its core is no longer ours.
    if (helper && crew.awake.load(std::memory_order_relaxed) > room()) return;
  }
}

bool assist(int& at) {
  const int threads = crew.threads.load(std::memory_order_relaxed);
  for (int i = 0; i < threads; i++) {
    const int place = (at + i) % threads;
    Offer& offer = crew.offers[place];
    if (!offer.open.load(std::memory_order_relaxed)) continue;
    offer.inside.fetch_add(1);
    const bool some = offer.open.load() && offer.next.load(std::memory_order_relaxed) < offer.count;
    if (some) take(offer, true);
    offer.inside.fetch_sub(1);
    if (!some) continue;
    at = place;
    return true;
  }
  return false;
}

/** False, and counted out, when more are awake than may be. */
bool fits() {
  int awake = crew.awake.load(std::memory_order_relaxed);
  while (awake > room())
    if (crew.awake.compare_exchange_weak(awake, awake - 1)) return false;
  return true;
}

void sleep() {
  crew.sleeping++;
  for (int calls = crew.calls.load();;) {
    if (calls > 0 && crew.calls.compare_exchange_weak(calls, calls - 1)) break;
    if (calls <= 0) {
      __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(&crew.calls), 0, -1);
      calls = crew.calls.load();
    }
  }
  crew.sleeping--;
}

}  // namespace

extern "C" {

/** The life of a helper; only the end of its thread ends it. */
[[noreturn]] __attribute__((export_name("help"))) void help(int number) {
  for (;;) {
    sleep();
    crew.awake++;
    int at = number;
    double last = now();
    for (int quiet = 0; fits();) {
      if (crew.open.load(std::memory_order_relaxed) > 0 && assist(at)) {
        quiet = 0;
        last = now();
        continue;
      }
      if (++quiet % 256 == 0 && now() - last > kPatience) {
        crew.awake--;
        break;
      }
    }
  }
}

__attribute__((export_name("join"))) void wasm_join(int number, int threads) {
  crew::end();
  if (threads > kMost) threads = kMost;
  crew.threads.store(threads);
  mine = threads > 1 && number < threads ? &crew.offers[number] : nullptr;
  helped_before = crew.helped.load();
}
__attribute__((export_name("begin"))) void wasm_begin() { crew::begin(); }
__attribute__((export_name("end"))) void wasm_end() { crew::end(); }
__attribute__((export_name("helped"))) double wasm_helped() { return static_cast<double>(crew::helped()); }

}  // extern "C"

void begin() {
  if (computing) return;
  computing = true;
  crew.busy++;
}

void end() {
  if (!computing) return;
  computing = false;
  crew.busy--;
}

int64_t helped() { return crew.helped.load(std::memory_order_relaxed) - helped_before; }

int spare() {
  if (!mine || offering) return 0;
  const int left = room();
  return left > 0 ? left : 0;
}

double milliseconds() { return now(); }

/** After a while, sleeps for some microseconds: the thread that is waited for may need this core. */
void pause(int turn) {
  static int never = 0;
  if (turn % 1024 == 1023) __builtin_wasm_memory_atomic_wait32(&never, 0, 20000);
}

void run(int64_t count, Part part, void* context) {
  const int helpers = count > 1 ? spare() : 0;
  if (helpers == 0) {
    for (int64_t i = 0; i < count; i++) part(context, i);
    return;
  }
  Offer& offer = *mine;
  offering = true;
  offer.part = part;
  offer.context = context;
  offer.count = count;
  offer.next.store(0, std::memory_order_relaxed);
  offer.open.store(1);
  crew.open++;
  call(count - 1 < helpers ? static_cast<int>(count - 1) : helpers);
  take(offer, false);
  crew.open--;
  offer.open.store(0);
  for (int turn = 0; offer.inside.load() != 0; turn++) pause(turn);
  offering = false;
}

}  // namespace crew
