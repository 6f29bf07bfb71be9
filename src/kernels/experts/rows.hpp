#pragma once
// Tokens as rows of their experts and back, and a bias per expert (base/expert_rows.hpp).
#include "base/expert_rows.hpp"
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// Tokens [sequences, tokens, dim] in groups of neighbouring sequences and tokens, each with `slots` slots. A
/// group has `rows` rows.
struct TokenShape {
    i64 sequences = 0, tokens = 0; ///< of all groups
    i64 dim = 0, slots = 0, rows = 0;
    i64 of_sequences = 1, of_tokens = 1; ///< groups along each; divisors

    i64 all() const { return sequences * tokens; }
    i64 groups() const { return of_sequences * of_tokens; }
    i64 group_sequences() const { return sequences / of_sequences; }
    i64 group_tokens() const { return tokens / of_tokens; } ///< of a sequence
};

/// The rows of each group's tokens: rows_qmd, sorted by expert, then by token, then by slot, with zeros
/// behind the last one; the row of each slot in its group, -1 if it has none; the rows of each expert.
/// `capacity`: rows of an expert for each sequence of a group, 0: no limit. Slots that name no expert have no
/// row. Scratch: dispatch_scratch(sequences * of_tokens, group_tokens(), experts).
template <class T>
void dispatch(const Exec& exec, const TokenShape& shape, i64 experts, i64 capacity, const T* tokens_td,
              const std::int32_t* experts_tk, T* rows_qmd, std::int32_t* slots_tk, std::int32_t* counts_qx,
              Scratch scratch);

/// tokens_td = the sum over slots of weight * row, in the order of the slots. weights_tk may be null: 1. W:
/// the type of the weights.
template <class T, class W>
void combine(const Exec& exec, const TokenShape& shape, const T* rows_qmd, const std::int32_t* slots_tk,
             const W* weights_tk, T* tokens_td);
/// drows_qmd = weight * dtoken, with zeros behind the last row. weights_tk may be null: 1. Scratch: 8 bytes
/// per group.
template <class T, class W>
void combine_grad_rows(const Exec& exec, const TokenShape& shape, const T* dtokens_td,
                       const std::int32_t* slots_tk, const W* weights_tk, T* drows_qmd, Scratch scratch);
/// dweights_tk = dtoken . row; 0 for slots without one.
template <class T>
void combine_grad_weights(const Exec& exec, const TokenShape& shape, const T* dtokens_td,
                          const std::int32_t* slots_tk, const T* rows_qmd, Acc<T>* dweights_tk);

/// Rows at their experts: `outer` times those of the expert ranks [first, first + ranks) of `all_ranks`,
/// which share `experts` experts. A rank has `rows` rows and the weights of its experts; counts are [outer,
/// all_ranks, experts].
struct GroupedRows {
    i64 outer = 0, ranks = 0, first = 0, all_ranks = 1;
    i64 rows = 0, experts = 0;

    auto operator<=>(const GroupedRows&) const = default;
    TRV_HOST_DEVICE i64 of_rank() const { return experts / all_ranks; }
    TRV_HOST_DEVICE i64 weights() const { return ranks * of_rank(); } ///< experts whose weights are here
    TRV_HOST_DEVICE i64 all_rows() const { return outer * ranks * rows; }

    /// Rows [begin, begin + size) of the buffer.
    struct Range {
        i64 begin, size;
    };
    /// Calls take(expert of the rank, first row of the rank, rows) for each expert of rank `rank` of the
    /// buffer, until it returns false. As ExpertRows::of_expert(). Returns the rows of the experts seen.
    template <class Take>
    TRV_HOST_DEVICE i64 each_expert(const std::int32_t* counts, i64 o, i64 rank, Take take) const
    {
        const std::int32_t* const of = counts + o * all_ranks * experts + (first + rank) * of_rank();
        i64 begin = 0;
        for (i64 e = 0; e < of_rank(); ++e) {
            i64 size = 0;
            for (i64 g = 0; g < all_ranks; ++g)
                size += of[g * experts + e];
            if (size < 0)
                size = 0;
            if (size > rows - begin) // no places for the others
                size = rows - begin;
            if (!take(e, begin, size))
                return begin;
            begin += size;
        }
        return begin;
    }
    /// Of the expert whose weights are at `weight`, in the whole buffer.
    TRV_HOST_DEVICE Range of_weight(const std::int32_t* counts, i64 o, i64 weight) const
    {
        const i64 rank = weight / of_rank(), wanted = weight % of_rank();
        Range found{0, 0};
        each_expert(counts, o, rank, [&](i64 e, i64 begin, i64 size) {
            found = {(o * ranks + rank) * rows + begin, size};
            return e < wanted;
        });
        return found;
    }
    /// The place of the weights of the expert that a row of the buffer belongs to; -1 behind the last row.
    TRV_HOST_DEVICE i64 weight_of_row(const std::int32_t* counts, i64 row) const
    {
        const i64 rank = row / rows, wanted = row % rows;
        i64 found = -1;
        each_expert(counts, rank / ranks, rank % ranks, [&](i64 e, i64 begin, i64 size) {
            if (wanted < begin + size)
                found = rank % ranks * of_rank() + e;
            return found < 0;
        });
        return found;
    }
};

/// y_rj = x_rj + the bias of the row's expert; 0 behind the last row. y may be x.
template <class T>
void grouped_bias(const Exec& exec, const GroupedRows& shape, i64 columns, const T* x_rj, const T* bias_xj,
                  const std::int32_t* counts, T* y_rj);
/// dbias_xj (+)= the sum of the rows of each expert.
template <class T>
void grouped_bias_grad(const Exec& exec, const GroupedRows& shape, i64 columns, const T* dy_rj,
                       const std::int32_t* counts, Acc<T>* dbias_xj, bool overwrite);

} // namespace trivium::kernels
