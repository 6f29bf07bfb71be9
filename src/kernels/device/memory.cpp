#include "memory.hpp"

#include "base/check.hpp"
#include "kernels/device/kokkos/space.hpp"

#include <exception>
#include <type_traits>
#include <utility>

namespace trivium::kernels {

namespace {

using OnDevice = DeviceSpace::memory_space;
using Pinned = Kokkos::SharedHostPinnedSpace;

/// Null if there is not enough; then `reason` is Kokkos' message.
template <class Space>
std::byte* allocate(const char* label, Bytes bytes, std::string& reason)
{
    try {
        return static_cast<std::byte*>(Space().allocate(label, static_cast<std::size_t>(bytes)));
    } catch (const std::exception& error) {
        reason = error.what();
        return nullptr;
    }
}

template <MemoryPlace place>
using SpaceOf = std::conditional_t<place == MemoryPlace::device, OnDevice, Pinned>;

template <class Space>
void deallocate(const char* label, std::byte* data, Bytes bytes)
{
    if (data && !device_failed()) // otherwise Kokkos would end the process, and hide the error
        Space().deallocate(label, data, static_cast<std::size_t>(bytes));
}

template <class To, class From>
void copy(const Exec& exec, void* to, const void* from, Bytes bytes)
{
    const auto size = static_cast<std::size_t>(bytes);
    if (bytes > 0)
        launched("a copy", [&] {
            Kokkos::deep_copy(space_of(exec),
                              Kokkos::View<char*, To, Kokkos::MemoryUnmanaged>(static_cast<char*>(to), size),
                              Kokkos::View<const char*, From, Kokkos::MemoryUnmanaged>(
                                  static_cast<const char*>(from), size));
        });
}

} // namespace

std::byte* allocate_on_device(const char* label, Bytes bytes, std::string& reason)
{
    return allocate<OnDevice>(label, bytes, reason);
}
void free_on_device(const char* label, std::byte* data, Bytes bytes)
{
    deallocate<OnDevice>(label, data, bytes);
}

template <MemoryPlace place>
MemoryBlock<place>::MemoryBlock(const char* label, Bytes bytes) : label_(label), bytes_(bytes), data_(nullptr)
{
    std::string reason;
    if (bytes > 0 && !(data_ = allocate<SpaceOf<place>>(label, bytes, reason)))
        throw IoError({label, str("cannot allocate ", format_bytes(bytes)), reason,
                       "free memory, or use a node with more"});
}
template <MemoryPlace place>
MemoryBlock<place>::MemoryBlock(MemoryBlock&& other) noexcept
    : label_(other.label_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr))
{
}
template <MemoryPlace place>
MemoryBlock<place>::~MemoryBlock()
{
    deallocate<SpaceOf<place>>(label_, data_, bytes_);
}
template class MemoryBlock<MemoryPlace::device>;
template class MemoryBlock<MemoryPlace::pinned>;

void copy_to_device(const Exec& exec, void* to, const void* from, Bytes bytes)
{
    copy<OnDevice, Pinned>(exec, to, from, bytes);
}
void copy_from_device(const Exec& exec, void* to, const void* from, Bytes bytes)
{
    copy<Pinned, OnDevice>(exec, to, from, bytes);
}
void copy_on_device(const Exec& exec, void* to, const void* from, Bytes bytes)
{
    copy<OnDevice, OnDevice>(exec, to, from, bytes);
}

} // namespace trivium::kernels
