// Convolutions on the host: oneDNN for f32 and bf16, in parts of a fixed size that threads compute one by
// one, so that no sum depends on the number of threads.
#include "kernels/general/convolution.hpp"

#include "dnnl_calls.hpp"
#include "row_parallel.hpp"

#include <array>

namespace trivium::kernels {

/// An operand or the result. Its memory layout in the primitive is the library's choice.
struct ConvTensor {
    int argument = 0;              ///< of the primitive
    dnnl::memory::desc plain;      ///< one part of the caller's tensor
    dnnl::memory::desc chosen;     ///< the primitive's
    i64 step = 0;                  ///< bytes between parts in the caller's tensor; 0: all parts share it
    Bytes place = 0;               ///< in the scratch: of all workers if shared, otherwise of a worker
    dnnl::reorder reorder;         ///< between the two, if they differ
    dnnl::memory::desc scratchpad; ///< of the reorder

    bool same() const { return plain == chosen; }
};

namespace {

using Dims = dnnl::memory::dims;

/// The largest divisor of n that is at most `most`.
i64 divisor_of(i64 n, i64 most)
{
    i64 divisor = std::max<i64>(1, std::min(n, most));
    while (n % divisor != 0)
        --divisor;
    return divisor;
}

/// [dims…, extents…], row-major in a tensor that has `whole` in the second dimension.
dnnl::memory::desc part_of(DType type, Dims dims, i64 whole, const i64* extents, int spatial)
{
    dims.insert(dims.end(), extents, extents + spatial);
    Dims strides(dims.size());
    i64 stride = 1;
    for (std::size_t d = dims.size(); d-- > 0; stride *= dims[d])
        strides[d] = stride;
    strides[0] = strides[1] * whole;
    return {dims, dnnl_type(type), strides};
}

dnnl::memory::desc any_layout(const dnnl::memory::desc& desc)
{
    return {desc.dims(), desc.data_type(), dnnl::memory::format_tag::any};
}

} // namespace

struct Convolution::Impl {
    ConvKind kind = ConvKind::forward;
    ConvShape shape;
    DType type = DType::f32;
    bool library = false;
    i64 parts = 1;                     ///< of the batch; for grad_w of the groups, or of the channels of y
    i64 workers = 1;                   ///< of them at a time
    std::array<ConvTensor, 3> tensors; ///< first, second, result
    dnnl::primitive primitive;
    dnnl::memory::desc scratchpad;
    Bytes scratchpad_place = 0, shared = 0, each = 0; ///< of the scratch: for all workers, for each

    Bytes scratch() const { return library ? shared + workers * each : 0; }

    /// Whether oneDNN has such convolutions; `high` becomes the padding after x.
    bool is_supported(Dims& high) const
    {
        bool fits = (type == DType::f32 || type == DType::bf16) && shape.b * shape.c * shape.o > 0;
        for (int d = 0; d < shape.spatial; ++d) {
            const i64 span = (shape.k[d] - 1) * shape.dilation[d] + 1;
            const i64 after = (shape.out[d] - 1) * shape.stride[d] + span - shape.in[d] - shape.low[d];
            high.push_back(std::max<i64>(0, after));
            fits = fits && shape.base[d] == 1 && shape.in[d] > 0 && shape.k[d] > 0 && shape.out[d] > 0 &&
                   shape.low[d] >= 0 && -after < shape.stride[d] && shape.low[d] < span && after < span;
        }
        return fits;
    }

    /// Descriptions of x, w and y for one part, with their steps.
    std::array<ConvTensor, 3> describe()
    {
        const ConvShape& s = shape;
        const Bytes size = size_of(type);
        i64 in = 1, out = 1, taps = 1;
        for (int d = 0; d < s.spatial; ++d) {
            in *= s.in[d];
            out *= s.out[d];
            taps *= s.k[d];
        }
        constexpr i64 usual_parts = 16, least_channels = 16;
        i64 b = s.b, groups = s.groups, o = s.o / s.groups;
        const i64 c = s.c / s.groups;
        if (kind != ConvKind::grad_w)
            b = divisor_of(s.b, ceil_div(s.b, usual_parts));
        else if (s.groups > 1)
            groups = divisor_of(s.groups, ceil_div(s.groups, usual_parts));
        else
            o = divisor_of(o, std::max(least_channels, ceil_div(o, usual_parts)));
        parts = s.b / b * (s.groups / groups) * (s.o / s.groups / o);
        ConvTensor x, w, y;
        x.argument = kind == ConvKind::grad_x ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
        w.argument = kind == ConvKind::grad_w ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
        y.argument = kind == ConvKind::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
        x.plain = part_of(type, {b, groups * c}, s.c, s.in, s.spatial);
        w.plain = groups > 1 ? part_of(type, {groups, o, c}, o, s.k, s.spatial)
                             : part_of(type, {o, c}, c, s.k, s.spatial);
        y.plain = part_of(type, {b, groups * o}, s.o, s.out, s.spatial);
        if (kind != ConvKind::grad_w) {
            x.step = b * s.c * in * size;
            y.step = b * s.o * out * size;
        } else {
            x.step = s.groups > 1 ? groups * c * in * size : 0;
            y.step = groups * o * out * size;
            w.step = groups * o * c * taps * size;
        }
        return {x, w, y};
    }

    /// Returns false if there is no such primitive.
    template <class Primitive>
    bool set(const typename Primitive::primitive_desc& desc, const std::array<ConvTensor, 3>& order)
    {
        if (!desc)
            return false;
        primitive = Primitive(desc);
        scratchpad = desc.scratchpad_desc();
        tensors = order;
        for (ConvTensor& tensor : tensors)
            tensor.chosen = desc.query_md(dnnl::query::exec_arg_md, tensor.argument);
        place_tensors();
        return true;
    }

    /// Returns false if oneDNN does not support the convolution on this processor.
    bool make(const Dims& high)
    {
        const auto [x, w, y] = describe();
        const Dims stride(shape.stride, shape.stride + shape.spatial),
            low(shape.low, shape.low + shape.spatial);
        Dims dilation(shape.dilation, shape.dilation + shape.spatial);
        for (auto& d : dilation)
            --d;
        dnnl::primitive_attr attributes;
        attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        const auto algorithm = dnnl::algorithm::convolution_direct;
        const auto any_x = any_layout(x.plain), any_w = any_layout(w.plain), any_y = any_layout(y.plain);
        const dnnl::convolution_forward::primitive_desc forward(
            {dnnl::prop_kind::forward_training, algorithm, any_x, any_w, any_y, stride, dilation, low, high},
            attributes, dnnl_engine(), true);
        if (kind == ConvKind::forward || !forward)
            return set<dnnl::convolution_forward>(forward, {x, w, y});
        const auto& engine = dnnl_engine();
        if (kind == ConvKind::grad_x)
            return set<dnnl::convolution_backward_data>(
                {{algorithm, any_x, any_w, any_y, stride, dilation, low, high},
                 attributes,
                 engine,
                 forward,
                 true},
                {y, w, x});
        return set<dnnl::convolution_backward_weights>(
            {{algorithm, any_x, any_w, any_y, stride, dilation, low, high},
             attributes,
             engine,
             forward,
             true},
            {y, x, w});
    }

    void place_tensors()
    {
        const auto take = [](Bytes& end, std::size_t size) {
            const Bytes place = end;
            end += round_up(static_cast<Bytes>(size), 64);
            return place;
        };
        std::size_t most_pad = scratchpad.get_size(); // one place for the convolution and the reorders
        for (ConvTensor& tensor : tensors) {
            if (tensor.same())
                continue;
            const bool is_result = &tensor == &tensors[2];
            tensor.place = take(tensor.step == 0 ? shared : each, tensor.chosen.get_size());
            dnnl::primitive_attr attributes;
            attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
            const auto &from = is_result ? tensor.chosen : tensor.plain,
                       &to = is_result ? tensor.plain : tensor.chosen;
            const dnnl::reorder::primitive_desc desc(dnnl_engine(), from, dnnl_engine(), to, attributes);
            tensor.reorder = dnnl::reorder(desc);
            tensor.scratchpad = desc.scratchpad_desc();
            most_pad = std::max(most_pad, tensor.scratchpad.get_size());
        }
        scratchpad_place = take(each, most_pad);
    }

    void reorder(const ConvTensor& tensor, void* from, void* to, bool is_result, void* pad) const
    {
        const auto &from_desc = is_result ? tensor.chosen : tensor.plain,
                   &to_desc = is_result ? tensor.plain : tensor.chosen;
        dnnl::stream stream(dnnl_engine());
        tensor.reorder.execute(stream,
                               {{DNNL_ARG_FROM, dnnl::memory(from_desc, dnnl_engine(), from)},
                                {DNNL_ARG_TO, dnnl::memory(to_desc, dnnl_engine(), to)},
                                {DNNL_ARG_SCRATCHPAD, dnnl::memory(tensor.scratchpad, dnnl_engine(), pad)}});
        stream.wait();
    }

    void run_part(i64 part, char* const* callers, char* scratch_shared, char* scratch_own) const
    {
        char* at[3];
        for (std::size_t k = 0; k < 3; ++k) {
            const ConvTensor& tensor = tensors[k];
            char* const mine = callers[k] + part * tensor.step;
            at[k] = tensor.same() ? mine : (tensor.step == 0 ? scratch_shared : scratch_own) + tensor.place;
            if (!tensor.same() && tensor.step != 0 && k < 2)
                reorder(tensor, mine, at[k], false, scratch_own + scratchpad_place);
        }
        const auto memory = [&](std::size_t k) {
            return dnnl::memory(tensors[k].chosen, dnnl_engine(), at[k]);
        };
        dnnl::stream stream(dnnl_engine());
        const dnnl::memory pad(scratchpad, dnnl_engine(), scratch_own + scratchpad_place);
        primitive.execute(stream, {{tensors[0].argument, memory(0)},
                                   {tensors[1].argument, memory(1)},
                                   {tensors[2].argument, memory(2)},
                                   {DNNL_ARG_SCRATCHPAD, pad}});
        stream.wait();
        if (!tensors[2].same())
            reorder(tensors[2], at[2], callers[2] + part * tensors[2].step, true,
                    scratch_own + scratchpad_place);
    }

    void run_library(const Exec& exec, const void* first, const void* second, void* result,
                     char* scratch) const
    {
        const ThreadScope scope(1); // of oneDNN: each worker is one thread
        char* const callers[3] = {static_cast<char*>(const_cast<void*>(first)),
                                  static_cast<char*>(const_cast<void*>(second)), static_cast<char*>(result)};
        for (std::size_t k = 0; k < 2; ++k)
            if (!tensors[k].same() && tensors[k].step == 0)
                reorder(tensors[k], callers[k], scratch + tensors[k].place, false,
                        scratch + shared + scratchpad_place);
        for_tasks(exec, "convolution", parts, workers, [&](const Row&, i64 part, i64 worker) {
            run_part(part, callers, scratch, scratch + shared + worker * each);
        });
    }
};

Convolution::Convolution(ConvKind kind, const ConvShape& shape, DType type, int threads, Bytes most_scratch)
    : impl_(std::make_unique<Impl>())
{
    impl_->kind = kind;
    impl_->shape = shape;
    impl_->type = type;
    Dims high;
    if (!impl_->is_supported(high))
        return;
    const ThreadScope scope(1);
    impl_->library = checked_dnnl("making a convolution", [&] { return impl_->make(high); });
    impl_->workers = task_workers(threads, impl_->parts);
    while (impl_->workers > 1 && impl_->scratch() > most_scratch)
        --impl_->workers;
}
Convolution::Convolution(Convolution&&) noexcept = default;
Convolution& Convolution::operator=(Convolution&&) noexcept = default;
Convolution::~Convolution() = default;

Bytes Convolution::scratch_bytes() const { return impl_->scratch(); }

bool Convolution::by_library() const { return impl_->library; }

void Convolution::run(const Exec& exec, const void* first, const void* second, void* result,
                      Scratch scratch) const
{
    if (!impl_->library)
        return plain_convolution(exec, impl_->kind, impl_->shape, impl_->type, first, second, result);
    TRV_CHECK(scratch.size >= impl_->scratch(), "a convolution needs ", impl_->scratch(),
              " B of scratch and got ", scratch.size);
    checked_dnnl("running a convolution",
                 [&] { impl_->run_library(exec, first, second, result, static_cast<char*>(scratch.data)); });
}

} // namespace trivium::kernels
