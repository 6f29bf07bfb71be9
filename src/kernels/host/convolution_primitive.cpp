#include "convolution_primitive.hpp"

#include "convolution_blocks.hpp"
#include "dnnl_calls.hpp"

namespace trivium::kernels {

namespace {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;

dnnl::primitive_attr own_scratchpad()
{
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
}

dnnl::memory lent(const Desc& desc, void* data) { return {desc, dnnl_engine(), data}; }

/// A tensor whose layout the library may choose.
Desc any_layout(DType type, Dims dims, const i64* extents, int spatial)
{
    dims.insert(dims.end(), extents, extents + spatial);
    return {dims, dnnl_type(type), dnnl::memory::format_tag::any};
}

template <class Primitive>
std::optional<ConvPrimitive> made(ConvKind kind, const typename Primitive::primitive_desc& desc,
                                  const std::array<int, 3>& arguments)
{
    if (!desc)
        return {};
    ConvPrimitive result;
    result.kind = kind;
    result.primitive = Primitive(desc);
    result.pad = desc.scratchpad_desc();
    for (std::size_t role = 0; role < 3; ++role)
        result.layouts[role] = desc.query_md(dnnl::query::exec_arg_md, arguments[role]);
    return result;
}

std::array<int, 3> arguments_of(ConvKind kind)
{
    return {kind == ConvKind::grad_x ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
            kind == ConvKind::grad_w ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
            kind == ConvKind::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST};
}

/// `plain` as the library's layout `blocked` has it, if that one has blocks of 16 channels, and rows of
/// `plain` are dense.
std::optional<ChannelBlocks> blocks_of(const Desc& plain, const Desc& blocked)
{
    using Tag = dnnl::memory::format_tag;
    const Dims dims = plain.dims();
    const auto rank = dims.size();
    const dnnl_memory_desc_t& d = plain.data;
    if (rank < 3 || rank > 5 || plain.data_type() != dnnl::memory::data_type::f32 ||
        d.format_kind != dnnl_blocked || d.format_desc.blocking.inner_nblks != 0 ||
        d.format_desc.blocking.strides[rank - 1] != 1 ||
        blocked != Desc(dims, plain.data_type(),
                        rank == 3   ? Tag::aBc16b
                        : rank == 4 ? Tag::aBcd16b
                                    : Tag::aBcde16b))
        return {};
    const auto& strides = d.format_desc.blocking.strides;
    ChannelBlocks b{dims[0], dims[1], {1, 1, dims[rank - 1]}, strides[0], strides[1], {0, 0}};
    for (std::size_t i = 2; i + 1 < rank; ++i) {
        b.extents[i + 3 - rank] = dims[i];
        b.apart[i + 3 - rank] = strides[i];
    }
    return b;
}

} // namespace

LayoutCopy::LayoutCopy(const Desc& from, const Desc& to) : from_(from), to_(to)
{
    into_blocks_ = (blocks_ = blocks_of(from, to)).has_value();
    if (!blocks_)
        blocks_ = blocks_of(to, from);
    if (blocks_)
        return;
    const dnnl::reorder::primitive_desc desc(dnnl_engine(), from, dnnl_engine(), to, own_scratchpad());
    reorder_ = dnnl::reorder(desc);
    pad_ = desc.scratchpad_desc();
}

void LayoutCopy::run(void* from, void* to, void* pad) const
{
    if (blocks_ && into_blocks_)
        return copy_into_blocks(*blocks_, static_cast<const float*>(from), static_cast<float*>(to));
    if (blocks_)
        return copy_from_blocks(*blocks_, static_cast<const float*>(from), static_cast<float*>(to));
    dnnl::stream stream(dnnl_engine());
    reorder_.execute(stream, {{DNNL_ARG_FROM, lent(from_, from)},
                              {DNNL_ARG_TO, lent(to_, to)},
                              {DNNL_ARG_SCRATCHPAD, lent(pad_, pad)}});
    stream.wait();
}

void ConvPrimitive::run(const std::array<void*, 3>& tensors, void* pad_data) const
{
    const std::array<int, 3> arguments = arguments_of(kind);
    dnnl::stream stream(dnnl_engine());
    primitive.execute(stream, {{arguments[0], lent(layouts[0], tensors[0])},
                               {arguments[1], lent(layouts[1], tensors[1])},
                               {arguments[2], lent(layouts[2], tensors[2])},
                               {DNNL_ARG_SCRATCHPAD, lent(pad, pad_data)}});
    stream.wait();
}

namespace {

/// oneDNN 2.6 gives wrong sums, some of them garbage, for gradients of bf16 weights where windows are larger
/// than the image, or where, in three dimensions with strides, the last one reaches beyond it.
bool has_wrong_sums(ConvKind kind, const ConvShape& s, DType type)
{
    if (kind != ConvKind::grad_w || type != DType::bf16)
        return false;
    for (int d = 0; d < s.spatial; ++d) {
        if (extent_of_window(s, d) > s.in[d] ||
            (s.spatial == 3 && s.stride[d] > 1 && padding_after(s, d) > 0))
            return true;
    }
    return false;
}

} // namespace

std::optional<ConvPrimitive> make_convolution(ConvKind kind, const ConvShape& s, DType type,
                                              const Desc* weights)
{
    if (has_wrong_sums(kind, s, type))
        return {};
    const ThreadScope one(1);
    const DType type_w = kind == ConvKind::grad_w ? DType::f32 : type;
    const i64 c = s.c / s.groups, o = s.o / s.groups;
    const Desc x = any_layout(type, {s.b, s.c}, s.in, s.spatial),
               y = any_layout(type, {s.b, s.o}, s.out, s.spatial),
               chosen = s.groups > 1 ? any_layout(type_w, {s.groups, o, c}, s.k, s.spatial)
                                     : any_layout(type_w, {o, c}, s.k, s.spatial);
    const Desc w = weights ? *weights : chosen;
    const Dims stride(s.stride, s.stride + s.spatial), low(s.low, s.low + s.spatial);
    Dims dilation, high;
    for (int d = 0; d < s.spatial; ++d) {
        dilation.push_back(s.dilation[d] - 1);
        high.push_back(std::max<i64>(0, padding_after(s, d)));
    }
    const dnnl::engine& engine = dnnl_engine();
    const auto attributes = own_scratchpad();
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const std::array<int, 3> arguments = arguments_of(kind);
    // The gradients take it as a hint, with weights in the type of x.
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, x,
         kind == ConvKind::forward ? w : Desc(chosen.dims(), dnnl_type(type), dnnl::memory::format_tag::any),
         y, stride, dilation, low, high},
        attributes, engine, true);
    if (kind == ConvKind::forward || !forward)
        return made<dnnl::convolution_forward>(kind, forward, arguments);
    if (kind == ConvKind::grad_x)
        return made<dnnl::convolution_backward_data>(
            kind, {{algorithm, x, w, y, stride, dilation, low, high}, attributes, engine, forward, true},
            arguments);
    return made<dnnl::convolution_backward_weights>(
        kind, {{algorithm, x, w, y, stride, dilation, low, high}, attributes, engine, forward, true},
        arguments);
}

} // namespace trivium::kernels
