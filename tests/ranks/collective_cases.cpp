#include "base/bf16.hpp"
#include "comm_suite.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

using namespace trivium;

namespace {

constexpr std::byte untouched{0xa5};

void put(DType type, std::byte* data, i64 index, double value)
{
    const auto store = [&](auto element) {
        std::memcpy(data + index * static_cast<i64>(sizeof element), &element, sizeof element);
    };
    type == DType::f64    ? store(value)
    : type == DType::f32  ? store(static_cast<float>(value))
    : type == DType::bf16 ? store(bf16(static_cast<float>(value)))
                          : store(static_cast<std::int32_t>(value));
}

template <class T>
T combined(Combine combine, T a, T b)
{
    switch (combine) {
    case Combine::sum: return a + b;
    case Combine::product: return a * b;
    case Combine::max:
        return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : b > a ? b : a;
    case Combine::min:
        return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : b < a ? b : a;
    default: TRV_CHECK(false, "no order of additions");
    }
    return a;
}

double get(DType type, const std::byte* data, i64 index)
{
    const auto load = [&](auto element) {
        std::memcpy(&element, data + index * static_cast<i64>(sizeof element), sizeof element);
        return element;
    };
    return type == DType::f64   ? load(double{})
           : type == DType::f32 ? load(float{})
           : type == DType::i32 ? load(std::int32_t{})
                                : double{load(bf16{})};
}

/// Signs and sizes that make a sum depend on its order; for lse some of it -infinity, for max and min a few
/// NaNs, infinities and zeros of both signs.
double value_of(DType type, int rank, std::size_t operand, i64 index, Combine combine)
{
    u64 x = static_cast<u64>(index) * 0x9e3779b97f4a7c15u + static_cast<u64>(rank) * 0xbf58476d1ce4e5b9u +
            operand * 77777;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    if (combine == Combine::lse && (index % 5 == 0 || (x >> 20) % 3 == 0))
        return -std::numeric_limits<double>::infinity();
    if (type == DType::i32) // all 32 bits, so that sums and products wrap
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(x));
    if (combine == Combine::max || combine == Combine::min) {
        const double rare[] = {std::numeric_limits<double>::quiet_NaN(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::infinity(), 0.0, -0.0};
        if ((x >> 20) % 64 < 5 || index % 11 == 0)
            return rare[index % 11 == 0 ? 3 + (x >> 8) % 2 : (x >> 20) % 64];
    }
    return (static_cast<double>(x >> 11) * 0x1p-53 - 0.5) * std::exp2(static_cast<double>(x % 8));
}

std::int32_t wrapped(Combine combine, std::int32_t a, std::int32_t b)
{
    const i64 x = a, y = b; // exact in 64 bits
    const i64 exact = combine == Combine::sum       ? x + y
                      : combine == Combine::product ? x * y
                      : combine == Combine::max     ? std::max(x, y)
                                                    : std::min(x, y);
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<u64>(exact)));
}

struct Extents {
    i64 outer, extent, inner;
};

/// One rank's side of a collective with guarded memory, and the expected result.
class Trial {
public:
    struct Options {
        CollectiveKind kind;
        DType type = DType::f32;
        Combine combine = Combine::sum;
        bool in_place = false;
        int scratch = 0; ///< 0: minimum, 1: medium, 2: best
        bool deterministic = true;
    };

    Trial(Ground& ground, Options options, std::vector<Extents> extents)
        : ground_(ground), comm_(ground.comm()), options_(options), extents_(std::move(extents))
    {
        CollectiveShape shape{options.kind, options.type, options.combine, {}};
        for (std::size_t k = 0; k < extents_.size(); ++k) {
            whole_.push_back(whole(k, comm_.rank()));
            out_.emplace_back(
                static_cast<std::size_t>((part_out() ? part_elements(k) : elements(k)) * size()) + guard,
                untouched);
            in_.push_back(options.kind == CollectiveKind::all_gather ? part(whole_.back(), k, comm_.rank())
                                                                     : whole_.back());
            out_memory_.push_back(ground.allocate(static_cast<Bytes>(out_[k].size())));
            in_memory_.push_back(options.in_place ? out_memory_[k]
                                                  : ground.allocate(static_cast<Bytes>(in_[k].size())));
            shape.operands.push_back({extents_[k].outer, extents_[k].extent, extents_[k].inner,
                                      in_memory_[k].get(), out_memory_[k].get()});
        }
        const CollectiveScratch needs = collective_scratch(shape, comm_.size());
        TRV_CHECK(needs.least <= needs.best && needs.least <= Bytes{2} * 4096 * comm_.size(), "a scratch of ",
                  needs.least);
        scratch_bytes_ = options.scratch == 0   ? needs.least
                         : options.scratch == 1 ? std::min(needs.best, needs.least * 3 + 64)
                                                : needs.best;
        scratch_ = ground.allocate(scratch_bytes_ + guard);
        collective_ =
            ground.collective(std::move(shape), {scratch_.get(), scratch_bytes_}, options.deterministic);
        refill();
    }

    Ground::Move& collective() { return *collective_; }

    /// Resets inputs and outputs for another run.
    void refill()
    {
        for (std::size_t k = 0; k < extents_.size(); ++k) {
            std::fill(out_[k].begin(), out_[k].end(), untouched);
            if (options_.in_place)
                std::copy(in_[k].begin(), in_[k].end(), out_[k].begin());
            else
                ground_.write(in_memory_[k].get(), in_[k]);
            ground_.write(out_memory_[k].get(), out_[k]);
        }
        ground_.write(scratch_.get(), Bits(static_cast<std::size_t>(scratch_bytes_ + guard), untouched));
    }

    void check()
    {
        for (std::size_t k = 0; k < extents_.size(); ++k) {
            out_[k] = ground_.read(out_memory_[k].get(), static_cast<Bytes>(out_[k].size()));
            if (expected_.size() == k)
                expected_.push_back(reference(k));
            const Bits& expected = expected_[k];
            TRV_CHECK(
                std::all_of(out_[k].end() - guard, out_[k].end(), [](std::byte b) { return b == untouched; }),
                what(k), ": wrote beyond its output");
            if (options_.combine == Combine::lse) {
                for (i64 i = 0; i < static_cast<i64>(expected.size()) / size(); ++i)
                    TRV_CHECK(
                        alike(get(options_.type, out_[k].data(), i), get(options_.type, expected.data(), i)),
                        what(k), ": element ", i, " is ", get(options_.type, out_[k].data(), i), ", not ",
                        get(options_.type, expected.data(), i));
            } else if (!options_.deterministic && options_.combine == Combine::sum &&
                       is_floating(options_.type)) {
                // bf16 may be rounded after each addition.
                const double relative = options_.type == DType::bf16 ? 0x1p-8 * comm_.size() : 1e-6;
                for (i64 i = 0; i < static_cast<i64>(expected.size()) / size(); ++i)
                    TRV_CHECK(std::abs(get(options_.type, out_[k].data(), i) -
                                       get(options_.type, expected.data(), i)) <= relative * largest_sum(),
                              what(k), ": element ", i, " is ", get(options_.type, out_[k].data(), i),
                              ", not ", get(options_.type, expected.data(), i));
            } else if (!std::equal(expected.begin(), expected.end(), out_[k].begin())) {
                for (i64 i = 0; i < static_cast<i64>(expected.size()) / size(); ++i) {
                    // A device writes another NaN than the host.
                    const double got = get(options_.type, out_[k].data(), i),
                                 want = get(options_.type, expected.data(), i);
                    TRV_CHECK((std::isnan(got) && std::isnan(want)) ||
                                  std::memcmp(&out_[k][static_cast<std::size_t>(i * size())],
                                              &expected[static_cast<std::size_t>(i * size())],
                                              static_cast<std::size_t>(size())) == 0,
                              what(k), ": other bits: element ", i, " is ", got, ", not ", want);
                }
            }
        }
        const Bits behind = ground_.read(scratch_.get() + scratch_bytes_, guard);
        TRV_CHECK(std::all_of(behind.begin(), behind.end(), [](std::byte b) { return b == untouched; }),
                  "wrote beyond its scratch");
    }

    using Bits = std::vector<std::byte>;

    const std::vector<Bits>& out() const { return out_; }
    /// The results by a plain loop, which check() makes if there are none from a trial of the same numbers.
    const std::vector<Bits>& expected() const { return expected_; }
    void expect(std::vector<Bits> expected) { expected_ = std::move(expected); }

private:
    static constexpr i64 guard = 16;

    /// Sum of magnitudes: values are below 64.
    double largest_sum() const { return 64.0 * comm_.size(); }

    i64 size() const { return size_of(options_.type); }
    bool part_out() const { return options_.kind == CollectiveKind::reduce_scatter; }
    i64 elements(std::size_t k) const { return extents_[k].outer * extents_[k].extent * extents_[k].inner; }
    i64 part_elements(std::size_t k) const
    {
        return extents_[k].outer * part_of(extents_[k].extent, comm_.size(), comm_.rank()).size *
               extents_[k].inner;
    }
    bool alike(double a, double b) const
    {
        const double tolerance = options_.type == DType::f64   ? 1e-13
                                 : options_.type == DType::f32 ? 1e-5
                                                               : 0.01;
        return a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
    }
    std::string what(std::size_t k) const
    {
        return str("kind ", static_cast<int>(options_.kind), " of ", name_of(options_.type), " operand ", k,
                   " [", extents_[k].outer, ",", extents_[k].extent, ",", extents_[k].inner, "], scratch ",
                   scratch_bytes_, ", ", comm_.size(), " ranks");
    }

    /// The whole operand of a rank: its contribution. In a gather, every rank contributes its shard of rank
    /// 0's operand.
    Bits whole(std::size_t k, int rank) const
    {
        const int source = options_.kind == CollectiveKind::all_gather ? 0 : rank;
        Bits bits(static_cast<std::size_t>(elements(k) * size()));
        for (i64 i = 0; i < elements(k); ++i)
            put(options_.type, bits.data(), i, value_of(options_.type, source, k, i, options_.combine));
        return bits;
    }
    Bits part(const Bits& whole, std::size_t k, int rank) const
    {
        const auto [outer, extent, inner] = extents_[k];
        const Stretch mine = part_of(extent, comm_.size(), rank);
        Bits bits;
        for (i64 o = 0; o < outer; ++o)
            for (i64 e = mine.begin; e < mine.begin + mine.size; ++e)
                bits.insert(bits.end(), whole.begin() + (o * extent + e) * inner * size(),
                            whole.begin() + (o * extent + e + 1) * inner * size());
        return bits;
    }

    Bits reference(std::size_t k) const
    {
        if (options_.kind == CollectiveKind::all_gather)
            return whole_[k];
        std::vector<Bits> all;
        for (int r = 0; r < comm_.size(); ++r)
            all.push_back(whole(k, r));
        Bits sums(all[0].size());
        for (i64 i = 0; i < elements(k); ++i) {
            double wide = get(options_.type, all[0].data(), i);
            if (options_.combine == Combine::lse) {
                double exponentials = 0;
                for (const Bits& each : all)
                    exponentials += std::exp(get(options_.type, each.data(), i));
                put(options_.type, sums.data(), i, std::log(exponentials));
                continue;
            }
            auto narrow = static_cast<float>(wide);
            auto whole = static_cast<std::int32_t>(options_.type == DType::i32 ? wide : 0);
            for (int r = 1; r < comm_.size(); ++r) { // the plain loop whose bits are guaranteed
                const double next = get(options_.type, all[r].data(), i);
                if (options_.type == DType::i32)
                    whole = wrapped(options_.combine, whole, static_cast<std::int32_t>(next));
                wide = combined(options_.combine, wide, next);
                narrow = combined(options_.combine, narrow, static_cast<float>(next));
            }
            put(options_.type, sums.data(), i,
                options_.type == DType::f64   ? wide
                : options_.type == DType::i32 ? static_cast<double>(whole)
                                              : double{narrow});
        }
        return part_out() ? part(sums, k, comm_.rank()) : sums;
    }

    Ground& ground_;
    Comm& comm_;
    Options options_;
    std::vector<Extents> extents_;
    std::vector<Bits> whole_, in_, out_, expected_;
    std::vector<std::shared_ptr<std::byte>> in_memory_, out_memory_;
    std::shared_ptr<std::byte> scratch_;
    Bytes scratch_bytes_ = 0;
    std::unique_ptr<Ground::Move> collective_;
};

using Tensors = std::vector<std::vector<Extents>>;

const Tensors& tensors()
{
    static const Tensors all{
        {{1, 1, 1}},
        {{1, 17, 1}},
        {{1, 3, 5}},
        {{2, 1, 3}},
        {{3, 10, 4}},
        {{4, 7, 1}},
        {{1, 0, 4}},
        {{5, 64, 33}},
        {{1, 5001, 3}},
        {{1, 16, 100}},
        {},
        {{2, 24, 50}},
        {{1, 48, 4}, {1, 24, 5}},
        {{1, 40, 1}, {1, 3, 1000}, {2, 9, 8}, {1, 1, 1}, {1, 0, 2}, {3, 33, 31}, {1, 4096, 1}},
        {{1, 2, 2}, {1, 5, 1}},
        {{1, 40037, 1}, {1, 5, 7}, {3, 10, 4}, {1, 9, 5000}, {1, 0, 3}}, // large ones are not packed
    };
    return all;
}

void run_on(const Tensors& operands, Ground& ground, CollectiveKind kind, const std::vector<DType>& types,
            Combine combine, bool in_place = false, bool deterministic = true)
{
    for (const DType type : types)
        for (const std::vector<Extents>& extents : operands) {
            if (ground.slow() && (type == DType::f64 || type == DType::i32) && types.size() > 1)
                continue;
            std::vector<Trial::Bits> first, expected;
            for (int scratch = 0; scratch <= 2; scratch += ground.slow() ? 2 : 1) {
                Trial trial(ground, {kind, type, combine, in_place, scratch, deterministic}, extents);
                trial.expect(std::move(expected));
                for (int run = 0; run < (ground.slow() ? 1 : 2); ++run) {
                    trial.refill();
                    trial.collective().start();
                    trial.collective().finish();
                    trial.check();
                    TRV_CHECK(trial.collective().progress(), "over, and yet not");
                    if (first.empty())
                        first = trial.out();
                    TRV_CHECK(first == trial.out(), "the bits depend on the scratch, or on the run");
                }
                expected = trial.expected();
            }
        }
}

void run_all(Ground& ground, CollectiveKind kind, const std::vector<DType>& types, Combine combine,
             bool in_place = false, bool deterministic = true)
{
    run_on(tensors(), ground, kind, types, combine, in_place, deterministic);
}

/// What sums have shown of all layouts holds for other combiners; here elements for vector instructions and
/// few.
void run_some(Ground& ground, CollectiveKind kind, const std::vector<DType>& types, Combine combine,
              bool in_place = false, bool deterministic = true)
{
    static const Tensors some{{{3, 10, 4}}, {{5, 64, 33}}, {{1, 48, 4}, {1, 24, 5}}, {{1, 2, 2}, {1, 5, 1}}};
    run_on(some, ground, kind, types, combine, in_place, deterministic);
}

const std::vector<DType> floats{DType::f32, DType::bf16, DType::f64};

void all_gathers(Ground& ground)
{
    run_all(ground, CollectiveKind::all_gather, {DType::f32, DType::bf16, DType::f64, DType::i32},
            Combine::sum);
}
void reduce_scatters(Ground& ground)
{
    run_all(ground, CollectiveKind::reduce_scatter, floats, Combine::sum);
}
void other_combiners(Ground& ground)
{
    constexpr CollectiveKind scatter = CollectiveKind::reduce_scatter, reduce = CollectiveKind::all_reduce;
    run_some(ground, scatter, floats, Combine::max);
    run_some(ground, reduce, {DType::f32}, Combine::max, true);
    run_some(ground, scatter, {DType::bf16}, Combine::min);
    run_some(ground, reduce, {DType::f64}, Combine::min, false, false);
    run_some(ground, scatter, {DType::f64}, Combine::product);
    run_some(ground, reduce, {DType::bf16}, Combine::product);
}
void of_integers(Ground& ground)
{
    constexpr CollectiveKind scatter = CollectiveKind::reduce_scatter, reduce = CollectiveKind::all_reduce;
    run_some(ground, scatter, {DType::i32}, Combine::sum, false, false);
    run_some(ground, reduce, {DType::i32}, Combine::sum, true);
    run_some(ground, reduce, {DType::i32}, Combine::max);
    run_some(ground, scatter, {DType::i32}, Combine::min);
    run_some(ground, reduce, {DType::i32}, Combine::product, false, false);
}
void all_reduces(Ground& ground) { run_all(ground, CollectiveKind::all_reduce, floats, Combine::sum); }
void all_reduces_in_place(Ground& ground)
{
    run_all(ground, CollectiveKind::all_reduce, floats, Combine::sum, true);
}
void sums_of_exponentials(Ground& ground)
{
    run_all(ground, CollectiveKind::all_reduce, floats, Combine::lse);
    run_all(ground, CollectiveKind::reduce_scatter, {DType::f32}, Combine::lse);
}

/// Not deterministic: sums of floating types may have another order, everything else is the same.
void fast(Ground& ground)
{
    for (const CollectiveKind kind :
         {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce})
        run_all(ground, kind, floats, Combine::sum, false, false);
    run_all(ground, CollectiveKind::all_reduce, {DType::f32}, Combine::lse, false, false);
    run_all(ground, CollectiveKind::all_reduce, {DType::f32}, Combine::sum, true, false);
}

/// The bits of a tensor do not depend on its bucket.
void buckets(Ground& ground)
{
    for (const CollectiveKind kind : {CollectiveKind::reduce_scatter, CollectiveKind::all_reduce})
        for (const int scratch : {0, 2}) {
            // Operand 0 has the same values in both cases: alone, and followed by others.
            Trial alone(ground, {kind, DType::f32, Combine::lse, false, scratch, true}, {{3, 50, 7}});
            Trial among(ground, {kind, DType::f32, Combine::lse, false, 2 - scratch, true},
                        {{3, 50, 7}, {1, 19, 3}, {2, 2, 2}});
            alone.collective().start();
            among.collective().start();
            alone.collective().finish();
            among.collective().finish();
            alone.check();
            among.check();
            TRV_CHECK(alone.out()[0] == among.out()[0], "the bits depend on the bucket");
        }
}

/// Several rounds each; every rank advances them in its own order.
void several_under_way(Ground& ground)
{
    Comm& comm = ground.comm();
    std::vector<std::unique_ptr<Trial>> trials;
    const std::vector<CollectiveKind> kinds{CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                            CollectiveKind::reduce_scatter};
    for (std::size_t i = 0; i < 9; ++i)
        trials.push_back(std::make_unique<Trial>(
            ground,
            Trial::Options{kinds[i % 3], DType::f32, Combine::sum, false, static_cast<int>(i % 2), true},
            tensors()[7 + i % 5]));
    for (const auto& trial : trials) {
        trial->collective().start();
        for (int r = 0; r < comm.rank() && !ground.on_device(); ++r)
            trials.front()->collective().progress();
    }
    TRV_CHECK(agree(comm, u64{1} << comm.rank()) == ~u64{0} >> (64 - comm.size()),
              "an agreement between collectives");
    bool over = false;
    while (!over) {
        over = true;
        for (std::size_t i = 0; i < trials.size(); ++i)
            over = trials[(i + static_cast<std::size_t>(comm.rank())) % trials.size()]
                       ->collective()
                       .progress() &&
                   over;
        std::this_thread::yield();
    }
    for (const auto& trial : trials)
        trial->check();
}

void refusals(Ground& ground)
{
    const Comm& comm = ground.comm();
    const auto refused = [&](const CollectiveShape& shape, Piece scratch) {
        try {
            ground.collective(shape, scratch);
        } catch (const InternalError&) {
            return true;
        }
        return false;
    };
    TRV_CHECK(refused({CollectiveKind::all_reduce, DType::i32, Combine::lse, {}}, {}) &&
                  refused({CollectiveKind::reduce_scatter, DType::i64, Combine::sum, {}}, {}),
              "lse of i32, or a sum of i64, is taken");
    std::vector<float> data(100);
    const CollectiveShape shape{
        CollectiveKind::all_reduce, DType::f32, Combine::sum, {{1, 100, 1, data.data(), data.data()}}};
    const CollectiveScratch needs = collective_scratch(shape, comm.size());
    alignas(64) static thread_local std::byte scratch[1 << 16];
    TRV_CHECK(comm.size() == 1 || refused(shape, {scratch, needs.least - 1}), "too little scratch is taken");
    TRV_CHECK(comm.size() == 1 || refused(shape, {scratch + 32, needs.best}),
              "scratch that is not aligned is taken");
    TRV_CHECK(!refused(shape, {scratch, needs.least}), "enough scratch is refused");
}

} // namespace

std::vector<CollectiveCase> collective_cases()
{
    return {{"all_gather", all_gathers},   {"reduce_scatter", reduce_scatters},
            {"all_reduce", all_reduces},   {"all_reduce in place", all_reduces_in_place},
            {"lse", sums_of_exponentials}, {"max, min, product", other_combiners},
            {"i32", of_integers},          {"fast", fast},
            {"buckets", buckets},          {"several under way", several_under_way},
            {"refusals", refusals}};
}
