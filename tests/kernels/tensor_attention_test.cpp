// The source of the attention kernels for tensor cores, in an emulated block of threads, against the naive
// reference.
#include "attention_support.hpp"
#include "emulator/emulator.hpp"
#include "kernels/device/cuda/tensor_attention_backward.hpp"

using namespace trivium;
using namespace trivium::kernels;
using emulator::Block;
using emulator::Launch;

namespace {

u32 blocks_for(u32 extent, int rows) { return static_cast<u32>(ceil_div(extent, rows)); }

template <class T>
std::vector<T> filled(i64 n, T value)
{
    return std::vector<T>(static_cast<std::size_t>(n), value);
}

using Inputs = AttentionInputs<bf16>;

struct Forward {
    std::vector<bf16> o;
    std::vector<float> lse;
};

template <int Dim>
Forward forward(const Inputs& in, bool backwards = false)
{
    using Form = ForwardForm<Dim>;
    const Tokens start = in.first_queries();
    const i64 tokens = in.shape.batch * in.shape.q_len, row = in.shape.query_row();
    Forward out{filled(tokens * row, bf16(NAN)), filled(tokens * row / Dim, NAN)};
    ForwardCall call{TensorShape(in.shape),
                     in.q.data(),
                     in.k.data(),
                     in.v.data(),
                     start.empty() ? nullptr : start.data(),
                     out.o.data(),
                     out.lse.data(),
                     0,
                     {in.shape, in.extras()}};
    call.row_blocks = blocks_for(call.shape.rows, Form::rows);
    Launch launch;
    launch.blocks = call.shape.groups * call.row_blocks;
    launch.threads = Form::threads;
    launch.shared_bytes = Form::shared_bytes;
    launch.backwards = backwards;
    for (const auto* array : {&in.q, &in.k, &in.v})
        launch.reads(*array);
    launch.reads(in.sinks);
    launch.writes(out.o);
    launch.writes(out.lse);
    launch.run([&](Block& block) {
        call.options.any ? attention_forward<Form, true>(block, call) : attention_forward<Form>(block, call);
    });
    return out;
}

struct Gradients {
    std::vector<bf16> dq, dk, dv;
};

template <int Dim>
Gradients backward(const Inputs& in, const Forward& from, bool backwards = false)
{
    using KeyForm = KeyGradientForm<Dim>;
    using QueryForm = QueryGradientForm<Dim>;
    const TensorShape shape(in.shape);
    const AttentionRows rows = in.shape.strides();
    const i64 queries = in.shape.batch * in.shape.q_len, keys = in.shape.batch * in.shape.kv_len;
    Gradients out{filled(queries * rows.dq, bf16(NAN)), filled(keys * rows.dk, bf16(NAN)),
                  filled(keys * rows.dv, bf16(NAN))};
    auto statistics = filled(static_cast<i64>(shape.groups) * shape.padded_rows * 2, static_cast<float>(NAN));
    const BackwardCall call{shape,
                            {in.dout.data(), in.q.data(), in.k.data(), in.v.data(), from.o.data(),
                             from.lse.data(), out.dq.data(), out.dk.data(), out.dv.data()},
                            statistics.data(),
                            blocks_for(shape.rows, QueryForm::rows),
                            blocks_for(shape.kv_len, KeyForm::rows),
                            {in.shape, in.extras()}};
    Launch first;
    first.backwards = backwards;
    for (const auto* array : {&in.q, &in.k, &in.v, &in.dout, &from.o})
        first.reads(*array);
    first.reads(from.lse);
    Launch second = first;

    first.writes(statistics);
    first.blocks = shape.groups * (shape.padded_rows / statistics_block);
    first.threads = statistics_threads;
    first.run([&](Block& block) { row_statistics<Dim>(block, call); });

    second.reads(statistics);
    Launch third = second;
    second.writes(out.dq);
    second.blocks = shape.groups * call.row_blocks;
    second.threads = QueryForm::threads;
    second.shared_bytes = QueryForm::shared_bytes;
    second.run([&](Block& block) {
        call.options.any ? query_gradient<QueryForm, true>(block, call)
                         : query_gradient<QueryForm>(block, call);
    });

    third.writes(out.dk);
    third.writes(out.dv);
    third.blocks = shape.groups * call.key_blocks;
    third.threads = KeyForm::threads;
    third.shared_bytes = KeyForm::shared_bytes;
    third.run([&](Block& block) {
        call.options.any ? key_gradient<KeyForm, true>(block, call) : key_gradient<KeyForm>(block, call);
    });
    return out;
}

template <int Dim>
Forward check_forward(const Inputs& in)
{
    INFO(in.text());
    const Forward got = forward<Dim>(in);
    Doubles lse;
    const Doubles o = reference::attention(in.sizes(), wide(in.q), wide(in.k), wide(in.v), &lse);
    require_close(got.o, o, tolerance<bf16>, "o");
    require_close(got.lse, lse, tolerance<float>, "lse");
    return got;
}

template <int Dim>
Gradients check_both(const Inputs& in)
{
    INFO(in.text());
    const Forward at = check_forward<Dim>(in);
    const Gradients got = backward<Dim>(in, at);
    Doubles dq, dk, dv;
    reference::attention_grad(in.sizes(), wide(in.dout), wide(in.q), wide(in.k), wide(in.v), wide(at.o), dq,
                              dk, dv);
    require_close_gradient(got.dq, dq, "dq");
    require_close_gradient(got.dk, dk, "dk");
    require_close_gradient(got.dv, dv, "dv");
    return got;
}

} // namespace

TEST_CASE("a division by multiplication is a division")
{
    for (u32 d = 1; d < 300; ++d) {
        const Divider by(d);
        for (const u32 n : {0u, 1u, d - 1, d, d + 1, 7 * d - 1, 7 * d, 12345678u, 0x7fffffffu,
                            0x7fffffffu / d * d, 0x7fffffffu / d * d - 1})
            REQUIRE(by.quotient(n) == n / d);
    }
}

TEST_CASE("tiles in shared memory keep every chunk, and matrices have no bank conflicts")
{
    const auto check = [](auto constant) {
        constexpr int dim = constant();
        std::vector<bool> taken(64 * dim / 8);
        for (u32 row = 0; row < 64; ++row)
            for (u32 chunk = 0; chunk < dim / 8; ++chunk) {
                const u32 at = chunk_at<dim>(row, chunk);
                REQUIRE(at % 16 == 0);
                REQUIRE(at / 16 < taken.size());
                REQUIRE_FALSE(taken[at / 16]);
                taken[at / 16] = true;
            }
        for (u32 row = 0; row < 64; row += 8)
            for (u32 chunk = 0; chunk < dim / 8; ++chunk) {
                u32 banks = 0; // in fours
                for (u32 r = 0; r < 8; ++r)
                    banks |= 1u << chunk_at<dim>(row + r, chunk) / 16 % 8;
                CHECK(banks == 0xff);
            }
    };
    check(std::integral_constant<int, 16>());
    check(std::integral_constant<int, 32>());
    check(std::integral_constant<int, 64>());
    check(std::integral_constant<int, 80>());
    check(std::integral_constant<int, 96>());
    check(std::integral_constant<int, 128>());
}

TEST_CASE("tensor attention and its gradient")
{
    // batch, q_len, kv_len, kv_heads, q_per_kv, head_dim, scale
    check_forward<64>({{1, 1, 1, 1, 1, 64}});
    check_both<64>({{1, 3, 3, 1, 1, 64}});
    check_both<64>({{2, 17, 17, 2, 2, 64}});
    check_both<64>({{1, 65, 65, 1, 4, 64}});
    check_both<64>({{1, 130, 130, 1, 1, 64, 0.2}});
    check_both<64>({{1, 50, 77, 1, 3, 64}});
    check_both<64>({{1, 100, 160, 1, 1, 64}}); // includes keys that no query sees
    check_both<128>({{2, 33, 40, 2, 2, 128}});
    check_both<128>({{1, 70, 135, 1, 2, 128, 0.05}});
    check_both<96>({{1, 70, 70, 1, 2, 96}});
    check_both<32>({{1, 140, 140, 1, 1, 32}});
}

TEST_CASE("tensor attention with windows, chunks, caps, documents and sinks, and its gradient")
{
    check_both<64>({limited({1, 3, 3, 1, 1, 64}, 1)});
    check_both<64>({limited({1, 200, 200, 1, 1, 64}, 20)});
    check_both<32>({limited({1, 300, 300, 1, 1, 32}, 65)});
    check_both<64>({limited({1, 150, 150, 1, 2, 64}, 0, 40)});
    check_both<32>({limited({1, 90, 90, 1, 3, 32}, 30, 50)});
    check_both<64>({limited({1, 70, 70, 1, 2, 64}, 0, 0, 2), 2});
    check_both<32>({{2, 140, 140, 1, 2, 32}, 1, {true, false}});
    check_both<64>({{1, 70, 70, 2, 3, 64}, 1, {false, true}});
    check_both<128>({limited({1, 150, 150, 1, 1, 128}, 25, 0, 3), 1, {true, true}});
    check_both<96>({limited({2, 60, 60, 1, 2, 96}, 0, 16, 1.5), 1, {true, false}});
    check_both<32>(
        {limited({1, 100, 130, 2, 1, 32}, 33, 50, 3), 1, {true, true}}); // some keys that no query sees
}

TEST_CASE("tensor attention with limits over a cache reads no hidden tile")
{
    for (const auto& [window, chunk, unread] : {std::tuple{40, 0, 128}, {0, 100, 192}}) {
        Inputs in(limited({2, 5, 230, 1, 3, 64}, window, chunk), 1, {false, true}, 210);
        const Forward before = check_forward<64>(in);
        for (i64 b = 0; b < 2; ++b)
            for (i64 i = 0; i < unread * 64; ++i)
                for (auto* array : {&in.k, &in.v})
                    (*array)[static_cast<std::size_t>(b * 230 * 64 + i)] = bf16(NAN);
        const Forward after = forward<64>(in);
        CHECK(same_bits(before.o, after.o));
        CHECK(same_bits(before.lse, after.lse));
    }
    check_forward<32>({limited({1, 60, 200, 1, 2, 32}, 0, 30, 2), 1, {true, true}, 100});
}

TEST_CASE("tensor attention with large scores")
{
    check_forward<64>({{1, 100, 100, 1, 1, 64, 1}, 4});
    check_forward<64>({{1, 100, 100, 1, 1, 64}, 1e-3});
}

TEST_CASE("tensor attention of new tokens over a cache reads nothing beyond what is visible")
{
    for (const std::int32_t start : {62, 199}) {
        Inputs in({2, 5, 230, 1, 3, 64}, 1, {}, start);
        const Forward before = check_forward<64>(in);
        for (i64 b = 0; b < 2; ++b)
            for (i64 i = (start + 5) * 64; i < 230 * 64; ++i)
                for (auto* array : {&in.k, &in.v})
                    (*array)[static_cast<std::size_t>(b * 230 * 64 + i)] = bf16(NAN);
        const Forward after = forward<64>(in);
        CHECK(same_bits(before.o, after.o));
        CHECK(same_bits(before.lse, after.lse));
    }
    check_forward<128>({{1, 1, 140, 2, 4, 128}, 1, {}, 131});
}

TEST_CASE("tensor attention over a cache knows the length of each sequence")
{
    Inputs in({2, 5, 230, 2, 3, 64}, 1, {}, 62);
    const auto halves = [&](const Inputs& inputs) {
        const Forward all = forward<64>(inputs);
        const auto middle = all.o.begin() + static_cast<std::ptrdiff_t>(all.o.size() / 2);
        return std::pair(std::vector<bf16>(all.o.begin(), middle), std::vector<bf16>(middle, all.o.end()));
    };
    const auto short_ones = halves(in);
    in.start = 199;
    const auto long_ones = halves(in);
    in.lengths = {62, 199};
    const auto both = halves(in);
    CHECK(same_bits(both.first, short_ones.first));
    CHECK(same_bits(both.second, long_ones.second));
}

TEST_CASE("tensor attention is the same bits in whatever order threads and blocks run")
{
    const Inputs in({1, 90, 90, 1, 2, 64});
    const Forward one = forward<64>(in), other = forward<64>(in, true);
    CHECK(same_bits(one.o, other.o));
    CHECK(same_bits(one.lse, other.lse));
    const Gradients a = backward<64>(in, one), b = backward<64>(in, one, true);
    CHECK(same_bits(a.dq, b.dq));
    CHECK(same_bits(a.dk, b.dk));
    CHECK(same_bits(a.dv, b.dv));
}

namespace {

/// The rows of `dense` in the first columns of wider ones, whose other elements are `rest`.
std::vector<bf16> widened(const std::vector<bf16>& dense, i64 row, i64 wide, bf16 rest)
{
    std::vector<bf16> made(dense.size() / static_cast<std::size_t>(row) * static_cast<std::size_t>(wide),
                           rest);
    for (std::size_t i = 0; i < dense.size(); ++i)
        made[i / static_cast<std::size_t>(row) * static_cast<std::size_t>(wide) +
             i % static_cast<std::size_t>(row)] = dense[i];
    return made;
}

} // namespace

TEST_CASE("tensor attention of columns has the bits of dense attention, and writes nothing else")
{
    for (const AttentionShape& shape : {AttentionShape{2, 70, 70, 2, 2, 64}, {1, 50, 77, 1, 3, 64}}) {
        const Inputs dense(shape);
        const i64 q_row = shape.query_row(), k_row = shape.key_row();
        const AttentionRows rows{q_row + 8, k_row + 16, k_row + 24, q_row + 32, k_row + 40, k_row + 48};
        Inputs in = dense;
        in.shape.rows = rows;
        in.q = widened(dense.q, q_row, rows.q, bf16(NAN));
        in.k = widened(dense.k, k_row, rows.k, bf16(NAN));
        in.v = widened(dense.v, k_row, rows.v, bf16(NAN));
        const Forward want = forward<64>(dense), got = forward<64>(in);
        CHECK(same_bits(got.o, want.o));
        CHECK(same_bits(got.lse, want.lse));
        const Gradients want_back = backward<64>(dense, want), back = backward<64>(in, want);
        CHECK(same_bits(back.dq, widened(want_back.dq, q_row, rows.dq, bf16(NAN))));
        CHECK(same_bits(back.dk, widened(want_back.dk, k_row, rows.dk, bf16(NAN))));
        CHECK(same_bits(back.dv, widened(want_back.dv, k_row, rows.dv, bf16(NAN))));
    }
}
