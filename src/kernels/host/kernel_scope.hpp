#pragma once
// Work that Kokkos does not launch, shown to Kokkos' tools ($KOKKOS_TOOLS_LIBS) by name, like its own
// kernels.
#include <Kokkos_Core.hpp>
#include <cstdint>

namespace trivium::kernels {
inline namespace on_host {

/// The tools see a kernel during the lifetime of this object. Costs one test if no tool is loaded.
class KernelScope {
public:
    /// Not `shown`: within another kernel.
    explicit KernelScope(const char* label, bool shown = true)
        : on_(shown && Kokkos::Profiling::profileLibraryLoaded())
    {
        if (on_)
            Kokkos::Profiling::beginParallelFor(label, 0, &id_);
    }
    KernelScope(const KernelScope&) = delete;
    KernelScope& operator=(const KernelScope&) = delete;
    ~KernelScope()
    {
        if (on_)
            Kokkos::Profiling::endParallelFor(id_);
    }

private:
    bool on_;
    std::uint64_t id_ = 0;
};

} // namespace on_host
} // namespace trivium::kernels
