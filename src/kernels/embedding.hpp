#pragma once
// Tokens in the order of their ranks, and embedding lookup, whose table may be one shard of the vocabulary.
#include "base/sequence_order.hpp"
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// A rank's part of the tokens of sequences, from index `first` of `order` on.
struct OrderShape {
    i64 sequences = 0, tokens = 0; ///< of a whole sequence
    i64 first = 0, count = 0;
    SequenceOrder order{};
};

/// y_bs[b, s] = x_bt[b, the position of index first + s].
void in_order(const Exec& exec, const OrderShape& shape, const std::int32_t* x_bt, std::int32_t* y_bs);

/// `count` lookups in a table [rows, dim] of the tokens [row_offset, row_offset + rows).
struct EmbeddingShape {
    i64 count = 0, rows = 0, dim = 0;
    i64 row_offset = 0;
};

/// y_cd[i] = table_vd[token_c[i] - row_offset], or 0 if the token is outside the table.
template <class T>
void embedding(const Exec& exec, const EmbeddingShape& shape, const T* table_vd, const std::int32_t* token_c,
               T* y_cd);

/// dtable_vd[token_c[i] - row_offset] += dy_cd[i], added in a fixed order (on the host that of i); tokens
/// outside the table are skipped. `overwrite` zeroes the table first.
template <class T>
void embedding_grad(const Exec& exec, const EmbeddingShape& shape, const T* dy_cd,
                    const std::int32_t* token_c, Acc<T>* dtable_vd, bool overwrite);

} // namespace trivium::kernels
