#pragma once
// Memory of a device and for copies to it, through Kokkos.
#include "kernels/exec.hpp"

#include <cstddef>
#include <string>

namespace trivium::kernels {

/// Memory on the current device, aligned to 256 bytes. Null if there is not enough; `reason` is Kokkos'
/// message. `label` is for Kokkos' tools.
std::byte* allocate_on_device(const char* label, Bytes bytes, std::string& reason);
/// With the same label and size; null: nothing.
void free_on_device(const char* label, std::byte* data, Bytes bytes);

/// One allocation on the current device, aligned to 256 bytes.
class DeviceBlock {
public:
    /// \throws IoError if there is not enough
    DeviceBlock(const char* label, Bytes bytes);
    DeviceBlock(const DeviceBlock&) = delete;
    DeviceBlock& operator=(const DeviceBlock&) = delete;
    ~DeviceBlock();

    std::byte* data() const { return data_; }
    Bytes size() const { return bytes_; }

private:
    const char* label_;
    Bytes bytes_;
    std::byte* data_;
};

/// Host memory for fast copies (pinned), aligned to 256 bytes.
class PinnedBlock {
public:
    /// \throws IoError
    PinnedBlock(const char* label, Bytes bytes);
    PinnedBlock(PinnedBlock&& other) noexcept;
    PinnedBlock& operator=(PinnedBlock&&) = delete;
    ~PinnedBlock();

    std::byte* data() const { return data_; }
    Bytes size() const { return bytes_; }

private:
    const char* label_;
    Bytes bytes_;
    std::byte* data_;
};

// Work on the stream of `exec`. Host memory must be pinned, and valid until the copy is done.
void copy_to_device(const Exec& exec, void* to, const void* from, Bytes bytes);
void copy_from_device(const Exec& exec, void* to, const void* from, Bytes bytes);
void copy_on_device(const Exec& exec, void* to, const void* from, Bytes bytes);

} // namespace trivium::kernels
