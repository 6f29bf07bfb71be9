// Durations of single ops against formulas of their own: products by size and type, attention of separate
// kernels, slow ranks, and collectives of devices.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/verify.hpp"
#include "plan/cost.hpp"
#include "plan/op_times.hpp"

#include <cmath>

using namespace trivium;

namespace {

/// A device whose ops take no time but what a test gives it.
Machine ideal_device()
{
    Machine m;
    m.is_device = true;
    m.launch = m.collective_latency = m.link_latency = m.node_link_latency = 0;
    m.flops_bf16 = m.flops_f32 = m.flops_f64 = 1e30;
    m.bytes_per_second = m.link_bytes_per_second = 1e30;
    return m;
}

/// The only op of a graph on rank 0 of `mesh`.
template <class Make>
Seconds seconds_of(const Machine& machine, const Mesh& mesh, const Make& make)
{
    Graph g;
    g.mesh = mesh;
    g.at = Coordinates(mesh.axes.size(), 0);
    Builder b(g);
    b.where = {Region::microbatch, Phase::forward, 0, ""};
    make(b);
    return op_seconds(g, machine, 1).at(0);
}

Seconds product(const Machine& machine, i64 m, i64 n, i64 k, bool fp8 = false, i64 ranks = 1)
{
    return seconds_of(machine, {{{"data", ranks}}}, [&](Builder& b) {
        Attributes attrs{.rule = "m k, k n -> m n"};
        if (fp8)
            attrs.fp8 = Fp8Formats{Fp8::e4m3, Fp8::e4m3};
        b.op1(OpKind::matmul,
              {b.value("a", {DType::bf16, {m, k}}, Role::input),
               b.value("b", {DType::bf16, {k, n}}, Role::input)},
              attrs);
    });
}

} // namespace

TEST_CASE("a product is the less efficient the smaller it is: half as much at product_half")
{
    Machine m = ideal_device();
    m.flops_bf16 = 1e14;
    m.product_efficiency = 0.8;
    m.product_half = 600;
    const auto efficiency = [&](i64 rows, i64 columns, i64 inner) {
        return 2. * static_cast<double>(rows * columns * inner) / (product(m, rows, columns, inner) * 1e14);
    };
    CHECK(efficiency(600, 600, 600) == Approx(0.4));
    CHECK(efficiency(1 << 20, 1 << 20, 1 << 20) == Approx(0.8).epsilon(0.001));
    CHECK(efficiency(4096, 4096, 4096) == Approx(0.8 * 4096 / 4696));
    // The harmonic mean of the extents counts: at equal work a square is the best, and more of any extent is
    // never worse.
    CHECK(efficiency(2048, 2048, 2048) > efficiency(512, 8192, 2048));
    CHECK(efficiency(512, 8192, 2048) == Approx(efficiency(2048, 512, 8192)));
    for (i64 size = 16; size < 1 << 15; size *= 2) {
        CHECK(efficiency(2 * size, 1024, 1024) > efficiency(size, 1024, 1024));
        CHECK(product(m, 2 * size, 1024, 1024) > product(m, size, 1024, 1024));
    }
}

TEST_CASE("products in FP8 are faster if the machine has them, by less than its FLOP/s")
{
    Machine m = ideal_device();
    m.flops_bf16 = 1e15;
    m.bytes_per_second = 4e12;
    CHECK(product(m, 8192, 8192, 8192, true) == product(m, 8192, 8192, 8192));
    m.flops_fp8 = 2e15;
    for (const double half : {0., 600.}) {
        m.product_half = half;
        CHECK(product(m, 8192, 8192, 8192, true) < 0.9 * product(m, 8192, 8192, 8192));
        CHECK(product(m, 8192, 8192, 8192, true) > 0.5 * product(m, 8192, 8192, 8192));
    }
    // Rounding reads and writes the operands: thin products do not gain.
    CHECK(product(m, 128, 8192, 8192, true) > product(m, 128, 8192, 8192));
}

TEST_CASE("FP8 reads the operands twice in their type, and once in a byte each")
{
    Machine m = ideal_device();
    m.flops_fp8 = 1e30;
    m.bytes_per_second = 1e9;
    for (const DType type : {DType::bf16, DType::f32}) {
        const Seconds seconds = seconds_of(m, {}, [&](Builder& b) {
            b.op1(OpKind::matmul,
                  {b.value("a", {type, {64, 32}}, Role::input), b.value("b", {type, {32, 16}}, Role::input)},
                  {.rule = "m k, k n -> m n", .fp8 = Fp8Formats{Fp8::e4m3, Fp8::e4m3}});
        });
        const auto bytes = static_cast<double>(size_of(type));
        const double in = 64 * 32 + 32 * 16, out = 64 * 16;
        CHECK(seconds * 1e9 == Approx(in * (2 * bytes + 1) + in + out * bytes));
    }
}

TEST_CASE("a measured collective takes as long as measured, and what a delay adds to its messages and bytes")
{
    Machine m = ideal_device();
    m.is_device = false;
    m.link_latency = 1;
    m.link_bytes_per_second = 100;
    m.ops = {"all_gather f32 4000:2000"};
    const auto gather = [](const Machine& machine, i64 ranks) {
        return seconds_of(machine, {{{"data", ranks}}}, [&](Builder& b) {
            b.all_gather(b.value("x", {DType::f32, {1000}}, Role::input), "data", 0, 1000 * ranks);
        });
    };
    CHECK(gather(m, 2) == Approx(2));
    CHECK(gather(with_delay(m, 3, 0), 2) == Approx(3 + 2));
    CHECK(gather(with_delay(m, 3, 1000), 2) == Approx(3 + 4));
    CHECK(gather(with_delay(m, 3, 1000), 3) == Approx(2 * 3 + 8));
    m.ops = {"all_gather f32 4000:1000"}; // another machine's are not kept
    CHECK(gather(m, 2) == Approx(4));
    m.ops = {};
    CHECK(gather(m, 2) == Approx(1 + 40));
}

TEST_CASE("ranks wait for the slowest of them; one rank does not")
{
    Machine m = ideal_device();
    m.flops_bf16 = 1e12;
    const Seconds alone = product(m, 1000, 1000, 1000);
    m.stragglers = 0.01;
    CHECK(product(m, 1000, 1000, 1000) == alone);
    CHECK(product(m, 1000, 1000, 1000, false, 64) ==
          Approx(alone * (1 + 0.01 * std::sqrt(2 * std::log(64)))));
    double before = alone;
    for (i64 ranks = 2; ranks <= 1 << 14; ranks *= 2) {
        const Seconds now = product(m, 1000, 1000, 1000, false, ranks);
        CHECK(now > before);
        CHECK(now < 1.05 * alone);
        before = now;
    }
}

TEST_CASE("attention of separate kernels moves every pair of a query and a key, also those that are masked")
{
    // 2 sequences of 512 tokens, 3 key-value heads of 2 query heads of 64.
    const i64 s = 512;
    const double pairs = 2 * 6 * static_cast<double>(s * s);
    const auto seconds = [&](const Machine& m, bool backward, bool further = false) {
        return seconds_of(m, {}, [&](Builder& b) {
            const auto value = [&](const char* name, Shape shape, DType type = DType::bf16) {
                return b.value(name, {type, std::move(shape)}, Role::input);
            };
            const ValueId q = value("q", {2, s, 3, 2, 64}), k = value("k", {2, s, 3, 64}),
                          v = value("v", {2, s, 3, 64});
            std::vector<ValueId> operands{q, k, v};
            if (backward)
                operands = {value("do", {2, s, 3, 2, 64}),       q, k, v, value("o", {2, s, 3, 2, 64}),
                            value("l", {2, 3, 2, s}, DType::f32)};
            if (further) { // keys of another rank, with what there is so far
                operands.push_back(value("before", {2, s, 3, 2, 64}, DType::f32));
                if (!backward)
                    operands.push_back(value("l", {2, 3, 2, s}, DType::f32));
            }
            b.op(backward  ? further ? OpKind::attention_grad_step : OpKind::attention_grad
                 : further ? OpKind::attention_step
                           : OpKind::attention,
                 operands);
        });
    };
    Machine m = ideal_device();
    m.bytes_per_second = 1e12;
    const Seconds fused[] = {seconds(m, false), seconds(m, true)};
    m.fused_attention = false;
    // Bytes a pair. Forward: scores are written, softmax and dropout read and write, with a mask, the product
    // with the values reads. Backward: the product that makes dP writes, dropout's and softmax' gradients
    // read and write (mask, P), and three products read.
    CHECK(seconds(m, false) * 1e12 == Approx(pairs * (2 + 4 + 4 + 1 + 2)));
    CHECK(seconds(m, true) * 1e12 == Approx(pairs * (2 + 4 + 1 + 6 + 6)));
    CHECK(seconds(m, false) > 10 * fused[0]);
    // The products are over all pairs.
    m.bytes_per_second = 1e30;
    m.flops_bf16 = 1e12;
    CHECK(seconds(m, false) * 1e12 == Approx(2 * 2 * 64 * pairs));
    CHECK(seconds(m, true) * 1e12 == Approx(4 * 2 * 64 * pairs));
    // The same of further keys, by formulas and as measured.
    for (const bool backward : {false, true})
        CHECK(seconds(m, backward, true) == Approx(seconds(m, backward)));
    m.ops = {"attention bf16 query 1:1e3", "attention_grad bf16 query 1:2e3"};
    for (const bool backward : {false, true}) {
        CHECK(seconds(m, backward) > 1e3);
        CHECK(seconds(m, backward, true) == Approx(seconds(m, backward)));
    }
    // By what one query of one head takes: 2 FLOPs for each number of the keys and of the values that it
    // sees.
    const Seconds slow = seconds(m, false);
    const double query = 2 * 2 * 64 * static_cast<double>(s + 1) / 2;
    m.ops = {str("attention bf16 query ", query / 2, ":1e3 ", query * 2, ":4e3")};
    CHECK(seconds(m, false) == Approx(slow / 2));
}

TEST_CASE("part of the tensor axis' traffic runs while products run")
{
    Machine m = ideal_device();
    m.link_bytes_per_second = 1000;
    const auto gather = [&](const char* axis) {
        return seconds_of(m, {{{"data", 2}, {"tensor", 2}}}, [&](Builder& b) {
            b.all_gather(b.value("x", {DType::f32, {1000}}, Role::input), axis, 0, 2000);
        });
    };
    CHECK(gather("tensor") == Approx(4));
    m.tensor_overlap = 0.25;
    CHECK(gather("tensor") == Approx(3));
    CHECK(gather("data") == Approx(4));
    m.link_efficiency = 0.5;
    CHECK(gather("data") == Approx(8));
}

TEST_CASE("a collective of devices takes the protocol that suits its bytes")
{
    Machine m = ideal_device();
    m.collective_latency = 7e-6;
    m.link_latency = 1e-6;
    m.node_link_latency = 3e-6;
    m.link_bytes_per_second = 300e9;
    m.node_link_bytes_per_second = 25e9;
    m.ranks_per_node = 8;
    const Mesh mesh{{{"data", 1024}}};
    Seconds before = 0;
    for (Bytes bytes = 1; bytes < Bytes{1} << 40; bytes *= 4) {
        const TransferCost cost = transfer_cost("data", mesh, m, bytes);
        const Seconds now = cost.start + cost.messages + static_cast<double>(bytes) / cost.bytes_per_second;
        CHECK(now > before);
        before = now;
    }
    // A little: the start and 1023 messages, 127 of them between nodes. Much: 8 network cards.
    const TransferCost small = transfer_cost("data", mesh, m, 1),
                       large = transfer_cost("data", mesh, m, Bytes{1} << 38);
    CHECK(small.start == 7e-6);
    CHECK(small.messages == Approx(896 * 1e-6 + 127 * 3e-6));
    CHECK(large.messages > 3 * small.messages);
    CHECK(large.bytes_per_second == Approx(200e9));
}

TEST_CASE("a device computes more slowly while a collective runs")
{
    Graph g;
    g.mesh.axes = {{"data", 2}};
    g.at = {0};
    Builder b(g);
    b.where = {Region::prologue, Phase::forward, 0, ""};
    const ValueId x = b.value("x", {DType::f32, {1000}}, Role::parameter),
                  y = b.value("y", {DType::f32, {1000}}, Role::parameter);
    b.all_gather(x, "data", 0, 2000); // sends 4000 bytes
    b.cast_to(y, DType::f64);         // 12000 bytes
    const Schedule schedule = build_schedule(g, {});
    Machine m = ideal_device();
    m.link_share = 0.1;
    const auto end_of_compute = [&](double link, double memory) {
        m.link_bytes_per_second = 4000 / link;
        m.bytes_per_second = 12000 / memory;
        const Timeline t = simulate(g, schedule, m, 1);
        Seconds end = 0;
        for (std::size_t i = 0; i < schedule.steps.size(); ++i)
            if (schedule.steps[i].queue == queue_compute)
                end = std::max(end, t.spans[i].end);
        return end;
    };
    CHECK(end_of_compute(4, 1) == Approx(1 / 0.9));
    CHECK(end_of_compute(2, 10) == Approx(10.2)); // for 2 of the 10 seconds
    m.link_share = 1;                             // nothing runs meanwhile
    CHECK(end_of_compute(4, 1) == Approx(5));
    m.link_share = 0;
    CHECK(end_of_compute(4, 1) == Approx(1));
}

TEST_CASE("measured ops count instead of formulas, between sizes by their logarithms")
{
    Machine m = ideal_device();
    m.is_device = false;
    m.ops = {"matmul bf16 nn 100:1e11 400:4e11", "gelu f32 1000:1e9"};
    m.ops_threads = 2;
    const auto rate = [&](i64 n) { // with one thread
        return 2. * static_cast<double>(n * n * n) / product(m, n, n, n);
    };
    CHECK(rate(100) == Approx(1e11 / 2));
    CHECK(rate(200) == Approx(2e11 / 2));
    CHECK(rate(400) == Approx(4e11 / 2));
    CHECK(rate(1000) == Approx(4e11 / 2));   // beyond what was measured, as at its end
    CHECK(product(m, 8, 4096, 4096) < 1e-9); // a thin product is another kind
    const auto gelu = [&](DType type) {
        return seconds_of(m, {}, [&](Builder& b) {
            b.op1(OpKind::gelu, {b.value("x", {type, {1000}}, Role::input)});
        });
    };
    CHECK(gelu(DType::f32) == Approx(2 * 8000 / 1e9));
    CHECK(gelu(DType::bf16) < 1e-9);     // not measured
    m.ops = {"matmul bf16 nt 100:1e11"}; // another form is near enough, another type is not
    CHECK(rate(100) == Approx(1e11 / 2));
    m.ops = {"matmul f32 nn 100:1e11", "matmul bf16 thin nn 100:1e11"};
    CHECK(rate(100) > 1e20);
    CHECK_THROWS_AS(OpTimes({"gelu f32 1:2", "gelu f32 1:3"}), UserError);
    for (const char* line : {"", "gelu f32", "1:2", "gelu f32 1:2 x", "gelu f32 2:1 1:1", "gelu f32 1:-1",
                             "gelu f32 1:nan", "gelu f32 0:1", "gelu f32 1:1e-320"})
        CHECK_THROWS_AS(OpTimes({line}), UserError);
}

TEST_CASE("lines of measured ops have the sums of samples of similar sizes")
{
    const std::vector<std::string> lines = lines_of(
        {{"gelu f32", 1000, 1000, 1e-6}, {"gelu f32", 1010, 3030, 2e-6}, {"gelu f32", 8000, 8000, 1e-6}});
    CHECK(lines == std::vector<std::string>{"gelu f32 1008:1.343e+09 8000:8e+09"});
    CHECK_NOTHROW(OpTimes(lines));
    // Neighbours whose printed sizes are the same.
    const std::vector<OpSample> near{{"gelu f32", 1024 * 1.18920, 1, 1e-6},
                                     {"gelu f32", 1024 * 1.18922, 1, 1e-6}};
    CHECK_NOTHROW(OpTimes(lines_of(near)));
}

TEST_CASE("a convolution multiplies and adds once per output, channel and index of its window")
{
    Graph g;
    Builder b(g);
    b.where = {Region::microbatch, Phase::forward, 0, ""};
    Attributes attrs;
    attrs.lists.set(Attr::stride, {2, 2});
    attrs.lists.set(Attr::low, {1, 1});
    attrs.lists.set(Attr::high, {1, 1});
    b.op1(OpKind::convolution,
          {b.value("x", {DType::f32, {5, 6, 16, 16}}, Role::input),
           b.value("w", {DType::f32, {7, 6, 3, 3}}, Role::input)},
          attrs);
    CHECK(flops_of(g, g.ops[0]) == 2. * 5 * 7 * 8 * 8 * 6 * 9);
}

TEST_CASE("grouped products: the rows of the fullest rank, as far as there are places, at their own rate")
{
    Graph g;
    g.name = "g";
    g.mesh = {{{"data", 1}}};
    g.at = {0};
    Builder b(g);
    b.where = {Region::microbatch, Phase::forward, 0, ""};
    Attributes attributes;
    attributes.lists.set(Attr::groups, {1});
    attributes.lists.set(Attr::expected, {100});
    b.op1(OpKind::grouped_matmul,
          {b.value("rows", {DType::f32, {1, 150, 64}}, Role::input),
           b.value("weight", {DType::f32, {4, 64, 32}}, Role::input),
           b.value("counts", {DType::i32, {1, 4}}, Role::input)},
          attributes);
    verify(g, Level::local);
    Machine machine;
    machine.launch = 0;
    machine.flops_f32 = 1e6; // so slow that its FLOPs decide
    const auto seconds = [&] { return op_seconds(g, machine, 1).at(0); };
    const auto zeros = [&](double rows) {
        return rows * 32 * 4 / (machine.memory_efficiency * machine.bytes_per_second);
    };
    const double flops = 2. * 100 * 64 * 32;
    CHECK(seconds() == Approx(flops / 1e6 + zeros(50)));
    machine.expert_load = 1.25;
    CHECK(seconds() == Approx(1.25 * flops / 1e6 + zeros(25)));
    machine.expert_load = 3; // the buffer has 1.5 times the mean
    CHECK(seconds() == Approx(1.5 * flops / 1e6));
    machine.expert_load = 1;
    machine.flops_grouped = 1e5;
    CHECK(seconds() == Approx(flops / 1e5 + zeros(50)));
    machine.flops_grouped = 1e7; // at most
    CHECK(seconds() == Approx(flops / 1e6 + zeros(50)));
}
