#pragma once
// Internal: oneDNN's primitive of a convolution, with the copies between its layouts and the caller's.
#include "channel_blocks.hpp"
#include "kernels/general/convolution.hpp"

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

namespace trivium::kernels {

/// A copy between two layouts of a tensor.
class LayoutCopy {
public:
    LayoutCopy() = default;
    /// For as many threads as OpenMP has now.
    LayoutCopy(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

    void run(void* from, void* to, void* pad) const;
    std::size_t pad_bytes() const { return pad_.get_size(); }

private:
    dnnl::memory::desc from_, to_, pad_;
    dnnl::reorder reorder_;
    std::optional<ChannelBlocks> blocks_; ///< instead of reorder_
    bool into_blocks_ = false;
};

/// Positions of the tensors in arrays of three.
enum ConvRole { conv_x, conv_w, conv_y };

inline ConvRole result_role(ConvKind kind)
{
    return kind == ConvKind::forward ? conv_y : kind == ConvKind::grad_x ? conv_x : conv_w;
}

/// The tensors in the layouts that the primitive reads and writes. The result of grad_w is f32.
struct ConvPrimitive {
    std::array<dnnl::memory::desc, 3> layouts;
    dnnl::memory::desc pad;
    dnnl::primitive primitive;
    ConvKind kind = ConvKind::forward;

    void run(const std::array<void*, 3>& tensors, void* pad_data) const;
};

/// The primitive for one thread, nullopt if this processor has none. `weights`: the layout of w, or null for
/// the library's choice. \pre supported_by_library(shape); `type` is f32 or bf16
std::optional<ConvPrimitive> make_convolution(ConvKind kind, const ConvShape& shape, DType type,
                                              const dnnl::memory::desc* weights);

} // namespace trivium::kernels
