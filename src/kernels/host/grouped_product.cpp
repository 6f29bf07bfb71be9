// Grouped products on the host: an expert's rows in pieces of fixed sizes, for which the library's products
// are prepared. Pieces follow from the counts, and each is computed by one thread, so that no sum depends on
// the number of threads.
#include "kernels/experts/grouped_product.hpp"

#include "base/check.hpp"
#include "dnnl_calls.hpp"
#include "kernels/gemm.hpp"
#include "row_parallel.hpp"

#include <cstring>
#include <vector>

namespace trivium::kernels {

namespace {

/// Rows of a piece: at most `tallest`, a multiple of grouped_pad, or fewer than it, which are padded.
constexpr i64 tallest = 256;
/// grad_weight: rows that a product sums, from the largest to grouped_pad.
constexpr i64 longest = 1024;

/// The last rows of an expert, padded with zeros.
void pad_rows(const char* from, i64 rows, Bytes row, char* to)
{
    std::memcpy(to, from, static_cast<std::size_t>(rows * row));
    std::memset(to + rows * row, 0, static_cast<std::size_t>((grouped_pad - rows) * row));
}

} // namespace

struct GroupedProduct::Impl {
    GroupedKind kind;
    GroupedShape shape;
    i64 k, n; ///< columns of the rows that are read; of those that are written, for grad_weight j
    i64 workers = 1;
    Bytes lent = 0;   ///< scratch of a product
    Bytes own = 0;    ///< scratch of a worker
    Bytes shared = 0; ///< scratch before that: where the experts' rows are
    /// By rows: of (index + 1) * grouped_pad rows. grad_weight: by [last block][sum], sums of longest >>
    /// index rows, then of padded ones.
    std::vector<Product> products;

    bool for_weights() const { return kind == GroupedKind::grad_weight; }
    i64 ranges() const { return shape.rows.outer * shape.rows.weights(); }
    i64 blocks() const { return ceil_div(shape.i, tallest); } ///< of the rows of a weight's gradient
    i64 block_rows(i64 block) const { return std::min(tallest, shape.i - block * tallest); }

    /// The rows of an expert, and the pieces of all experts before it.
    struct Piece {
        i64 begin, size, before;
    };

    void make(int threads, Bytes most_scratch)
    {
        k = kind == GroupedKind::grad_rows ? shape.j : shape.i;
        n = kind == GroupedKind::grad_rows ? shape.i : shape.j;
        if (shape.i > 0 && shape.j > 0 && shape.rows.rows > 0)
            for_weights() ? make_sums() : make_pieces();
        for (const Product& product : products)
            lent = std::max(lent, round_up(product.scratch_bytes(), 64));
        const i64 widest = for_weights() ? std::min(tallest, shape.i) : k;
        own = lent + round_up(grouped_pad * widest * size_of(shape.in), 64) +
              round_up(grouped_pad * n * size_of(for_weights() ? shape.in : shape.out), 64);
        shared = round_up((ranges() + 1) * static_cast<Bytes>(sizeof(Piece)), 64);
        workers = std::clamp<i64>((most_scratch - shared) / own, 1, threads);
    }
    void make_pieces()
    {
        for (i64 m = grouped_pad; m <= tallest; m += grouped_pad)
            products.emplace_back(ProductShape{.m = m,
                                               .n = n,
                                               .k = k,
                                               .transpose_b = kind == GroupedKind::grad_rows,
                                               .in = shape.in,
                                               .out = shape.out});
    }
    void make_sums()
    {
        for (const i64 block : {i64{0}, blocks() - 1}) {
            const auto add = [&](i64 rows, i64 apart) {
                products.emplace_back(ProductShape{.m = block_rows(block),
                                                   .n = n,
                                                   .k = rows,
                                                   .transpose_a = true,
                                                   .in = shape.in,
                                                   .out = shape.out,
                                                   .row_a = apart});
            };
            for (i64 rows = longest; rows >= grouped_pad; rows /= 2)
                add(rows, shape.i);
            add(grouped_pad, block_rows(block));
        }
    }

    Bytes scratch_bytes() const { return shared + workers * own; }

    /// Where the rows of the experts are; returns the number of pieces.
    i64 find_pieces(const std::int32_t* counts, Piece* pieces) const
    {
        const GroupedRows& rows = shape.rows;
        i64 before = 0;
        Piece* next = pieces;
        for (i64 o = 0; o < rows.outer; ++o)
            for (i64 rank = 0; rank < rows.ranks; ++rank) {
                const i64 first = (o * rows.ranks + rank) * rows.rows;
                rows.each_expert(counts, o, rank, [&](i64, i64 begin, i64 size) {
                    *next++ = {first + begin, size, before};
                    before += ceil_div(size, tallest);
                    return true;
                });
            }
        next->before = before;
        return before;
    }

    /// The padded operands of a worker, behind the scratch of its products.
    struct Own {
        Scratch lent;
        char *a, *b;
    };
    Own own_of(i64 worker, const Scratch& scratch) const
    {
        char* const at = static_cast<char*>(scratch.data) + shared + worker * own;
        const i64 widest = for_weights() ? std::min(tallest, shape.i) : k;
        char* const a = at + lent;
        return {{at, lent}, a, a + round_up(grouped_pad * widest * size_of(shape.in), 64)};
    }

    /// Up to `tallest` rows of an expert.
    void run_piece(const Own& mine, const char* a, const char* weight, char* c, i64 rows) const
    {
        const Bytes row_a = k * size_of(shape.in), row_c = n * size_of(shape.out);
        const i64 whole = rows / grouped_pad * grouped_pad, rest = rows - whole;
        if (whole > 0)
            products[static_cast<std::size_t>(whole / grouped_pad - 1)].run({}, a, weight, c, true,
                                                                            mine.lent);
        if (rest == 0)
            return;
        pad_rows(a + whole * row_a, rest, row_a, mine.a);
        products[0].run({}, mine.a, weight, mine.b, true, mine.lent);
        std::memcpy(c + whole * row_c, mine.b, static_cast<std::size_t>(rest * row_c));
    }

    /// A block of rows of a weight's gradient.
    void run_block(const Own& mine, const char* a, const char* b, const Piece* pieces, i64 weight, i64 block,
                   char* c, bool overwrite) const
    {
        const Bytes in = size_of(shape.in);
        const i64 m = block_rows(block), columns = block * tallest;
        char* const to = c + (weight * shape.i + columns) * n * size_of(shape.out);
        const std::size_t sums = products.size() / 2, first = block == blocks() - 1 ? sums : 0;
        for (i64 o = 0; o < shape.rows.outer; ++o) {
            const Piece& rows = pieces[o * shape.rows.weights() + weight];
            i64 at = rows.begin, left = rows.size;
            for (std::size_t sum = 0; sum + 1 < sums; ++sum)
                for (const i64 length = longest >> sum; left >= length; at += length, left -= length) {
                    products[first + sum].run({}, a + (at * shape.i + columns) * in, b + at * n * in, to,
                                              overwrite, mine.lent);
                    overwrite = false;
                }
            if (left == 0)
                continue;
            for (i64 r = 0; r < left; ++r)
                std::memcpy(mine.a + r * m * in, a + ((at + r) * shape.i + columns) * in,
                            static_cast<std::size_t>(m * in));
            std::memset(mine.a + left * m * in, 0, static_cast<std::size_t>((grouped_pad - left) * m * in));
            pad_rows(b + at * n * in, left, n * in, mine.b);
            products[first + sums - 1].run({}, mine.a, mine.b, to, overwrite, mine.lent);
            overwrite = false;
        }
        if (overwrite)
            std::memset(to, 0, static_cast<std::size_t>(m * n * size_of(shape.out)));
    }

    void run(const Exec& exec, const char* a, const char* b, const std::int32_t* counts, char* c,
             bool overwrite, Scratch scratch) const
    {
        auto* const pieces = static_cast<Piece*>(scratch.data);
        const i64 all = find_pieces(counts, pieces), experts = shape.rows.weights();
        const ThreadScope one(1); // each worker is one thread
        if (for_weights()) {
            const i64 tasks = products.empty() ? 0 : experts * blocks();
            for_tasks(exec, "grouped_product", tasks, std::min(workers, std::max<i64>(tasks, 1)),
                      [&](const Row&, i64 task, i64 worker) {
                          run_block(own_of(worker, scratch), a, b, pieces, task / blocks(), task % blocks(),
                                    c, overwrite);
                      });
            if (products.empty() && overwrite)
                std::memset(c, 0, static_cast<std::size_t>(experts * shape.i * shape.j * size_of(shape.out)));
            return;
        }
        const Bytes row_a = k * size_of(shape.in), row_c = n * size_of(shape.out),
                    weight = shape.i * shape.j * size_of(shape.in);
        for_tasks(exec, "grouped_product", products.empty() ? 0 : all,
                  std::min(workers, std::max<i64>(all, 1)), [&](const Row&, i64 task, i64 worker) {
                      const Piece* const piece =
                          std::upper_bound(pieces, pieces + ranges(), task,
                                           [](i64 t, const Piece& p) { return t < p.before; }) -
                          1;
                      const i64 skipped = (task - piece->before) * tallest, at = piece->begin + skipped;
                      run_piece(own_of(worker, scratch), a + at * row_a,
                                b + (piece - pieces) % experts * weight, c + at * row_c,
                                std::min(tallest, piece->size - skipped));
                  });
        zero_rest(exec, pieces, c, row_c);
    }

    /// Behind the last row of each rank; all rows if the sums have no terms.
    void zero_rest(const Exec& exec, const Piece* pieces, char* c, Bytes row_c) const
    {
        const i64 rows = shape.rows.rows, of_rank = shape.rows.of_rank();
        for (i64 rank = 0; rank < shape.rows.outer * shape.rows.ranks; ++rank) {
            i64 begin = rank * rows;
            if (!products.empty() && of_rank > 0) {
                const Piece& last = pieces[(rank + 1) * of_rank - 1];
                begin = last.begin + last.size;
            }
            const i64 rest = (rank + 1) * rows - begin;
            for_parts(exec, "grouped_product", rest * row_c, 4096, [=](i64 from, i64 to) {
                std::memset(c + begin * row_c + from, 0, static_cast<std::size_t>(to - from));
            });
        }
    }
};

GroupedProduct::GroupedProduct(GroupedKind kind, const GroupedShape& shape, int threads, Bytes most_scratch)
    : impl_(std::make_unique<Impl>())
{
    TRV_CHECK(threads >= 1, threads, " threads");
    impl_->kind = kind;
    impl_->shape = shape;
    impl_->make(threads, most_scratch);
}

GroupedProduct::GroupedProduct(GroupedProduct&&) noexcept = default;
GroupedProduct& GroupedProduct::operator=(GroupedProduct&&) noexcept = default;
GroupedProduct::~GroupedProduct() = default;

Bytes GroupedProduct::scratch_bytes() const { return impl_->scratch_bytes(); }

void GroupedProduct::run(const Exec& exec, const void* a, const void* b, const std::int32_t* counts, void* c,
                         bool overwrite, Scratch scratch) const
{
    TRV_CHECK(scratch.size >= scratch_bytes(), "a grouped product needs ", scratch_bytes(),
              " B of scratch and got ", scratch.size);
    TRV_CHECK(overwrite || impl_->for_weights(), "only gradients of weights accumulate");
    impl_->run(exec, static_cast<const char*>(a), static_cast<const char*>(b), counts, static_cast<char*>(c),
               overwrite, scratch);
}

} // namespace trivium::kernels
