// AdamW and the sum of squares: one large parameter, and the many small ones of a model in one call.
#include "kernels/optimizer.hpp"
#include "bench.hpp"

#include <cmath>
#include <fmt/format.h>

namespace trivium {

using namespace kernels;

namespace {

/// `count` parameters of `each` numbers.
void bench_update(Bench& bench, int count, i64 each)
{
    const i64 n = count * each;
    const double bytes = 4.0 * static_cast<double>(n), decay = 0.1, factor = 0.5;
    const double hyper[AdamwHyper::count] = {1e-2, 0.9, 0.95, 1e-8, 0.1, 0.05};
    const int sets = bench.sets(bytes); // of the call that uses the fewest
    const Array<float> p = Array<float>(bench.bed, n, sets).random("p"),
                       m = Array<float>(bench.bed, n, sets).random("m", 0.1),
                       v = Array<float>(bench.bed, n, sets).random("v", 0.01, 0.2),
                       g = Array<float>(bench.bed, n, sets).random("g");
    const Array<double> on_hyper = Array<double>(bench.bed, AdamwHyper::count, 1)
                                       .of({hyper, hyper + AdamwHyper::count}),
                        on_factor = Array<double>(bench.bed, 1, 1).of({factor}), sums(bench.bed, count, sets);
    const Bytes size = sum_squares_scratch(each) * count;
    const std::shared_ptr<void> scratch = bench.bed.allocate(size);
    std::vector<std::vector<AdamwShard<float>>> shards(static_cast<std::size_t>(sets));
    std::vector<std::vector<SquaresOf<float>>> squares(shards.size());
    for (int s = 0; s < sets; ++s)
        for (int i = 0; i < count; ++i) {
            const i64 at = i * each;
            shards[static_cast<std::size_t>(s)].push_back(
                {p.get(s) + at, m.get(s) + at, v.get(s) + at, g.get(s) + at, each, i % 2 == 0 ? decay : 0});
            squares[static_cast<std::size_t>(s)].push_back({g.get(s) + at, each, sums.get(s) + i});
        }
    const std::string at = count == 1 ? fmt::format(" {}", n) : fmt::format(" {} x {}", count, each);
    bench.measure({"sum_squares" + at, bytes, 0, 1e-9,
                   [&](const Exec& e, int s) {
                       sum_squares<float>(e, squares[static_cast<std::size_t>(s)], {scratch.get(), size});
                   },
                   [&] {
                       Errors errors;
                       for (const i64 i : bench.sample(count, 4)) {
                           double want = 0;
                           for (i64 k = 0; k < each; ++k)
                               want += g.at(i * each + k) * g.at(i * each + k);
                           errors.add(sums.read(i, 1)[0], want);
                       }
                       return errors.largest();
                   }});
    bench.measure(
        {"adamw" + at, 7 * bytes, 0, tolerance_f32,
         [&](const Exec& e, int s) {
             adamw<float, float>(e, shards[static_cast<std::size_t>(s)], on_hyper.get(), on_factor.get());
         },
         [&] {
             Errors of_p, of_m, of_v;
             for (const i64 i : bench.sample(n, 200)) {
                 const double grad = factor * g.at(i), mean = hyper[1] * m.at(i) + (1 - hyper[1]) * grad;
                 const double square = hyper[2] * v.at(i) + (1 - hyper[2]) * grad * grad;
                 const double step = mean / hyper[4] / (std::sqrt(square / hyper[5]) + hyper[3]) +
                                     (i / each % 2 == 0 ? decay : 0) * p.at(i);
                 of_p.add(p.read(i, 1)[0], p.at(i) - hyper[0] * step);
                 of_m.add(m.read(i, 1)[0], mean);
                 of_v.add(v.read(i, 1)[0], square);
             }
             return std::max({of_p.largest(), of_m.largest(), of_v.largest()});
         }});
}

} // namespace

void bench_optimizer(Bench& bench)
{
    bench_update(bench, 1, bench.tiny() ? 40000 : 100'000'000);
    bench_update(bench, bench.tiny() ? 7 : 500, bench.tiny() ? 1021 : 20011);
}

} // namespace trivium
