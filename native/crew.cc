// See crew.h. An offer is a place of one worker: it opens it, takes parts itself, closes it and waits for those inside. Helpers are awake while there
// are fewer of them than threads without a job; they look for offers for a moment longer than JavaScript takes between two kernels, then sleep.
#include "crew.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace crew {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::microseconds(200);
constexpr int kWoken = 4;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

struct alignas(64) Offer {
  Part part = nullptr;
  void* context = nullptr;
  int64_t count = 0;
  std::atomic<const char*> problem{nullptr};
  alignas(64) std::atomic<int64_t> next{0};
  /** Helpers that may read this offer. Counted before `open` is looked at, so that an owner who closed it knows when all have left. */
  alignas(64) std::atomic<int> inside{0};
  std::atomic<bool> open{false};
  bool taken = false;
};

class Crew {
 public:
  explicit Crew(int threads) : threads(threads), offers(threads) {}
  ~Crew() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      done = true;
    }
    wake.notify_all();
    for (std::thread& helper : helpers) helper.join();
  }

  int room() const { return threads - busy.load(std::memory_order_relaxed); }

  /** Sees to it that up to `wanted` helpers are awake. */
  void call(int wanted) {
    int more = (wanted < room() ? wanted : room()) - awake.load(std::memory_order_relaxed);
    if (more <= 0 || (started.load() && sleeping.load() == 0)) return;
    // Waking costs the caller; the next kernel wakes the others.
    if (more > kWoken) more = kWoken;
    {
      std::lock_guard<std::mutex> lock(mutex);
      while (static_cast<int>(helpers.size()) < threads - 1) helpers.emplace_back(&Crew::help, this, static_cast<int>(helpers.size()));
      started = true;
      calls = more < sleeping - calls ? calls + more : sleeping.load();
    }
    for (int i = 0; i < more; i++) wake.notify_one();
  }

  /** `crew`: the helper's. An owner does all that is left. */
  static void take(Offer& offer, Crew* crew) {
    for (;;) {
      const int64_t index = offer.next.fetch_add(1, std::memory_order_relaxed);
      if (index >= offer.count) return;
      if (crew != nullptr) crew->helped.fetch_add(1, std::memory_order_relaxed);
      try {
        offer.part(offer.context, index);
      } catch (const char* message) {
        offer.problem.store(message);
      }
      // A worker got a job of its own: its core is no longer ours.
      if (crew != nullptr && crew->awake.load(std::memory_order_relaxed) > crew->room()) return;
    }
  }

  const int threads;
  std::vector<Offer> offers;
  std::atomic<int> busy{0}, awake{0}, open{0};
  std::atomic<int64_t> helped{0};
  std::mutex mutex;

 private:
  void help(int number) {
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex);
        sleeping++;
        wake.wait(lock, [&] { return done.load() || calls > 0; });
        sleeping--;
        if (done) return;
        calls--;
      }
      awake++;
      // Begins with the offer of one worker and stays with it, for the sake of the caches.
      int at = number % threads;
      auto last = Clock::now();
      for (int quiet = 0; !done && fits();) {
        if (open.load(std::memory_order_relaxed) > 0 && assist(at)) {
          quiet = 0;
          last = Clock::now();
          continue;
        }
        relax();
        if (++quiet % 64 == 0 && Clock::now() - last > kPatience) {
          awake--;
          break;
        }
      }
      if (done) return;
    }
  }

  /** False, and counted out, when more are awake than may be. */
  bool fits() {
    int now = awake.load(std::memory_order_relaxed);
    while (now > room())
      if (awake.compare_exchange_weak(now, now - 1)) return false;
    return true;
  }

  bool assist(int& at) {
    for (int i = 0; i < threads; i++) {
      const int place = (at + i) % threads;
      Offer& offer = offers[place];
      if (!offer.open.load(std::memory_order_relaxed)) continue;
      offer.inside.fetch_add(1);
      const bool some = offer.open.load() && offer.next.load(std::memory_order_relaxed) < offer.count;
      if (some) take(offer, this);
      offer.inside.fetch_sub(1);
      if (!some) continue;
      at = place;
      return true;
    }
    return false;
  }

  std::vector<std::thread> helpers;
  std::condition_variable wake;
  std::atomic<bool> done{false}, started{false};
  std::atomic<int> sleeping{0};
  int calls = 0;
};

/** Never destroyed: threads may end after the statics do. */
struct Registry {
  std::mutex mutex;
  std::map<uint32_t, std::weak_ptr<Crew>> crews;
};
Registry& registry() {
  static Registry* made = new Registry;
  return *made;
}

struct Member {
  std::shared_ptr<Crew> crew;
  Offer* offer = nullptr;
  bool computing = false, offering = false;
};
thread_local Member me;

}  // namespace

void join(uint32_t pool, int threads) {
  leave();
  if (threads < 2) return;
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  me.crew = all.crews[pool].lock();
  if (!me.crew) all.crews[pool] = me.crew = std::make_shared<Crew>(threads);
  std::lock_guard<std::mutex> inner(me.crew->mutex);
  for (Offer& offer : me.crew->offers) {
    if (offer.taken) continue;
    offer.taken = true;
    me.offer = &offer;
    return;
  }
}

void leave() {
  if (!me.crew) return;
  end();
  {
    std::lock_guard<std::mutex> lock(me.crew->mutex);
    if (me.offer) me.offer->taken = false;
  }
  me.offer = nullptr;
  me.crew.reset();
}

void begin() {
  if (!me.crew || me.computing) return;
  me.computing = true;
  me.crew->busy++;
}

void end() {
  if (!me.crew || !me.computing) return;
  me.computing = false;
  me.crew->busy--;
}

int64_t helped() { return me.crew ? me.crew->helped.load(std::memory_order_relaxed) : 0; }

int spare() {
  if (!me.offer || me.offering) return 0;
  const int room = me.crew->room();
  return room > 0 ? room : 0;
}

double milliseconds() { return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count(); }

void pause(int turn) {
  if (turn % 256 == 255) std::this_thread::yield();
  else relax();
}

void run(int64_t count, Part part, void* context) {
  const int helpers = count > 1 ? spare() : 0;
  if (helpers == 0) {
    for (int64_t i = 0; i < count; i++) part(context, i);
    return;
  }
  Offer& offer = *me.offer;
  Crew& crew = *me.crew;
  me.offering = true;
  offer.part = part;
  offer.context = context;
  offer.count = count;
  offer.problem.store(nullptr, std::memory_order_relaxed);
  offer.next.store(0, std::memory_order_relaxed);
  offer.open.store(true);
  crew.open++;
  crew.call(count - 1 < helpers ? static_cast<int>(count - 1) : helpers);
  Crew::take(offer, nullptr);
  crew.open--;
  offer.open.store(false);
  for (int turn = 0; offer.inside.load() != 0; turn++) pause(turn);
  me.offering = false;
  if (const char* problem = offer.problem.load()) throw problem;
}

}  // namespace crew
