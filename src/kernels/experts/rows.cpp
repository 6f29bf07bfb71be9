#include "kernels/experts/rows.hpp"

#include "base/check.hpp"
#include "kernels/general/blocks.hpp"
#include "kernels/instantiate.hpp"

namespace trivium::kernels {

namespace detail { // not without a name: lambdas keep them

/// Where tokens and their rows are.
struct Places {
    i64 tokens, slots, rows, dim; ///< as in TokenShape
    i64 sequences_of, tokens_of;  ///< of a group: sequences; tokens of a sequence
    i64 across;                   ///< groups along the tokens

    explicit Places(const TokenShape& s)
        : tokens(s.tokens), slots(s.slots), rows(s.rows), dim(s.dim), sequences_of(s.group_sequences()),
          tokens_of(s.group_tokens()), across(s.of_tokens)
    {
    }
    TRV_HOST_DEVICE i64 group_of(i64 token) const
    {
        return token / tokens / sequences_of * across + token % tokens / tokens_of;
    }
    /// The first row of the token's group.
    TRV_HOST_DEVICE i64 first_row(i64 token) const { return group_of(token) * rows; }
    /// Whether a slot names a row of the group; otherwise it is dropped.
    TRV_HOST_DEVICE bool has(std::int32_t slot) const { return slot >= 0 && slot < rows; }
    TRV_HOST_DEVICE i64 index_in_group(i64 token) const
    {
        return token / tokens % sequences_of * tokens_of + token % tokens % tokens_of;
    }
    /// Token `i` of sequence `sequence` of a group.
    TRV_HOST_DEVICE i64 token_at(i64 group, i64 sequence, i64 i) const
    {
        return (group / across * sequences_of + sequence) * tokens + group % across * tokens_of + i;
    }
};

/// The counts of `dispatch` in its scratch, of each group: `before` [sequences, blocks, experts], the slots
/// of an expert in the sequence's earlier blocks; `first` [sequences, experts], the row of the sequence's
/// first one; `all`, the rows of the group.
struct Counts {
    i64 sequences, blocks, experts;
    std::int32_t *before_of_all, *first_of_all, *all;

    Counts(const TokenShape& s, i64 of_experts, void* scratch)
        : sequences(s.group_sequences()), blocks(ceil_div(s.group_tokens(), dispatch_block)),
          experts(of_experts), before_of_all(static_cast<std::int32_t*>(scratch)),
          first_of_all(before_of_all + s.groups() * sequences * blocks * experts),
          all(first_of_all + s.groups() * sequences * experts)
    {
    }
    TRV_HOST_DEVICE std::int32_t* before(i64 group, i64 sequence, i64 block) const
    {
        return before_of_all + ((group * sequences + sequence) * blocks + block) * experts;
    }
    TRV_HOST_DEVICE std::int32_t* first(i64 group, i64 sequence) const
    {
        return first_of_all + (group * sequences + sequence) * experts;
    }
};

/// Zeros in the rows of the token's group behind the first `used`; each token of the group has some of them.
template <class T>
TRV_HOST_DEVICE void zero_behind(const Row& row, const Places& places, i64 token, i64 used, T* rows)
{
    for (i64 r = used + places.index_in_group(token); r < places.rows;
         r += places.sequences_of * places.tokens_of)
        row.map(
            places.dim, [] { return Acc<T>(0); }, rows + r * places.dim);
}

/// f(group, sequence, block, its first token, its tokens) for each block of dispatch_block tokens.
template <class F>
void for_token_blocks(const Exec& exec, const TokenShape& shape, const Counts& counts, F f)
{
    const i64 blocks = counts.blocks, sequences = counts.sequences, tokens = shape.group_tokens();
    const Places places(shape);
    for_blocks<loops_per_row>(
        exec, "dispatch", shape.groups() * sequences * blocks, KOKKOS_LAMBDA(i64 at) {
            const i64 block = at % blocks, sequence = at / blocks % sequences,
                      group = at / blocks / sequences;
            const i64 begin = block * dispatch_block, rest = tokens - begin;
            f(group, sequence, block, places.token_at(group, sequence, begin),
              rest < dispatch_block ? rest : dispatch_block);
        });
}

} // namespace detail
using namespace detail;

template <class T>
void dispatch(const Exec& exec, const TokenShape& shape, i64 experts, i64 capacity, const T* tokens_td,
              const std::int32_t* experts_tk, T* rows_qmd, std::int32_t* slots_tk, std::int32_t* counts_qx,
              Scratch scratch)
{
    const Bytes needed = dispatch_scratch(shape.sequences * shape.of_tokens, shape.group_tokens(), experts);
    TRV_CHECK(scratch.size >= needed, scratch.size, " B of scratch, needs ", needed);
    const Counts counts(shape, experts, scratch.data);
    const Places places(shape);
    const i64 slots = shape.slots, dim = shape.dim, all = shape.all(), groups = shape.groups();
    const i64 most = capacity > 0 ? capacity : INT32_MAX;
    // 1. Of each block alone.
    for_token_blocks(
        exec, shape, counts, KOKKOS_LAMBDA(i64 group, i64 sequence, i64 block, i64 token, i64 n) {
            std::int32_t* const before = counts.before(group, sequence, block);
            for (i64 e = 0; e < experts; ++e)
                before[e] = 0;
            for (i64 i = token * slots; i < (token + n) * slots; ++i)
                if (experts_tk[i] >= 0 && experts_tk[i] < experts)
                    ++before[experts_tk[i]];
        });
    // 2. Sums over earlier blocks, and over earlier sequences.
    for_blocks<loops_per_row>(
        exec, "dispatch", groups * experts, KOKKOS_LAMBDA(i64 at) {
            const i64 group = at / experts, e = at % experts;
            std::int32_t rows = 0;
            for (i64 s = 0; s < counts.sequences; ++s) {
                std::int32_t named = 0;
                for (i64 block = 0; block < counts.blocks; ++block) {
                    std::int32_t& here = counts.before(group, s, block)[e];
                    const std::int32_t more = here;
                    here = named;
                    named += more;
                }
                counts.first(group, s)[e] = rows;
                rows += named < most ? named : static_cast<std::int32_t>(most);
            }
            counts_qx[at] = rows;
        });
    // 3. Behind the rows of earlier experts.
    for_blocks<loops_per_row>(
        exec, "dispatch", groups * experts, KOKKOS_LAMBDA(i64 at) {
            const i64 group = at / experts, e = at % experts;
            std::int32_t begin = 0;
            for (i64 other = 0; other < e; ++other)
                begin += counts_qx[group * experts + other];
            for (i64 s = 0; s < counts.sequences; ++s)
                counts.first(group, s)[e] += begin;
            if (e == experts - 1)
                counts.all[group] = begin + counts_qx[at];
        });
    // 4. The row of each slot.
    for_token_blocks(
        exec, shape, counts, KOKKOS_LAMBDA(i64 group, i64 sequence, i64 block, i64 token, i64 n) {
            std::int32_t* const before = counts.before(group, sequence, block);
            const std::int32_t* const first = counts.first(group, sequence);
            for (i64 i = token * slots; i < (token + n) * slots; ++i) {
                const std::int32_t e = experts_tk[i];
                slots_tk[i] = -1;
                if (e >= 0 && e < experts && before[e] < most)
                    slots_tk[i] = first[e] + before[e]++;
            }
        });
    // 5. The rows.
    for_rows<T>(
        exec, "dispatch_rows", all, dim, KOKKOS_LAMBDA(const Row& row, i64 t) {
            T* const rows = rows_qmd + places.first_row(t) * dim;
            for (i64 i = t * slots; i < (t + 1) * slots; ++i)
                if (places.has(slots_tk[i]))
                    row.copy(dim, tokens_td + t * dim, rows + slots_tk[i] * dim);
            zero_behind(row, places, t, counts.all[places.group_of(t)], rows);
        });
}

template <class T, class W>
void combine(const Exec& exec, const TokenShape& shape, const T* rows_qmd, const std::int32_t* slots_tk,
             const W* weights_tk, T* tokens_td)
{
    using A = Acc<T>;
    constexpr i64 width = columns_at_once;
    const Places places(shape);
    const i64 slots = shape.slots, dim = shape.dim;
    for_rows<T>(
        exec, "combine", shape.all(), dim, KOKKOS_LAMBDA(const Row& row, i64 t) {
            const T* const rows = rows_qmd + places.first_row(t) * dim;
            row.each(ceil_div(dim, width), [=](i64 tile) {
                const i64 begin = tile * width, n = dim - begin < width ? dim - begin : width;
                A sum[width] = {};
                for (i64 i = t * slots; i < (t + 1) * slots; ++i) {
                    if (!places.has(slots_tk[i]))
                        continue;
                    const A weight = weights_tk ? static_cast<A>(weights_tk[i]) : A(1);
                    const T* const from = rows + slots_tk[i] * dim + begin;
                    for (i64 j = 0; j < n; ++j)
                        sum[j] += weight * static_cast<A>(from[j]);
                }
                for (i64 j = 0; j < n; ++j)
                    tokens_td[t * dim + begin + j] = static_cast<T>(sum[j]);
            });
        });
}

template <class T, class W>
void combine_grad_rows(const Exec& exec, const TokenShape& shape, const T* dtokens_td,
                       const std::int32_t* slots_tk, const W* weights_tk, T* drows_qmd, Scratch scratch)
{
    using A = Acc<T>;
    TRV_CHECK(scratch.size >= 8 * shape.groups(), scratch.size, " B of scratch");
    auto* const used = static_cast<i64*>(scratch.data);
    const Places places(shape);
    const i64 slots = shape.slots, dim = shape.dim, of_group = shape.group_sequences() * shape.group_tokens();
    for_rows<std::int32_t>(
        exec, "combine_grad_rows", shape.groups(), of_group * slots, KOKKOS_LAMBDA(const Row& row, i64 g) {
            const i64 sum = row.sum<i64>(of_group * slots, [=](i64 at) {
                const i64 i = at / slots;
                const i64 token = places.token_at(g, i / places.tokens_of, i % places.tokens_of);
                return places.has(slots_tk[token * slots + at % slots]) ? i64{1} : i64{0};
            });
            row.single([=] { used[g] = sum; });
        });
    for_rows<T>(
        exec, "combine_grad_rows", shape.all(), dim, KOKKOS_LAMBDA(const Row& row, i64 t) {
            T* const rows = drows_qmd + places.first_row(t) * dim;
            for (i64 i = t * slots; i < (t + 1) * slots; ++i)
                if (places.has(slots_tk[i])) {
                    const A weight = weights_tk ? static_cast<A>(weights_tk[i]) : A(1);
                    row.map(
                        dim, [=](A dtoken) { return weight * dtoken; }, rows + slots_tk[i] * dim,
                        dtokens_td + t * dim);
                }
            zero_behind(row, places, t, used[places.group_of(t)], rows);
        });
}

template <class T>
void combine_grad_weights(const Exec& exec, const TokenShape& shape, const T* dtokens_td,
                          const std::int32_t* slots_tk, const T* rows_qmd, Acc<T>* dweights_tk)
{
    using A = Acc<T>;
    const Places places(shape);
    const i64 slots = shape.slots, dim = shape.dim;
    for_rows<T>(
        exec, "combine_grad_weights", shape.all(), dim, KOKKOS_LAMBDA(const Row& row, i64 t) {
            const T* const rows = rows_qmd + places.first_row(t) * dim;
            for (i64 i = t * slots; i < (t + 1) * slots; ++i) {
                A sum = 0;
                if (places.has(slots_tk[i]))
                    sum = row.sum<A>(
                        dim, [](A a, A b) { return a * b; }, dtokens_td + t * dim, rows + slots_tk[i] * dim);
                row.single([=] { dweights_tk[i] = sum; });
            }
        });
}

template <class T>
void grouped_bias(const Exec& exec, const GroupedRows& shape, i64 columns, const T* x_rj, const T* bias_xj,
                  const std::int32_t* counts, T* y_rj)
{
    using A = Acc<T>;
    const GroupedRows s = shape;
    for_rows<T>(
        exec, "grouped_bias", s.all_rows(), columns, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const i64 weight = s.weight_of_row(counts, r);
            if (weight < 0)
                row.map(
                    columns, [] { return A(0); }, y_rj + r * columns);
            else
                row.map(
                    columns, [](A x, A bias) { return x + bias; }, y_rj + r * columns, x_rj + r * columns,
                    bias_xj + weight * columns);
        });
}

template <class T>
void grouped_bias_grad(const Exec& exec, const GroupedRows& shape, i64 columns, const T* dy_rj,
                       const std::int32_t* counts, Acc<T>* dbias_xj, bool overwrite)
{
    using A = Acc<T>;
    constexpr i64 width = columns_at_once;
    const GroupedRows s = shape;
    const i64 tiles = ceil_div(columns, width);
    for_blocks<loops_per_row>(
        exec, "grouped_bias_grad", s.weights() * tiles, KOKKOS_LAMBDA(i64 at) {
            const i64 weight = at / tiles, begin = at % tiles * width,
                      n = columns - begin < width ? columns - begin : width;
            A sum[width] = {};
            for (i64 o = 0; o < s.outer; ++o) {
                const GroupedRows::Range range = s.of_weight(counts, o, weight);
                for (i64 r = range.begin; r < range.begin + range.size; ++r)
                    for (i64 j = 0; j < n; ++j)
                        sum[j] += static_cast<A>(dy_rj[r * columns + begin + j]);
            }
            A* const to = dbias_xj + weight * columns + begin;
            for (i64 j = 0; j < n; ++j)
                to[j] = overwrite ? sum[j] : to[j] + sum[j];
        });
}

TRV_FOR_STORAGE(dispatch)
TRV_FOR_STORAGE(combine, double)
TRV_FOR_STORAGE(combine, float)
TRV_FOR_STORAGE(combine, bf16)
TRV_FOR_STORAGE(combine_grad_rows, double)
TRV_FOR_STORAGE(combine_grad_rows, float)
TRV_FOR_STORAGE(combine_grad_rows, bf16)
TRV_FOR_STORAGE(combine_grad_weights)
TRV_FOR_STORAGE(grouped_bias)
TRV_FOR_STORAGE(grouped_bias_grad)

} // namespace trivium::kernels
