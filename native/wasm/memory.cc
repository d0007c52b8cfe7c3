// The one memory of a pool under WebAssembly: blocks in the order of their addresses, the first free one that is large enough is cut. There are few and
// large ones (arenas, caches, packed weights, scratch), so a list is enough. Threads take turns by a spinning lock; the browser's main thread may not sleep.
#include <atomic>
#include <cstddef>
#include <cstdint>

extern "C" unsigned char __heap_base;

namespace {

constexpr size_t kLine = 64, kPage = 65536;

struct alignas(kLine) Block {
  Block* next;
  /** Of the payload, which follows. */
  size_t bytes;
  bool free;
};

/** Bytes that are worth a block of their own. */
constexpr size_t kRest = 2 * sizeof(Block);

Block* first = nullptr;
std::atomic<int> locked{0};

struct Lock {
  Lock() { while (locked.exchange(1, std::memory_order_acquire)) {} }
  ~Lock() { locked.store(0, std::memory_order_release); }
};

size_t end_of_memory() { return __builtin_wasm_memory_size(0) * kPage; }
size_t end_of(const Block* block) { return reinterpret_cast<size_t>(block + 1) + block->bytes; }

/** Adds pages until `last` has `bytes`. False: there are no more. */
bool extend(Block* last, size_t bytes) {
  const uint64_t end = static_cast<uint64_t>(reinterpret_cast<size_t>(last + 1)) + bytes;
  const uint64_t pages = end > end_of_memory() ? (end - end_of_memory() + kPage - 1) / kPage : 0;
  if (end > (uint64_t{1} << 32) - kPage || (pages && __builtin_wasm_memory_grow(0, static_cast<size_t>(pages)) == SIZE_MAX)) return false;
  last->bytes = end_of_memory() - reinterpret_cast<size_t>(last + 1);
  return true;
}

void cut(Block* block, size_t bytes) {
  if (block->bytes < bytes + kRest) return;
  Block* rest = reinterpret_cast<Block*>(reinterpret_cast<unsigned char*>(block + 1) + bytes);
  *rest = {block->next, block->bytes - bytes - sizeof(Block), true};
  block->next = rest;
  block->bytes = bytes;
}

}  // namespace

extern "C" {

/** A block that starts on a cache line, with arbitrary contents; null when the memory is full. */
__attribute__((export_name("allocate"))) void* allocate(size_t wanted) {
  if (wanted > (size_t{1} << 31) + (size_t{1} << 30)) return nullptr;
  const size_t bytes = (wanted + kLine - 1) / kLine * kLine;
  Lock lock;
  if (!first) {
    first = reinterpret_cast<Block*>((reinterpret_cast<size_t>(&__heap_base) + kLine - 1) / kLine * kLine);
    *first = {nullptr, end_of_memory() - reinterpret_cast<size_t>(first + 1), true};
  }
  Block* block = first;
  for (;; block = block->next) {
    while (block->free && block->next && block->next->free) {
      block->bytes = end_of(block->next) - reinterpret_cast<size_t>(block + 1);
      block->next = block->next->next;
    }
    // The last block stays a free one, if of no bytes.
    if (block->free && block->bytes >= bytes + (block->next ? 0 : kRest)) break;
    if (block->next) continue;
    if (!extend(block, bytes + kRest)) return nullptr;
    break;
  }
  cut(block, bytes);
  block->free = false;
  return block + 1;
}

__attribute__((export_name("release"))) void release(void* at) {
  if (!at) return;
  Lock lock;
  (static_cast<Block*>(at) - 1)->free = true;
}

void* aligned_alloc(size_t, size_t bytes) { return allocate(bytes); }
void free(void* at) { release(at); }

}  // extern "C"
