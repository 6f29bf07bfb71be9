// Convolutions on the host: oneDNN for f32 and bf16, in blocks that threads compute one by one. The blocks
// follow from the shape, and each is computed by one thread, so that no sum depends on the number of threads.
#include "kernels/general/convolution.hpp"

#include "convolution_blocks.hpp"
#include "convolution_primitive.hpp"
#include "dnnl_calls.hpp"
#include "row_parallel.hpp"

#include <bit>

namespace trivium::kernels {

namespace {

using Dims = dnnl::memory::dims;

/// The runs of `length` elements, each reversed.
template <class T>
void reverse_runs(const Exec& exec, i64 runs, i64 length, const void* from, void* to)
{
    const T* const source = static_cast<const T*>(from);
    T* const target = static_cast<T*>(to);
    for_parts(exec, "reverse_taps", runs, 64, [=](i64 begin, i64 end) {
        for (i64 r = begin; r < end; ++r)
            std::reverse_copy(source + r * length, source + (r + 1) * length, target + r * length);
    });
}

void add_to(float* sum, const float* part, i64 n)
{
    for (i64 i = 0; i < n; ++i)
        sum[i] += part[i];
}

/// Which gradient, or the convolution itself, a turned convolution computes.
ConvKind turned_kind(ConvKind kind)
{
    return kind == ConvKind::forward  ? ConvKind::grad_x
           : kind == ConvKind::grad_x ? ConvKind::forward
                                      : ConvKind::grad_w;
}

} // namespace

struct Convolution::Impl {
    /// The caller's tensors, and what the library computes; the latter is turned if x has gaps.
    ConvKind asked = ConvKind::forward, kind = ConvKind::forward;
    ConvShape asked_shape, shape;
    DType type = DType::f32;
    bool library = false, is_turned = false;
    int threads = 1;

    /// x or y of a block.
    struct Side {
        LayoutCopy copy;
        bool same = false; ///< the library reads or writes the caller's tensor
    };
    /// Blocks of one shape.
    struct Variant {
        ConvShape shape;
        ConvPrimitive primitive;
        Side x, y;
    };
    std::vector<Variant> variants;
    struct Block {
        std::size_t variant;
        i64 x, y; ///< bytes from the beginning of the caller's tensor
    };
    std::vector<Block> blocks;

    /// grad_w computes the weights in pieces, of the channels of y or of the groups. A piece is the sum of
    /// chains, each the sum of neighbouring blocks.
    i64 pieces = 1, chains = 1;
    i64 piece_x = 0, piece_w = 0, piece_y = 0; ///< bytes between pieces in the caller's tensors
    LayoutCopy weights;                        ///< from the caller's, for grad_w to them
    bool same_weights = false;
    i64 weight_count = 0; ///< elements of a piece in the library's layout

    // Places in the scratch, which has `shared` bytes for all workers, then `each` for each.
    Bytes reversed = 0, shared_w = 0, shared_pad = 0, shared = 0;
    Bytes own_x = 0, own_y = 0, own_w = 0, own_pad = 0, each = 0;
    i64 workers = 1;

    Bytes scratch() const { return library ? shared + workers * each : 0; }
    bool for_weights() const { return kind == ConvKind::grad_w; }
    bool has_several_blocks() const { return static_cast<i64>(blocks.size()) > chains; } ///< in some chain
    i64 tasks() const { return for_weights() ? pieces * chains : static_cast<i64>(blocks.size()); }
    i64 taps() const { return shape.k[0] * shape.k[1] * shape.k[2]; }

    /// Whether oneDNN may have such a convolution, turned or not.
    bool find_form()
    {
        kind = asked;
        shape = asked_shape;
        if (type != DType::f32 && type != DType::bf16)
            return false;
        if (supported_by_library(shape))
            return true;
        for (int d = 0; d < shape.spatial; ++d)
            if (shape.stride[d] != 1)
                return false;
        is_turned = true;
        kind = turned_kind(asked);
        shape = turned(asked_shape);
        return supported_by_library(shape);
    }

    /// Pieces and chains of grad_w: as many tasks as threads may want, of useful sizes.
    void divide_weights()
    {
        constexpr i64 usual_tasks = 16, least_channels = 16, least_positions = 128;
        constexpr Bytes most_sums = Bytes{16} << 20; // bytes of the sums of all chains
        const i64 divided = shape.groups > 1 ? shape.groups : shape.o, channels = shape.o;
        // As the library lays them out, and plans expect (ir: convolution_weights).
        const auto bytes_of = [&](const ConvShape& s) -> Bytes {
            return 4 * round_up(s.o, 16) * round_up(s.c / s.groups, 16) * taps();
        };
        i64 positions = shape.b;
        for (int d = 0; d < shape.spatial; ++d)
            positions *= shape.out[d];
        chains = static_cast<i64>(std::bit_floor(static_cast<u64>(std::clamp<i64>(
            std::min(most_sums / bytes_of(shape), positions / least_positions), 1, usual_tasks))));
        if (shape.c <= colours) // then each piece would prepare all of x
            return;
        for (const i64 unit : {least_channels, i64{1}}) // whole vectors of channels if there are such pieces
            for (i64 n = 1; pieces * chains < usual_tasks && n <= divided && channels / n >= least_channels;
                 ++n)
                if (divided % n == 0 && channels / n % unit == 0)
                    pieces = n;
        const Bytes sums = pieces * bytes_of(piece_of(shape)); // whose channels are rounded apart
        while (chains > 1 && chains * sums > most_sums)
            chains /= 2;
    }

    /// Boxes that are worth their copies: they must have some work, all the more if threads are many.
    i64 useful_boxes() const
    {
        constexpr double least_work = 4e6, least_per_element = 500;
        const double of_output = 2.0 * static_cast<double>(shape.c / shape.groups * taps());
        double work = of_output * static_cast<double>(shape.b * shape.o);
        for (int d = 0; d < shape.spatial; ++d)
            work *= static_cast<double>(shape.out[d]);
        return std::clamp<i64>(static_cast<i64>(work / least_work), 1,
                               of_output < least_per_element ? 8 : 16);
    }

    /// The part of `s` that a piece computes.
    ConvShape piece_of(ConvShape s) const
    {
        s.o /= pieces;
        if (s.groups > 1) {
            s.groups /= pieces;
            s.c /= pieces;
        }
        return s;
    }

    /// The caller's x or y: what a block of shape `part` has of it.
    dnnl::memory::desc view(const ConvShape& part, bool of_x) const
    {
        const i64 *whole = of_x ? shape.in : shape.out, *extents = of_x ? part.in : part.out;
        const int rank = shape.spatial + 2;
        Dims dims{part.b, of_x ? part.c : part.o}, strides(static_cast<std::size_t>(rank));
        dims.insert(dims.end(), extents, extents + shape.spatial);
        i64 stride = 1;
        for (int d = rank - 1; d >= 0; --d) {
            strides[static_cast<std::size_t>(d)] = stride;
            stride *= d >= 2 ? whole[d - 2] : of_x ? shape.c : shape.o;
        }
        return {dims, dnnl_type(type), strides};
    }

    /// The weights of a piece in the caller's tensor.
    dnnl::memory::desc view_of_weights() const
    {
        const ConvShape piece = piece_of(shape);
        const i64 c = piece.c / piece.groups, o = piece.o / piece.groups, k = taps(),
                  whole_o = shape.o / shape.groups;
        Dims dims{o, c}, strides = is_turned ? Dims{k, whole_o * k} : Dims{c * k, k};
        if (piece.groups > 1) {
            dims.insert(dims.begin(), piece.groups);
            strides.insert(strides.begin(), c * o * k);
        }
        i64 stride = k;
        for (int d = 0; d < shape.spatial; ++d) {
            dims.push_back(shape.k[d]);
            strides.push_back(stride /= shape.k[d]);
        }
        return {dims, dnnl_type(type), strides};
    }

    /// The variant for blocks of this shape. False if the library has none.
    bool find_variant(const ConvShape& of_block, std::size_t& index)
    {
        const ConvShape part = piece_of(of_block);
        for (index = 0; index < variants.size(); ++index)
            if (variants[index].shape == part)
                return true;
        const bool first = variants.empty();
        auto made =
            make_convolution(kind, part, type, first ? nullptr : &variants[0].primitive.layouts[conv_w]);
        if (!made)
            return false;
        const ThreadScope one(1);
        Variant variant{part, std::move(*made), {}, {}};
        const auto side = [&](Side& of, ConvRole role) {
            const auto plain = view(part, role == conv_x), chosen = variant.primitive.layouts[role];
            of.same = plain == chosen;
            if (!of.same)
                of.copy = role == result_role(kind) ? LayoutCopy(chosen, plain) : LayoutCopy(plain, chosen);
        };
        side(variant.x, conv_x);
        side(variant.y, conv_y);
        variants.push_back(std::move(variant));
        return true;
    }

    /// False if the library cannot compute it.
    bool make()
    {
        ConvBlockLimits limits;
        limits.boxes = useful_boxes();
        if (for_weights()) {
            divide_weights();
            limits.count = chains;
        }
        const std::vector<ConvBlock> parts = blocks_of(kind, shape, limits);
        chains = std::min<i64>(chains, static_cast<i64>(parts.size()));
        std::size_t index = 0;
        if (!find_variant(parts[parts.size() / 2].shape, index)) // it chooses the layout of the weights
            return false;
        const Bytes size = size_of(type);
        for (const ConvBlock& part : parts) {
            if (!find_variant(part.shape, index))
                return false;
            blocks.push_back({index, place_of(shape.in, shape.c, part.sample, part.x_begin) * size,
                              place_of(shape.out, shape.o, part.sample, part.y_begin) * size});
        }
        finish_weights();
        place_tensors();
        return true;
    }

    /// Elements before a position in the caller's x or y.
    i64 place_of(const i64* extents, i64 channels, i64 sample, const i64* begin) const
    {
        i64 in_channel = 0, volume = 1;
        for (int d = 0; d < shape.spatial; ++d) {
            in_channel = in_channel * extents[d] + begin[d];
            volume *= extents[d];
        }
        return sample * channels * volume + in_channel;
    }

    void finish_weights()
    {
        const auto plain = view_of_weights(), chosen = variants[0].primitive.layouts[conv_w];
        same_weights = plain == chosen && !for_weights();
        const ThreadScope all(for_weights() ? 1 : threads);
        if (!same_weights)
            weights = for_weights() ? LayoutCopy(chosen, plain) : LayoutCopy(plain, chosen);
        weight_count = static_cast<i64>(chosen.get_size()) / 4;
        const Bytes size = size_of(type);
        i64 in = 1, out = 1;
        for (int d = 0; d < shape.spatial; ++d) {
            in *= shape.in[d];
            out *= shape.out[d];
        }
        const ConvShape piece = piece_of(shape);
        const i64 channels_of_weights = piece.groups * (piece.c / piece.groups) * (piece.o / piece.groups);
        piece_x = shape.groups > 1 ? piece.c * in * size : 0;
        piece_y = piece.o * out * size;
        piece_w = (is_turned && shape.groups == 1 ? piece.o : channels_of_weights) * taps() * size;
    }

    void place_tensors()
    {
        const auto take = [](Bytes& end, std::size_t size) {
            const Bytes place = end;
            end += round_up(static_cast<Bytes>(size), 64);
            return place;
        };
        const std::size_t w = variants[0].primitive.layouts[conv_w].get_size();
        const auto all_w =
            static_cast<std::size_t>(shape.o * (shape.c / shape.groups) * taps() * size_of(type));
        if (is_turned)
            reversed = take(shared, all_w);
        if (!for_weights()) {
            if (!same_weights)
                shared_w = take(shared, w);
        } else if (chains > 1) {
            shared_w = take(shared, static_cast<std::size_t>(pieces * chains) * w);
        }
        std::size_t x = 0, y = 0, pad = 0;
        for (const Variant& v : variants) {
            pad = std::max({pad, v.primitive.pad.get_size(), v.x.same ? 0 : v.x.copy.pad_bytes(),
                            v.y.same ? 0 : v.y.copy.pad_bytes()});
            x = std::max(x, v.x.same ? 0 : v.primitive.layouts[conv_x].get_size());
            y = std::max(y, v.y.same ? 0 : v.primitive.layouts[conv_y].get_size());
        }
        if (for_weights())
            pad = std::max(pad, weights.pad_bytes());
        else if (!same_weights)
            shared_pad = take(shared, weights.pad_bytes());
        own_x = take(each, x);
        own_y = take(each, y);
        if (for_weights()) // a block's, and the sum of a chain
            own_w = take(each, (has_several_blocks() ? w : 0) + (chains == 1 ? w : 0));
        own_pad = take(each, pad);
    }

    struct Tensors {
        char *x, *w, *y;
    };

    void run_block(const Block& block, i64 piece, const Tensors& t, void* w, char* own) const
    {
        const Variant& v = variants[block.variant];
        char *const x = t.x + block.x + piece * piece_x, *const y = t.y + block.y + piece * piece_y;
        const std::array<void*, 3> at{v.x.same ? x : own + own_x, w, v.y.same ? y : own + own_y};
        void* const pad = own + own_pad;
        const ConvRole result = result_role(kind);
        if (!v.x.same && result != conv_x)
            v.x.copy.run(x, at[conv_x], pad);
        if (!v.y.same && result != conv_y)
            v.y.copy.run(y, at[conv_y], pad);
        v.primitive.run(at, pad);
        if (!v.x.same && result == conv_x)
            v.x.copy.run(at[conv_x], x, pad);
        if (!v.y.same && result == conv_y)
            v.y.copy.run(at[conv_y], y, pad);
    }

    /// One chain of a piece of the weights.
    void run_chain(i64 task, const Tensors& t, char* shared_sums, char* own) const
    {
        const i64 piece = task / chains, chain = task % chains, n = static_cast<i64>(blocks.size());
        auto* const part = reinterpret_cast<float*>(own + own_w);
        auto* const sum =
            chains > 1 ? reinterpret_cast<float*>(shared_sums) + (chain * pieces + piece) * weight_count
                       : part + (has_several_blocks() ? weight_count : 0);
        const i64 first = n * chain / chains;
        for (i64 b = first; b < n * (chain + 1) / chains; ++b) {
            run_block(blocks[static_cast<std::size_t>(b)], piece, t, b == first ? sum : part, own);
            if (b > first)
                add_to(sum, part, weight_count);
        }
        if (chains == 1)
            weights.run(sum, t.w + piece * piece_w, own + own_pad);
    }

    /// Adds up the chains.
    void join_chains(const Exec& exec, const Tensors& t, char* shared_sums, char* own) const
    {
        auto* const sums = reinterpret_cast<float*>(shared_sums);
        const i64 n = pieces * weight_count;
        for_parts(exec, "convolution", n, 4096, [&](i64 begin, i64 end) {
            for (i64 chain = 1; chain < chains; ++chain)
                add_to(sums + begin, sums + chain * n + begin, end - begin);
        });
        for (i64 piece = 0; piece < pieces; ++piece)
            weights.run(sums + piece * weight_count, t.w + piece * piece_w, own + own_pad);
    }

    void run_library(const Exec& exec, const void* first, const void* second, void* result,
                     char* scratch) const
    {
        char *const a = static_cast<char*>(const_cast<void*>(first)),
                    *const b = static_cast<char*>(const_cast<void*>(second)),
                    *const c = static_cast<char*>(result);
        Tensors t = asked == ConvKind::forward  ? Tensors{a, b, c}
                    : asked == ConvKind::grad_x ? Tensors{c, b, a}
                                                : Tensors{b, c, a};
        char* const caller_w = t.w;
        if (is_turned) {
            std::swap(t.x, t.y);
            t.w = scratch + reversed;
            if (!for_weights())
                reverse(exec, caller_w, t.w);
        }
        char* const own = scratch + shared;
        if (!for_weights() && !same_weights) {
            const ThreadScope all(threads);
            weights.run(t.w, scratch + shared_w, scratch + shared_pad);
        }
        {
            const ThreadScope one(1); // each worker is one thread
            void* const w = same_weights ? t.w : scratch + shared_w;
            for_tasks(exec, "convolution", tasks(), workers, [&](const Row&, i64 task, i64 worker) {
                if (for_weights())
                    run_chain(task, t, scratch + shared_w, own + worker * each);
                else
                    run_block(blocks[static_cast<std::size_t>(task)], 0, t, w, own + worker * each);
            });
            if (chains > 1)
                join_chains(exec, t, scratch + shared_w, own);
        }
        if (is_turned && for_weights())
            reverse(exec, t.w, caller_w);
    }

    void reverse(const Exec& exec, const void* from, void* to) const
    {
        const i64 runs = shape.o * (shape.c / shape.groups);
        if (type == DType::bf16)
            reverse_runs<std::uint16_t>(exec, runs, taps(), from, to);
        else
            reverse_runs<std::uint32_t>(exec, runs, taps(), from, to);
    }
};

Convolution::Convolution(ConvKind kind, const ConvShape& shape, DType type, int threads, Bytes most_scratch)
    : impl_(std::make_unique<Impl>())
{
    impl_->asked = kind;
    impl_->asked_shape = shape;
    impl_->type = type;
    impl_->threads = threads;
    if (!impl_->find_form())
        return;
    impl_->library = checked_dnnl("making a convolution", [&] { return impl_->make(); });
    impl_->workers = task_workers(threads, impl_->library ? impl_->tasks() : 1);
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
        return plain_convolution(exec, impl_->asked, impl_->asked_shape, impl_->type, first, second, result);
    TRV_CHECK(scratch.size >= impl_->scratch(), "a convolution needs ", impl_->scratch(),
              " B of scratch and got ", scratch.size);
    checked_dnnl("running a convolution",
                 [&] { impl_->run_library(exec, first, second, result, static_cast<char*>(scratch.data)); });
}

} // namespace trivium::kernels
