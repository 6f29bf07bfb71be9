// Kernels over the vocabulary: the embedding, its gradient, the cross entropy.
#include "bench.hpp"
#include "kernels/embedding.hpp"
#include "kernels/loss.hpp"
#include "kernels/reference.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace trivium {

using namespace kernels;
using Doubles = std::vector<double>;

namespace {

void bench_embedding(Bench& bench, const Sizes& z)
{
    const i64 count = z.tokens(), dim = z.dim;
    const double cells = static_cast<double>(count * dim);
    const EmbeddingShape shape{count, z.vocab, dim, 0};
    const std::vector<std::int32_t> token = random_tokens(count, z.vocab);
    const int sets = bench.sets(4 * cells);
    const Array<std::int32_t> tokens = Array<std::int32_t>(bench.bed, count, sets).of(token);
    const std::string at = fmt::format(" {} of {}x{}", count, z.vocab, dim);
    {
        const Array<bf16> table = Array<bf16>(bench.bed, z.vocab * dim, 1).random("table"),
                          y(bench.bed, count * dim, sets);
        bench.measure(
            {"embedding" + at, 4 * cells, 0, 1e-30,
             [&](const Exec& e, int s) { embedding(e, shape, table.get(), tokens.get(s), y.get(s)); },
             [&] {
                 Errors errors;
                 for (const i64 i : bench.sample(count, 8))
                     errors.add(y.read(i * dim, dim),
                                table.filled(token[static_cast<std::size_t>(i)] * dim, dim));
                 return errors.largest();
             }});
    }
    const Array<bf16> dy = Array<bf16>(bench.bed, count * dim, sets).random("dy");
    const Array<float> dtable = Array<float>(bench.bed, z.vocab * dim, 1).random("dtable");
    // dy is read once, and the target rows are read and written; at most one row per token.
    bench.measure({"embedding_grad" + at, 10 * cells, 0, tolerance_f32,
                   [&](const Exec& e, int s) {
                       embedding_grad(e, shape, dy.get(s), tokens.get(s), dtable.get(), false);
                   },
                   [&] {
                       Errors errors;
                       for (const i64 i : bench.sample(count, 8)) { // the first is the frequent token
                           const std::int32_t row = token[static_cast<std::size_t>(i)];
                           Doubles want = dtable.filled(row * dim, dim);
                           for (i64 k = 0; k < count; ++k)
                               if (token[static_cast<std::size_t>(k)] == row)
                                   for (i64 j = 0; j < dim; ++j)
                                       want[static_cast<std::size_t>(j)] += dy.at(k * dim + j);
                           errors.add(dtable.read(row * dim, dim), want);
                       }
                       for (i64 row = 0; row < std::min<i64>(z.vocab, 4); ++row)
                           if (std::find(token.begin(), token.end(), row) == token.end())
                               errors.add(dtable.read(row * dim, dim), dtable.filled(row * dim, dim));
                       return errors.largest();
                   }});
}

void bench_loss(Bench& bench, const Sizes& z)
{
    const i64 rows = z.tokens(), vocab = z.vocab;
    const double tensor = 2.0 * static_cast<double>(rows * vocab);
    const LossShape shape{rows, vocab, 0};
    std::vector<std::int32_t> target = random_tokens(rows, vocab);
    target[0] = -1; // ignored
    const int sets = bench.sets(tensor);
    const Array<std::int32_t> targets = Array<std::int32_t>(bench.bed, rows, sets).of(target);
    const Array<bf16> logits = Array<bf16>(bench.bed, rows * vocab, sets).random("logits", 3),
                      dlogits(bench.bed, rows * vocab, sets);
    const Array<float> lse(bench.bed, rows, sets), picked(bench.bed, rows, sets),
        dlse = Array<float>(bench.bed, rows, sets).random("dlse"),
        dpicked = Array<float>(bench.bed, rows, sets).random("dpicked");
    const std::string at = fmt::format(" {}x{}", rows, vocab);
    const std::vector<i64> some = bench.sample(rows, 6);
    bench.measure({"xent_stats" + at, tensor, 0, tolerance_f32,
                   [&](const Exec& e, int s) {
                       xent_stats(e, shape, logits.get(s), targets.get(s), lse.get(s), picked.get(s));
                   },
                   [&] {
                       Errors errors;
                       for (const i64 row : some) {
                           const std::int32_t to = target[static_cast<std::size_t>(row)];
                           errors.add(
                               lse.read(row, 1)[0],
                               reference::log_sum_exp(logits.filled(row * vocab, vocab).data(), vocab));
                           errors.add(picked.read(row, 1)[0], to < 0 ? 0 : logits.at(row * vocab + to));
                       }
                       return errors.largest();
                   }});
    bench.measure({"xent_stats_grad" + at, 2 * tensor, 0, tolerance_bf16,
                   [&](const Exec& e, int s) {
                       xent_stats_grad(e, shape, logits.get(s), targets.get(s), lse.get(s), dlse.get(s),
                                       dpicked.get(s), dlogits.get(s));
                   },
                   [&] {
                       Errors errors, at_target; // separately, because it is far larger
                       for (const i64 row : some) {
                           const Doubles x = logits.filled(row * vocab, vocab),
                                         got = dlogits.read(row * vocab, vocab);
                           const double total = reference::log_sum_exp(x.data(), vocab);
                           for (i64 v = 0; v < vocab; ++v) {
                               const auto i = static_cast<std::size_t>(v);
                               const bool is_target = v == target[static_cast<std::size_t>(row)];
                               const double want =
                                   dlse.at(row) * std::exp(x[i] - total) + (is_target ? dpicked.at(row) : 0);
                               (is_target ? at_target : errors).add(got[i], want);
                           }
                       }
                       return std::max(errors.largest(), at_target.largest());
                   }});
}

} // namespace

void bench_tokens(Bench& bench, const Sizes& sizes)
{
    bench_embedding(bench, sizes);
    bench_loss(bench, sizes);
}

} // namespace trivium
