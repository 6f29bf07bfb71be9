#pragma once
// Emulates a GPU's block of threads on a CPU, for kernels that use the Block of
// src/kernels/device/cuda/tensor_block.hpp.
//
// Threads are fibers. A warp operation waits for all 32 lanes and then runs as the PTX ISA specifies.
// Undefined behaviour that a device may tolerate is an error here, a std::runtime_error with its place:
//   - reading shared memory that nothing has written, or any memory out of bounds;
//   - a copy that is read, or overwritten, before its thread has waited for it (copies happen as late as they
//   may);
//   - accesses of two threads to the same word, one of them a write, that no barrier orders;
//   - lanes of a warp that diverge, threads that miss a barrier, addresses that are not aligned;
//   - two writes to the same element of device memory.
#include "kernels/device/cuda/tensor_block.hpp"

#include "base/bf16.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trivium::emulator {

using kernels::u32;
using kernels::Words;

class Machine;

/// One thread's view.
class Block {
public:
    Block(Machine& machine, u32 thread, u32 index) : machine_(machine), thread_(thread), index_(index) {}

    u32 thread() const { return thread_; }
    u32 index() const { return index_; }

    void sync();
    void sync_warp();
    void copy_async(u32 to, const bf16* from, bool inside);
    void copy_async(u32 to, const float* from);
    void commit();
    void wait();
    void load_matrices(u32 (&to)[4], u32 at);
    void load_transposed(u32 (&to)[4], u32 at);
    Words load_shared(u32 at);
    void store_shared(u32 at, u32 word);
    Words load(const bf16* from);
    float load_float(const float* from);
    void store(bf16* to, const Words& words);
    void store(float* to, float value);
    void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1);
    float shuffle_xor(float value, u32 mask);
    float exp2(float x);
    u32 pack(float low, float high);

private:
    Machine& machine_;
    u32 thread_, index_;
};

/// A launch: its memory, and the order in which threads run.
class Launch {
public:
    u32 blocks = 1, threads = 32, shared_bytes = 0;
    bool backwards = false; ///< runs threads, and blocks, from the last to the first

    /// Device memory that may be read.
    template <class T>
    void reads(const std::vector<T>& array)
    {
        ranges_.push_back({reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T), false});
    }
    /// Device memory that may be written, each element once.
    template <class T>
    void writes(std::vector<T>& array)
    {
        ranges_.push_back({reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T), true});
    }

    /// Runs the kernel, block after block. \throws std::runtime_error for the errors listed above
    void run(const std::function<void(Block&)>& kernel) const;

    struct Range {
        const char* start;
        std::size_t size;
        bool writable;
    };
    const std::vector<Range>& ranges() const { return ranges_; }

private:
    std::vector<Range> ranges_;
};

} // namespace trivium::emulator
