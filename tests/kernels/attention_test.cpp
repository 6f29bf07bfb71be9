#include "kernels/attention.hpp"

#include "attention_support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

template <class T>
void check_forward(const AttentionInputs<T>& in, double room = 1)
{
    INFO(in.text());
    Doubles want_lse;
    const Doubles want = reference::attention(in.sizes(), wide(in.q), wide(in.k), wide(in.v), &want_lse);
    const Tokens first = in.first_queries();
    const auto [o, lse] = stable([&](const Exec& exec) {
        std::vector<T> out(in.dout.size());
        std::vector<Acc<T>> total(static_cast<std::size_t>(queries(in.shape)));
        const TestScratch scratch(attention_scratch<T>(in.shape, exec.threads));
        attention(exec, in.shape, in.q.data(), in.k.data(), in.v.data(),
                  first.empty() ? nullptr : first.data(), out.data(), total.data(), scratch, in.extras());
        return std::tuple(out, total);
    });
    require_close(o, want, room * tolerance<T>, "o");
    require_close(lse, want_lse, tolerance<Acc<T>>, "lse");
}

template <class T>
auto gradients(const Exec& exec, const AttentionInputs<T>& in)
{
    const AttentionShape& shape = in.shape;
    const auto extras = in.extras();
    std::vector<T> o(in.dout.size()), dq(in.q.size()), dk(in.k.size()), dv(in.v.size());
    std::vector<Acc<T>> lse(static_cast<std::size_t>(queries(shape))), dsinks(in.sinks.size(), Acc<T>(3));
    const TestScratch scratch(attention_scratch<T>(shape, exec.threads));
    const TestScratch scratch_grad(attention_grad_scratch<T>(shape, exec.threads));
    attention<T>(exec, shape, in.q.data(), in.k.data(), in.v.data(), nullptr, o.data(), lse.data(), scratch,
                 in.extras());
    attention_grad<T>(exec, shape,
                      {in.dout.data(), in.q.data(), in.k.data(), in.v.data(), o.data(), lse.data(), dq.data(),
                       dk.data(), dv.data(), extras.starts_bs},
                      scratch_grad);
    for (const bool overwrite : {true, false}) // which makes the sum twice the gradient
        if (extras.sinks_gr)
            attention_grad_sinks<T>(exec, shape, in.dout.data(), o.data(), lse.data(), extras.sinks_gr,
                                    dsinks.data(), overwrite);
    return std::tuple(dq, dk, dv, dsinks);
}

} // namespace

TEMPLATE_TEST_CASE("attention", "", TRV_STORAGE_TYPES)
{
    check_forward<TestType>({{1, 1, 1, 1, 1, 1}});
    check_forward<TestType>({{2, 3, 3, 2, 1, 5}});
    check_forward<TestType>({{1, 65, 65, 1, 3, 17}});
    check_forward<TestType>({{2, 130, 130, 2, 2, 64}});
    check_forward<TestType>({{1, 200, 200, 1, 1, 80}});
    check_forward<TestType>({{1, 127, 127, 1, 1, 127}});
    check_forward<TestType>({{1, 70, 70, 1, 1, 16, 0.5}});
    check_forward<TestType>({with_values({2, 66, 66, 2, 2, 24}, 16)});
    check_forward<TestType>({with_values({1, 66, 66, 1, 1, 5}, 33)});
}

TEMPLATE_TEST_CASE("attention of columns has the bits of dense attention", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const AttentionShape& dense :
         {AttentionShape{2, 3, 3, 2, 1, 8}, {1, 65, 65, 1, 3, 16}, {2, 70, 70, 2, 2, 64}}) {
        const i64 q_row = dense.query_row(), k_row = dense.key_row(), row = q_row + 2 * k_row + 8;
        const i64 tokens = dense.batch * dense.q_len;
        const auto whole = random<T>(tokens * row, "qkv");
        const auto part = [&](const std::vector<T>& of, i64 first, i64 columns) {
            std::vector<T> made;
            for (i64 t = 0; t < tokens; ++t)
                made.insert(made.end(), of.begin() + t * row + first, of.begin() + t * row + first + columns);
            return made;
        };
        AttentionInputs<T> in(dense);
        in.q = part(whole, 0, q_row);
        in.k = part(whole, q_row, k_row);
        in.v = part(whole, q_row + k_row, k_row);
        const auto [dq, dk, dv, none] = gradients({}, in);
        AttentionShape shape = dense;
        shape.rows = {row, row, row, row, row, row};
        std::vector<T> o(in.q.size()), want_o(o), gradient(whole.size(), T(3));
        std::vector<Acc<T>> lse(static_cast<std::size_t>(queries(shape))), want_lse(lse);
        const TestScratch scratch(
            std::max(attention_scratch<T>(shape, 1), attention_grad_scratch<T>(shape, 1)));
        attention<T>({}, dense, in.q.data(), in.k.data(), in.v.data(), nullptr, want_o.data(),
                     want_lse.data(), scratch);
        const T *const from = whole.data(), *const keys = from + q_row;
        attention<T>({}, shape, from, keys, keys + k_row, nullptr, o.data(), lse.data(), scratch);
        REQUIRE(same_bits(o, want_o));
        REQUIRE(same_bits(lse, want_lse));
        T *const to = gradient.data(), *const to_keys = to + q_row;
        attention_grad<T>(
            {}, shape,
            {in.dout.data(), from, keys, keys + k_row, o.data(), lse.data(), to, to_keys, to_keys + k_row},
            scratch);
        REQUIRE(same_bits(part(gradient, 0, q_row), dq));
        REQUIRE(same_bits(part(gradient, q_row, k_row), dk));
        REQUIRE(same_bits(part(gradient, q_row + k_row, k_row), dv));
        for (const T& rest : part(gradient, q_row + 2 * k_row, 8)) // nothing else is written
            REQUIRE(static_cast<Acc<T>>(rest) == Acc<T>(3));
    }
}

TEMPLATE_TEST_CASE("attention with large scores", "", TRV_STORAGE_TYPES)
{
    // Large scores have a relative error of 1e-7, which exp propagates.
    check_forward<TestType>({{1, 100, 100, 1, 1, 16}, 4}, sizeof(TestType) == 4 ? 10 : 1);
    check_forward<TestType>({{1, 100, 100, 1, 1, 16}, 1e-3});
}

TEMPLATE_TEST_CASE("attention of new tokens over a cache", "", TRV_STORAGE_TYPES)
{
    check_forward<TestType>({{2, 1, 300, 2, 1, 64}});
    check_forward<TestType>({{2, 1, 300, 2, 4, 64}, 1, {}, 199});
    check_forward<TestType>({{1, 5, 300, 1, 3, 31}, 1, {}, 62});
    check_forward<TestType>({{1, 100, 164, 2, 1, 8}, 1, {}, 64});
    check_forward<TestType>({with_values({2, 5, 100, 1, 4, 24}, 16), 1, {}, 62});
}

namespace {

/// Shapes whose queries see some keys only, with all combinations of limits over the list.
const std::pair<AttentionShape, With> limited_cases[] = {
    {limited({1, 3, 3, 1, 1, 4}, 1), {}},
    {limited({2, 150, 150, 1, 2, 16}, 20), {}},
    {limited({1, 300, 300, 1, 1, 8}, 65), {}},
    {limited({2, 150, 150, 2, 1, 16}, 0, 40), {}},
    {limited({1, 131, 131, 1, 3, 5}, 0, 64), {}},
    {limited({1, 150, 150, 1, 2, 16}, 30, 50), {}},
    {limited({1, 70, 70, 2, 2, 16}, 0, 0, 2), {}},
    {limited({2, 200, 200, 1, 2, 16}, 0), {true, false}},
    {limited({1, 70, 70, 2, 3, 8}, 0), {false, true}},
    {limited({2, 200, 200, 1, 1, 32}, 25), {true, true}},
    {limited({2, 200, 200, 2, 2, 16}, 0, 16, 1.5), {true, false}},
    {limited({2, 140, 140, 2, 2, 17}, 33, 50, 3), {true, true}},
    {limited({1, 40, 40, 1, 2, 8}, 1000, 1000), {}}, // hides nothing
    {with_values(limited({2, 140, 140, 2, 2, 17}, 33, 50, 3), 10), {true, true}},
    {with_values({1, 70, 70, 2, 1, 12}, 20), {}},
};

} // namespace

TEMPLATE_TEST_CASE("attention with windows, chunks, caps, documents and sinks", "", TRV_STORAGE_TYPES)
{
    for (const auto& [shape, with] : limited_cases)
        check_forward<TestType>({shape, 1, with});
    check_forward<TestType>({limited({1, 100, 100, 1, 1, 16}, 10, 0, 30), 4, {false, true}},
                            sizeof(TestType) == 4 ? 10 : 1);
}

TEMPLATE_TEST_CASE("attention with limits over a cache", "", TRV_STORAGE_TYPES)
{
    check_forward<TestType>({limited({2, 1, 300, 2, 4, 16}, 30), 1, {}, 199});
    check_forward<TestType>({limited({2, 1, 300, 2, 2, 16}, 0, 64), 1, {}, 191});
    check_forward<TestType>({limited({2, 1, 300, 2, 2, 16}, 0, 64), 1, {false, true}, 192});
    check_forward<TestType>({limited({1, 90, 300, 1, 3, 31}, 20, 0, 2), 1, {true, true}, 150});
    check_forward<TestType>({limited({2, 7, 300, 1, 2, 8}, 0, 50), 1, {true, false}, 96});
}

namespace {

/// Rows `width` wide of x, [batch, tokens]: those at indices [begin, begin + count) of `order`.
template <class V>
V rows_in_order(const V& x, i64 batch, i64 width, const SequenceOrder& order, i64 begin, i64 count)
{
    V out;
    for (i64 b = 0; b < batch; ++b)
        for (i64 i = begin; i < begin + count; ++i) {
            const auto from = x.begin() + (b * order.tokens + order.position(i)) * width;
            out.insert(out.end(), from, from + width);
        }
    return out;
}

/// Adds `part`, the rows that rows_in_order() gives, to their places in `whole`.
template <class V>
void add_in_place(const V& part, i64 batch, i64 width, const SequenceOrder& order, i64 begin, i64 count,
                  Doubles& whole)
{
    for (i64 b = 0; b < batch; ++b)
        for (i64 i = 0; i < count; ++i)
            for (i64 e = 0; e < width; ++e)
                whole[static_cast<std::size_t>((b * order.tokens + order.position(begin + i)) * width + e)] +=
                    static_cast<double>(part[static_cast<std::size_t>((b * count + i) * width + e)]);
}

} // namespace

// Each rank has its queries, and in turn the keys of each rank or all of them; also with the results of its
// own keys first, to which those of the others are added.
TEMPLATE_TEST_CASE("attention of parts of a sequence in zigzag order is that of the sequence", "",
                   TRV_STORAGE_TYPES)
{
    using T = TestType;
    using A = Acc<T>;
    const auto check = [](const AttentionShape& shape, With with, i64 ranks, bool apart) {
        const AttentionInputs<T> in{shape, 1, with};
        const SequenceOrder order{ranks, shape.q_len};
        const i64 q_row = shape.query_row(), k_row = shape.key_row(), o_row = shape.result_row(),
                  v_row = shape.value_row(), heads = shape.kv_heads * shape.q_per_kv, b = shape.batch;
        Doubles o(in.dout.size()), in_steps(o), dq(in.q.size()), dk(in.k.size()), dv(in.v.size());
        const auto begin_of = [&](i64 rank) {
            return rank * (shape.q_len / ranks) + std::min(rank, shape.q_len % ranks);
        };
        start_runtime();
        const Exec exec{1};
        for (i64 rank = 0; rank < ranks; ++rank) {
            AttentionShape part = shape;
            part.order = order;
            part.first_query = begin_of(rank);
            part.q_len = begin_of(rank + 1) - part.first_query;
            const auto own = [&](const auto& x, i64 width) {
                return rows_in_order(x, b, width, order, part.first_query, part.q_len);
            };
            const auto q = own(in.q, q_row), dout = own(in.dout, o_row);
            const Tokens starts = with.documents ? own(in.starts, 1) : Tokens{};
            const std::int32_t* const begins = with.documents ? starts.data() : nullptr;
            struct Block {
                i64 begin, count;
                std::vector<T> k, v, o;
                std::vector<A> lse;
            };
            std::vector<Block> blocks;
            for (i64 other = 0; other < (apart ? ranks : 1); ++other) {
                Block& block = blocks.emplace_back();
                block.begin = apart ? begin_of(other) : 0;
                block.count = apart ? begin_of(other + 1) - block.begin : shape.kv_len;
                block.k = rows_in_order(in.k, b, k_row, order, block.begin, block.count);
                block.v = rows_in_order(in.v, b, v_row, order, block.begin, block.count);
                block.o.resize(dout.size());
                block.lse.resize(static_cast<std::size_t>(b * heads * part.q_len));
                part.first_key = block.begin;
                part.kv_len = block.count;
                const TestScratch scratch(attention_scratch<T>(part, 1));
                attention<T>(exec, part, q.data(), block.k.data(), block.v.data(), nullptr, block.o.data(),
                             block.lse.data(), scratch,
                             {begins, other == 0 ? in.extras().sinks_gr : nullptr});
            }
            // The blocks together: weighted by the sums of their exponentials.
            std::vector<A> lse = blocks[0].lse;
            for (std::size_t i = 0; i < lse.size(); ++i) {
                Doubles each;
                for (const Block& block : blocks)
                    each.push_back(static_cast<double>(block.lse[i]));
                lse[i] = static_cast<A>(reference::log_sum_exp(each.data(), static_cast<i64>(each.size())));
            }
            std::vector<T> joined(dout.size());
            for (std::size_t i = 0; i < joined.size(); ++i) {
                const i64 row = static_cast<i64>(i) / shape.width_of_values(), head = row % heads,
                          s = row / heads % part.q_len, at = row / heads / part.q_len;
                const auto n = static_cast<std::size_t>((at * heads + head) * part.q_len + s);
                double sum = 0;
                for (const Block& block : blocks)
                    sum += static_cast<double>(block.o[i]) *
                           std::exp(static_cast<double>(block.lse[n]) - static_cast<double>(lse[n]));
                joined[i] = static_cast<T>(static_cast<A>(sum));
            }
            add_in_place(joined, b, o_row, order, part.first_query, part.q_len, o);
            std::vector<A> sum(dout.size(), A(NAN)), lse_of_steps(lse.size(), A(NAN));
            for (std::size_t i = 0; i < blocks.size(); ++i) {
                const Block& block = blocks[(static_cast<std::size_t>(rank) + i) % blocks.size()];
                part.first_key = block.begin;
                part.kv_len = block.count;
                const TestScratch scratch(attention_scratch<T>(part, 1));
                attention<T>(exec, part, q.data(), block.k.data(), block.v.data(), nullptr, nullptr,
                             lse_of_steps.data(), scratch,
                             {begins, i == 0 ? in.extras().sinks_gr : nullptr, i == 0 ? nullptr : sum.data(),
                              i == 0 ? nullptr : lse_of_steps.data(), sum.data()});
            }
            add_in_place(sum, b, o_row, order, part.first_query, part.q_len, in_steps);
            require_close(lse_of_steps, wide(lse), tolerance<A>, "lse of steps");
            sum.assign(q.size(), A(NAN));
            for (const Block& block : blocks) {
                part.first_key = block.begin;
                part.kv_len = block.count;
                std::vector<T> dk_part(block.k.size()), dv_part(block.v.size());
                const TestScratch scratch(attention_grad_scratch<T>(part, 1));
                attention_grad<T>(exec, part,
                                  {dout.data(), q.data(), block.k.data(), block.v.data(), joined.data(),
                                   lse.data(), nullptr, dk_part.data(), dv_part.data(), begins,
                                   &block == blocks.data() ? nullptr : sum.data(), sum.data()},
                                  scratch);
                add_in_place(dk_part, b, k_row, order, block.begin, block.count, dk);
                add_in_place(dv_part, b, v_row, order, block.begin, block.count, dv);
            }
            add_in_place(sum, b, q_row, order, part.first_query, part.q_len, dq);
        }
        const auto [want_dq, want_dk, want_dv, want_sinks] = gradients<T>(exec, in);
        const double room = apart ? 4 : 2; // parts are rounded
        const Doubles want_o = reference::attention(in.sizes(), wide(in.q), wide(in.k), wide(in.v));
        require_close(o, want_o, room * tolerance<T>, "o");
        require_close(in_steps, want_o, room * tolerance<A>, "o in steps"); // not rounded to T
        require_close(dq, wide(want_dq), room * tolerance<T>, "dq");
        require_close(dk, wide(want_dk), room * tolerance<T>, "dk");
        require_close(dv, wide(want_dv), room * tolerance<T>, "dv");
    };
    for (const bool apart : {false, true}) {
        check({1, 150, 150, 1, 2, 16}, {}, 2, apart);
        check({2, 97, 97, 2, 3, 8}, {true, true}, 3, apart);
        check(limited({1, 200, 200, 1, 1, 16}, 25), {true, false}, 4, apart);
        check(limited({1, 90, 90, 2, 1, 8}, 0, 16, 1.5), {false, true}, 4, apart);
        check({1, 16, 16, 1, 1, 4}, {}, 8, apart);
        check(with_values({1, 90, 90, 2, 2, 6}, 4), {true, true}, 3, apart);
    }
}

TEST_CASE("attention without options has the bits of attention whose options hide nothing")
{
    const AttentionShape shape{1, 90, 90, 2, 2, 24};
    const auto q = random<float>(queries(shape) * 24, "q"), k = random<float>(90 * 2 * 24, "k");
    const Tokens starts(90, 0);
    const auto run = [&](const AttentionShape& of, const AttentionExtras<float>& extras) {
        std::vector<float> o(q.size()), lse(static_cast<std::size_t>(queries(of)));
        const TestScratch scratch(attention_scratch<float>(of, 1));
        start_runtime();
        attention<float>({1}, of, q.data(), k.data(), k.data(), nullptr, o.data(), lse.data(), scratch,
                         extras);
        return o;
    };
    const auto plain = run(shape, {});
    CHECK(same_bits(plain, run(limited(shape, 90, 90), {})));
    CHECK(same_bits(plain, run(shape, {starts.data(), nullptr})));
    CHECK_FALSE(same_bits(plain, run(limited(shape, 89), {})));
}

TEST_CASE("attention reads no tile of keys that is hidden from all of its queries")
{
    const auto check = [](const AttentionShape& shape, i64 start, bool documents, i64 unread) {
        const std::int32_t first = static_cast<std::int32_t>(start);
        const auto q = random<float>(queries(shape) * shape.head_dim, "q");
        auto k = random<float>(shape.kv_len * shape.key_row(), "k");
        const Tokens starts(static_cast<std::size_t>(shape.q_len), 130);
        const auto run = [&](const Exec& exec) {
            std::vector<float> o(q.size()), lse(static_cast<std::size_t>(queries(shape)));
            const TestScratch scratch(attention_scratch<float>(shape, exec.threads));
            attention<float>(exec, shape, q.data(), k.data(), k.data(), &first, o.data(), lse.data(), scratch,
                             {documents ? starts.data() : nullptr, nullptr});
            return std::tuple(o, lse);
        };
        const auto before = stable(run);
        std::fill_n(k.begin(), unread * shape.key_row(), NAN);
        CHECK(same_bits(std::get<0>(before), std::get<0>(stable(run))));
    };
    check(limited({1, 2, 300, 1, 2, 8}, 40), 250, false, 192);
    check(limited({1, 2, 300, 1, 2, 8}, 0, 100), 250, false, 192);
    check({1, 2, 300, 1, 2, 8}, 250, true, 128);
}

TEST_CASE("attention does not read the cache beyond what is visible")
{
    const AttentionShape shape{1, 2, 200, 1, 2, 8};
    const std::int32_t start = 70;
    const auto q = random<float>(2 * 2 * 8, "q");
    auto k = random<float>(200 * 8, "k");
    const auto run = [&](const Exec& exec) {
        std::vector<float> o(q.size()), lse(4);
        const TestScratch scratch(attention_scratch<float>(shape, exec.threads));
        attention(exec, shape, q.data(), k.data(), k.data(), &start, o.data(), lse.data(), scratch);
        return std::tuple(o, lse);
    };
    const auto before = stable(run);
    for (std::size_t i = 72 * 8; i < k.size(); ++i)
        k[i] = NAN;
    CHECK(same_bits(std::get<0>(before), std::get<0>(stable(run))));
}

TEMPLATE_TEST_CASE("each sequence of a cache has a length of its own", "", double, float, bf16)
{
    using T = TestType;
    const AttentionShape shape{3, 5, 90, 2, 3, 8}, alone{1, 5, 90, 2, 3, 8};
    const Tokens lengths{80, 0, 31};
    const auto q = random<T>(queries(shape) * 8, "q"), k = random<T>(3 * 90 * shape.key_row(), "k");
    const auto run = [&](const AttentionShape& of, const Tokens& first, i64 sequence) {
        return std::get<0>(stable([&](const Exec& exec) {
            std::vector<T> o(static_cast<std::size_t>(queries(of) * 8));
            std::vector<Acc<T>> lse(static_cast<std::size_t>(queries(of)));
            const TestScratch scratch(attention_scratch<T>(of, exec.threads));
            attention<T>(exec, of, q.data() + sequence * queries(alone) * 8,
                         k.data() + sequence * 90 * of.key_row(), k.data() + sequence * 90 * of.key_row(),
                         first.data(), o.data(), lse.data(), scratch);
            return std::tuple(o);
        }));
    };
    const std::vector<T> together = run(shape, lengths, 0);
    for (i64 b = 0; b < 3; ++b) {
        const std::vector<T> own = run(alone, {lengths[static_cast<std::size_t>(b)]}, b);
        CHECK(same_bits(own, std::vector<T>(together.begin() + b * queries(alone) * 8,
                                            together.begin() + (b + 1) * queries(alone) * 8)));
    }
}

TEST_CASE("the gradient of attention agrees with differences")
{
    for (const auto& [shape, with] : std::vector<std::pair<AttentionShape, With>>{
             {{1, 5, 5, 2, 1, 3}, {}},
             {{2, 4, 4, 1, 3, 5}, {}},
             {{1, 35, 35, 1, 2, 2}, {}},
             {{1, 70, 70, 1, 1, 1}, {}},
             {{1, 3, 6, 1, 1, 4}, {}},
             {with_values({1, 20, 20, 2, 1, 3}, 2), {}},
             {with_values(limited({2, 9, 9, 1, 2, 2}, 4, 0, 0.7), 5), {true, true}},
             {limited({1, 20, 20, 2, 1, 3}, 4), {}},
             {limited({1, 70, 70, 1, 1, 1}, 3), {}},
             {limited({1, 20, 20, 1, 2, 2}, 0, 7), {}},
             {limited({1, 9, 9, 2, 2, 3}, 0, 0, 0.7), {}},
             {limited({2, 35, 35, 1, 2, 2}, 0), {true, false}},
             {limited({2, 6, 6, 2, 2, 3}, 0), {false, true}},
             {limited({2, 35, 35, 1, 2, 2}, 6, 9, 1.5), {true, true}}}) {
        const AttentionInputs<double> in(shape, 1, with);
        const auto [dq, dk, dv, dsinks] = stable([&](const Exec& exec) { return gradients(exec, in); });
        const auto at = [&](const Doubles& x, const Doubles& y, const Doubles& z) {
            return dot(in.dout, reference::attention(in.sizes(), x, y, z));
        };
        require_close(dq, slope([&](const Doubles& x) { return at(x, in.k, in.v); }, in.q), 1e-6, "dq");
        require_close(dk, slope([&](const Doubles& x) { return at(in.q, x, in.v); }, in.k), 1e-6, "dk");
        require_close(dv, slope([&](const Doubles& x) { return at(in.q, in.k, x); }, in.v), 1e-6, "dv");
        if (!with.sinks)
            continue;
        Doubles twice = slope(
            [&](const Doubles& x) {
                auto moved = in.sizes();
                moved.sinks = x;
                return dot(in.dout, reference::attention(moved, in.q, in.k, in.v));
            },
            in.sinks);
        for (double& value : twice)
            value *= 2;
        require_close(dsinks, twice, 1e-6, "dsinks");
    }
}

TEMPLATE_TEST_CASE("the gradient of attention in f32 and bf16 follows that in f64", "", float, bf16)
{
    using T = TestType;
    std::vector<std::pair<AttentionShape, With>> cases{
        {{2, 130, 130, 2, 2, 64}, {}}, {{1, 200, 200, 1, 1, 80}, {}}, {{1, 67, 67, 3, 1, 33}, {}}};
    cases.insert(cases.end(), std::begin(limited_cases), std::end(limited_cases));
    for (const auto& [shape, with] : cases) {
        const AttentionInputs<T> in(shape, 1, with);
        AttentionInputs<double> exact(shape, 1, with);
        exact.q = wide(in.q);
        exact.k = wide(in.k);
        exact.v = wide(in.v);
        exact.dout = wide(in.dout);
        const auto [dq, dk, dv, dsinks] = stable([&](const Exec& exec) { return gradients(exec, in); });
        const auto [wq, wk, wv, wsinks] = gradients({2}, exact);
        const double room = 2 * tolerance<T>; // o is rounded to T
        require_close(dq, wq, room, "dq", least_gradient);
        require_close(dk, wk, room, "dk", least_gradient);
        require_close(dv, wv, tolerance<T>, "dv");
        require_close(dsinks, wsinks, room, "dsinks");
    }
}

TEST_CASE("attention works with less scratch than requested, but not with none")
{
    start_runtime();
    const AttentionShape shape{1, 300, 300, 2, 1, 8};
    const i64 n = 300 * 2 * 8;
    const auto q = random<float>(n, "q");
    std::vector<float> a(static_cast<std::size_t>(n)), b(a), lse(600);
    const TestScratch one(attention_scratch<float>(shape, 1)), three(attention_scratch<float>(shape, 3));
    attention({3}, shape, q.data(), q.data(), q.data(), nullptr, a.data(), lse.data(), one);
    attention({3}, shape, q.data(), q.data(), q.data(), nullptr, b.data(), lse.data(), three);
    CHECK(same_bits(a, b));
    CHECK_THROWS_AS(
        attention({1}, shape, q.data(), q.data(), q.data(), nullptr, a.data(), lse.data(), {nullptr, 64}),
        InternalError);
}
