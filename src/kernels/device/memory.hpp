#pragma once
// Device memory, pinned host memory, and copies, by Kokkos.
#include "kernels/exec.hpp"

#include <cstddef>
#include <string>

namespace trivium::kernels {

/// Memory on the current device, aligned to 256 bytes. Null if there is not enough; then `reason` is Kokkos'
/// message. `label` is for Kokkos' tools.
std::byte* allocate_on_device(const char* label, Bytes bytes, std::string& reason);
/// Frees `data` of allocate_on_device(). \pre the same `label` and `bytes`; `data` may be null
void free_on_device(const char* label, std::byte* data, Bytes bytes);

enum class MemoryPlace {
    device, ///< memory of the current device
    pinned, ///< host memory for fast copies
};

/// Owns one allocation, aligned to 256 bytes.
template <MemoryPlace place>
class MemoryBlock {
public:
    /// `label` must outlive the block. \throws IoError if there is not enough
    MemoryBlock(const char* label, Bytes bytes);
    MemoryBlock(MemoryBlock&& other) noexcept;
    MemoryBlock& operator=(MemoryBlock&&) = delete;
    ~MemoryBlock();

    std::byte* data() const { return data_; }
    Bytes size() const { return bytes_; }

private:
    const char* label_;
    Bytes bytes_;
    std::byte* data_;
};

using DeviceBlock = MemoryBlock<MemoryPlace::device>;
using PinnedBlock = MemoryBlock<MemoryPlace::pinned>;

// Enqueue a copy on the stream of `exec`. Host memory must be pinned, and valid until the copy is done.
void copy_to_device(const Exec& exec, void* to, const void* from, Bytes bytes);
void copy_from_device(const Exec& exec, void* to, const void* from, Bytes bytes);
void copy_on_device(const Exec& exec, void* to, const void* from, Bytes bytes);

} // namespace trivium::kernels
