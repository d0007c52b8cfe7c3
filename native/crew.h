// Threads that help one another inside a kernel. The workers of one engine form a crew. While fewer of them compute than the
// engine has threads, a kernel offers its work in parts, and helper threads of the crew take some of them. Parts never change a
// bit: a kernel is cut only where no sum crosses the cut. So a long sequence, or a large matrix of the optimizer, does not leave the other cores idle.
#pragma once
#include <cstdint>

namespace crew {

/** This thread computes for the engine `pool`, which has so many threads; until `leave`. */
void join(uint32_t pool, int threads);
void leave();
/** Around a job: this thread computes now. Helpers make room for it. */
void begin();
void end();

/** Parts that helpers of this thread's crew have done. */
int64_t helped();

/** How many threads could help this one right now. 0: work alone. */
int spare();

typedef void (*Part)(void* context, int64_t index);
void run(int64_t count, Part part, void* context);

/** Calls part(0) … part(count − 1), begun in this order, here and on spare threads; all are done when it returns. */
template <class F> void share(int64_t count, F part) {
  run(count, [](void* context, int64_t index) { (*static_cast<F*>(context))(index); }, &part);
}

/** A clock that only moves on. */
double milliseconds();

/** Lets a thread that waits for another one do so cheaply. */
void pause(int turn);

}  // namespace crew
