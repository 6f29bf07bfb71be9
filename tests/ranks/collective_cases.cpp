#include "comm_suite.hpp"
#include "elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

using namespace trivium;

namespace {

constexpr std::byte untouched{0xa5};

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
        int radix = 0;
    };

    Trial(Ground& ground, Options options, std::vector<Extents> extents)
        : ground_(ground), comm_(ground.comm()), options_(options), extents_(std::move(extents))
    {
        CollectiveShape shape{options.kind, options.type, options.combine, {}, options.radix};
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
        const IndexRange mine = part_of(extent, comm_.size(), rank);
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

/// With `options` but for type and scratch.
void run_on(const Tensors& operands, Ground& ground, Trial::Options options, const std::vector<DType>& types)
{
    for (const DType type : types)
        for (const std::vector<Extents>& extents : operands) {
            if (ground.slow() && (type == DType::f64 || type == DType::i32) && types.size() > 1)
                continue;
            std::vector<Trial::Bits> first, expected;
            options.type = type;
            for (options.scratch = 0; options.scratch <= 2; options.scratch += ground.slow() ? 2 : 1) {
                Trial trial(ground, options, extents);
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
    run_on(tensors(), ground, {kind, {}, combine, in_place, 0, deterministic}, types);
}

/// What sums have shown of all layouts holds for other combiners; here elements for vector instructions and
/// few.
void run_some(Ground& ground, CollectiveKind kind, const std::vector<DType>& types, Combine combine,
              bool in_place = false, bool deterministic = true)
{
    static const Tensors some{{{3, 10, 4}}, {{5, 64, 33}}, {{1, 48, 4}, {1, 24, 5}}, {{1, 2, 2}, {1, 5, 1}}};
    run_on(some, ground, {kind, {}, combine, in_place, 0, deterministic}, types);
}

/// Small groups as large ones, whose ranks forward each other's pieces. Of small tensors: the least scratch
/// is for large groups, and takes many rounds.
void forwarded(Ground& ground)
{
    static const Tensors small{{{3, 10, 4}}, {{1, 48, 4}, {1, 24, 5}}, {{1, 2, 2}, {1, 5, 1}}};
    for (const CollectiveKind kind :
         {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce})
        for (const int radix : {2, 3})
            run_on(small, ground, {.kind = kind, .radix = radix}, {DType::f32});
}

const std::vector<DType> floats{DType::f32, DType::bf16, DType::f64};

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
    using K = CollectiveKind;
    constexpr Combine sum = Combine::sum;
    return {{"all_gather",
             [](Ground& g) {
                 run_all(g, K::all_gather, {DType::f32, DType::bf16, DType::f64, DType::i32}, sum);
             }},
            {"reduce_scatter", [](Ground& g) { run_all(g, K::reduce_scatter, floats, sum); }},
            {"all_reduce", [](Ground& g) { run_all(g, K::all_reduce, floats, sum); }},
            {"all_reduce in place", [](Ground& g) { run_all(g, K::all_reduce, floats, sum, true); }},
            {"lse", sums_of_exponentials},
            {"max, min, product", other_combiners},
            {"i32", of_integers},
            {"fast", fast},
            {"forwarded", forwarded},
            {"buckets", buckets},
            {"several under way", several_under_way},
            {"refusals", refusals}};
}
