// Model FLOPs by hand, and what Steps cost.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/verify.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/memory/offload.hpp"
#include "passes/optimizer.hpp"
#include "passes/simplify.hpp"
#include "plan/cost.hpp"
#include "plan/report.hpp"

#include <tuple>

using namespace trivium;

namespace {

Graph training_graph(const ModelConfig& m, i64 batch)
{
    return simplify(
        add_optimizer(autodiff(build_loss_graph(m, {batch, DType::f32, DType::f32}), {}), {1, 0.1}));
}

/// A device with links of 1000 bytes per second, of 100 between nodes.
Machine machine_with_slow_nodes()
{
    Machine machine;
    machine.launch = 0.5;
    machine.collective_latency = 0.25;
    machine.link_latency = 2;
    machine.node_link_latency = 10;
    machine.link_bytes_per_second = 1000;
    machine.node_link_bytes_per_second = 100;
    machine.is_device = true;
    return machine;
}

} // namespace

TEST_CASE("model FLOPs of GPT-2 124M are 6 N tokens and causal attention")
{
    ModelConfig m = preset("gpt2-124m");
    m.seq = 256;
    resolve(m);
    const i64 batch = 4;
    // N: the weights by which a token is multiplied. Per layer q, k, v, o (768 x 768 each) and up, down (768
    // x 3072 each); the tied table once, as the head: looking a row up costs nothing.
    const double n = 12.0 * (4 * 768 * 768 + 2 * 768 * 3072) + 50257.0 * 768;
    const double tokens = 4.0 * 256;
    // Q K' and P V: 2 x 2 x 64 for each of 12 heads, 12 layers and the 256 x 257 / 2 pairs that a query sees;
    // three times, as the backward pass costs twice the forward one.
    const double attention = 3.0 * 4 * 64 * 12 * 12 * 4 * (256.0 * 257 / 2);
    const Graph graph = training_graph(m, batch);
    CHECK(model_flops(graph, 1) == Approx(6 * n * tokens + attention).epsilon(1e-12));
    CHECK(model_flops(graph, 3) == Approx(3 * model_flops(graph, 1)).epsilon(1e-12));
    // The ops of the backward pass have the same FLOPs: only real work is counted.
    double done = 0;
    for (const Op& op : graph.ops)
        done += flops_of(graph, op);
    CHECK(done == Approx(model_flops(graph, 1)).epsilon(1e-12));
}

TEST_CASE("model FLOPs of a grouped-query Llama, by hand")
{
    ModelConfig m;
    m.layers = 3;
    m.dim = 32;
    m.heads = 4;
    m.kv_heads = 2;
    m.ffn_dim = 50;
    m.vocab = 100;
    m.seq = 10;
    const double n = 3.0 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 50) + 100.0 * 32;
    const double attention = 3.0 * 4 * 8 * 4 * 3 * 2 * (10.0 * 11 / 2);
    CHECK(model_flops(training_graph(m, 2), 1) == Approx(6 * n * 20 + attention).epsilon(1e-12));
}

TEST_CASE("FLOPs of attention count the keys of a window and a chunk")
{
    const auto pairs = [](i64 queries, i64 keys, i64 window, i64 chunk) {
        Graph g;
        Builder b(g);
        const ValueId q = b.value("q", {DType::f32, {2, queries, 3, 2, 4}}, Role::input),
                      k = b.value("k", {DType::f32, {2, keys, 3, 4}}, Role::input);
        Attributes limits;
        if (window > 0)
            limits.lists.set(Attr::window, {window});
        if (chunk > 0)
            limits.lists.set(Attr::chunk, {chunk});
        const auto o = b.op(OpKind::attention, {q, k, k}, limits);
        b.op(OpKind::attention_grad, {o[0], q, k, k, o[0], o[1]}, limits);
        const double one = 4.0 * 2 * 3 * 2 * 4; // two products of 4 elements, for 2 samples of 6 heads
        CHECK(flops_of(g, g.ops[1]) == 2 * flops_of(g, g.ops[0]));
        return flops_of(g, g.ops[0]) / one;
    };
    const auto seen = [](i64 queries, i64 keys, i64 window, i64 chunk) { // key by key
        double n = 0;
        for (i64 p = keys - queries; p < keys; ++p)
            for (i64 t = 0; t <= p; ++t)
                n += (window == 0 || p - t < window) && (chunk == 0 || t / chunk == p / chunk);
        return n;
    };
    for (const i64 window : {0, 1, 5, 9, 40})
        for (const i64 chunk : {0, 1, 4, 7, 23, 50})
            for (const i64 queries : {1, 6, 23})
                CHECK(pairs(queries, 23, window, chunk) == seen(queries, 23, window, chunk));
}

namespace {

std::vector<Seconds> durations(const Timeline& timeline)
{
    std::vector<Seconds> all;
    for (const Span& span : timeline.spans)
        all.push_back(span.end - span.begin);
    return all;
}

} // namespace

TEST_CASE("the duration of a Step is the larger of its work and its traffic, plus a launch")
{
    ModelConfig m = preset("gpt2-124m");
    m.layers = 1;
    m.seq = 64;
    const Graph graph = training_graph(m, 1);
    const Schedule schedule = build_schedule(graph, {2});
    Machine machine;
    const Timeline timeline = simulate(graph, schedule, machine, 2);
    const std::vector<Seconds> seconds = durations(timeline);
    REQUIRE(seconds.size() == schedule.steps.size());
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        const Step& step = schedule.steps[i];
        if (step.kind != StepKind::op) {
            CHECK(seconds[i] == Approx(machine.launch));
            continue;
        }
        const Op& op = graph[step.op];
        const double work = flops_of(graph, op) / (2 * machine.flops_f32);
        const double traffic = static_cast<double>(bytes_of(graph, op)) / machine.bytes_per_second;
        CHECK(seconds[i] == Approx(machine.launch + std::max(work, traffic)));
    }
    CHECK(timeline.length() >= timeline.busy(schedule, queue_compute));
    CHECK(timeline.busy(schedule, queue_compute) > 0);
}

TEST_CASE("a processor's peak in f64 is half of that in f32: its vectors hold half as many values")
{
    CHECK(2 * Machine{}.peak(DType::f64, 3) == Machine{}.peak(DType::f32, 3));
}

TEST_CASE("a transfer takes its bytes over the host's link, an update on the host over the host's memory")
{
    ModelConfig m = preset("gpt2-124m");
    m.layers = 1;
    m.seq = 64;
    const Graph graph = offload_optimizer(training_graph(m, 1));
    const Schedule schedule = build_schedule(graph, {1});
    Machine machine;
    machine.host_link_bytes_per_second = 3e9;
    machine.host_bytes_per_second = 7e9;
    const std::vector<Seconds> seconds = durations(simulate(graph, schedule, machine, 1));
    int tables = 0; // f32[50257,768]: copied in, its gradient copied out, updated from 4 tensors to 3
    const double bytes = 4.0 * 50257 * 768;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        const Step& step = schedule.steps[i];
        if (step.kind != StepKind::op ||
            static_cast<double>(graph[graph[step.op].operands[0]].type.bytes()) != bytes)
            continue;
        const std::string& queue = schedule.queues[static_cast<std::size_t>(step.queue)];
        if (queue == "to_host" || queue == "to_device")
            CHECK(seconds[i] == Approx(machine.launch + bytes / 3e9));
        else if (queue == "host")
            CHECK(seconds[i] == Approx(machine.launch + (7 * bytes + 8 * 8) / 7e9));
        tables += queue == "to_host" || queue == "to_device" || queue == "host";
    }
    CHECK(tables == 3);
    machine.host_link_bytes_per_second = machine.host_bytes_per_second = 0; // as the device's memory
    CHECK(machine.host_link_rate() == machine.bytes_per_second);
    CHECK(machine.host_rate() == machine.bytes_per_second);
}

TEST_CASE("collectives of two axes that share a link slow each other down")
{
    // Ranks data x tensor; two gathers that wait for nothing.
    Graph g;
    g.mesh.axes = {{"data", 2}, {"tensor", 2}};
    g.at = {0, 0};
    Builder b(g);
    b.where = {Region::prologue, Phase::forward, 0, ""};
    const ValueId x = b.value("x", {DType::f32, {1000}}, Role::parameter),
                  y = b.value("y", {DType::f32, {3000}}, Role::parameter);
    b.all_gather(x, "data", 0, 2000);
    b.all_gather(y, "tensor", 0, 6000);
    const Schedule schedule = build_schedule(g, {});
    Machine machine;
    machine.launch = machine.link_latency = 0;
    machine.link_bytes_per_second = 4000; // 1 s and 3 s
    const auto spans_on = [&](const Machine& m) {
        const Timeline t = simulate(g, schedule, m, 1);
        std::vector<Span> spans;
        for (std::size_t i = 0; i < schedule.steps.size(); ++i)
            if (schedule.steps[i].kind == StepKind::op)
                spans.push_back(t.spans[i]);
        return spans;
    };
    const std::vector<Span> shared = spans_on(machine);
    REQUIRE(shared.size() == 2);
    CHECK(shared[0].end == Approx(2)); // half the bandwidth each, until the first is over
    CHECK(shared[1].end == Approx(4));
    machine.ranks_per_node = 2; // data leaves the node, tensor does not
    machine.node_link_bytes_per_second = 2000;
    const std::vector<Span> apart = spans_on(machine);
    CHECK(apart[0].end == Approx(2));
    CHECK(apart[1].end == Approx(3));
}

TEST_CASE("a collective along a joint axis costs what it does along one axis with the same ranks on nodes")
{
    const auto seconds = [](const Mesh& mesh, const std::string& axis, i64 ranks_per_node, bool is_device) {
        Graph g;
        g.mesh = mesh;
        g.at = Coordinates(mesh.axes.size(), 0);
        Builder b(g);
        b.where = {Region::prologue, Phase::forward, 0, ""};
        b.all_gather(b.value("x", {DType::f32, {1000}}, Role::parameter), axis, 0, 4000);
        Machine machine;
        machine.is_device = is_device;
        machine.link_bytes_per_second = 1000;
        machine.node_link_bytes_per_second = 100;
        machine.node_link_latency = 3;
        machine.ranks_per_node = ranks_per_node;
        return simulate(g, build_schedule(g, {}), machine, 1).length();
    };
    const Mesh one{{{"all", 4}}}, several{{{"data", 2}, {"pipeline", 2}, {"tensor", 2}}};
    for (const bool is_device : {false, true}) {
        CHECK(seconds(several, "data+tensor", 2, is_device) == seconds(one, "all", 2, is_device));
        CHECK(seconds(several, "tensor+pipeline", 4, is_device) == seconds(one, "all", 4, is_device));
        CHECK(seconds(several, "data+pipeline", 2, is_device) == seconds(one, "all", 1, is_device));
        CHECK(seconds(several, "data+tensor", 2, is_device) > seconds(several, "data+tensor", 8, is_device));
    }
}

TEST_CASE("an exchange of boxes: a message per peer, and the bytes of the busier direction")
{
    // Four ranks along x+y, on two nodes or one. Each sends its 1000 numbers to the next rank, rank 1 also
    // 500 of them to rank 3.
    const auto graph_of = [](i64 rank) {
        Graph g;
        g.name = "g";
        g.mesh = {{{"x", 2}, {"y", 2}}};
        g.at = g.mesh.coordinates(rank);
        Builder b(g);
        b.where = {Region::prologue, Phase::forward, 0, ""};
        b.op1(OpKind::halo, {b.value("p", {DType::f32, {1000}}, Role::parameter)},
              {.axis = "x+y",
               .lists = {{Attr::shape,
                          {rank == 3  ? 1500
                           : rank > 0 ? 1000
                                      : 0}},
                         {Attr::owned, {0, 1000, -1000, 1000, -2000, 1000, -3000, 1000}},
                         {Attr::needed, {0, 0, 0, 1000, -1000, 1000, -2000, 1500}}}});
        verify(g, Level::local);
        return g;
    };
    Machine machine = machine_with_slow_nodes();
    const auto seconds = [&](i64 rank) { return op_seconds(graph_of(rank), machine, 1).at(0); };
    const double start = 0.75;
    CHECK(bytes_sent(graph_of(0), graph_of(0).ops[0]) == 4000);
    CHECK(bytes_sent(graph_of(1), graph_of(1).ops[0]) == 6000);
    CHECK(bytes_sent(graph_of(3), graph_of(3).ops[0]) == 0);
    CHECK(seconds(0) == Approx(start + 2 + 4));
    CHECK(seconds(1) == Approx(start + 2 * 2 + 6));
    machine.ranks_per_node = 2;
    CHECK(seconds(0) == Approx(start + 2 + 4));               // rank 1 is on its node
    CHECK(seconds(1) == Approx(start + 2 + 4 + 2 * 10 + 60)); // ranks 2 and 3 are not
    CHECK(seconds(2) == Approx(start + 2 + 4 + 10 + 40));
    CHECK(seconds(3) == Approx(start + 2 + 4 + 10 + 20));
    machine.is_device = false;
    machine.launch = 0;
    CHECK(seconds(0) == Approx(0.25 + 2 + 4));

    // Ranks on one clock: an exchange begins when those that send something have come to it.
    std::vector<Graph> graphs;
    std::vector<Schedule> schedules;
    for (i64 rank = 0; rank < 4; ++rank) {
        graphs.push_back(graph_of(rank));
        schedules.push_back(build_schedule(graphs.back(), {}));
    }
    const auto begins_after = [&](const std::vector<Seconds>& ready, std::vector<std::size_t> simulated) {
        std::vector<StageProgram> programs;
        for (const std::size_t rank : simulated)
            programs.push_back({&graphs[rank], &schedules[rank]});
        std::vector<Seconds> begins;
        for (std::size_t i = 0; const Timeline& t : simulate(programs, machine, 1, ready))
            for (const Schedule& s = schedules[simulated[i++]]; const Step& step : s.steps)
                if (step.kind == StepKind::op)
                    begins.push_back(t.spans[static_cast<std::size_t>(&step - s.steps.data())].begin);
        return begins;
    };
    CHECK(begins_after({9, 0, 0, 0}, {0, 1, 2, 3}) == std::vector<Seconds>{9, 9, 0, 0});
    CHECK(begins_after({0, 9, 0, 0}, {0, 1, 2, 3}) == std::vector<Seconds>{0, 9, 9, 9});
    CHECK(begins_after({9, 0, 0}, {0, 2, 3}) == std::vector<Seconds>{9, 0, 0});
}

TEST_CASE("an exchange of rows: the bytes of equally loaded experts, within nodes and between them at once")
{
    Graph g;
    g.name = "g";
    g.mesh = {{{"data", 8}}};
    g.at = {1};
    Builder b(g);
    b.where = {Region::microbatch, Phase::forward, 0, ""};
    Attributes attributes{.axis = "data:(2)4"};
    attributes.lists.set(Attr::groups, {1});
    attributes.lists.set(Attr::begin, {1});
    attributes.lists.set(Attr::count, {400});
    attributes.lists.set(Attr::expected, {100});
    b.op1(OpKind::exchange_rows,
          {b.value("rows", {DType::f32, {1, 200, 10}}, Role::input),
           b.value("counts", {DType::i32, {4, 8}}, Role::input)},
          attributes);
    verify(g, Level::local);
    Machine machine = machine_with_slow_nodes();
    const auto seconds = [&] { return op_seconds(g, machine, 1).at(0); };
    CHECK(bytes_sent(g, g.ops[0]) == 3000); // of 4000, the rest is its own
    // Behind the rows that come, 300 places of 10 numbers are set to 0.
    const double zeros = 300 * 10 * 4 / (machine.memory_efficiency * machine.bytes_per_second);
    // A peer has two experts, so two messages. The host waits for the counts, then launches each.
    CHECK(seconds() == Approx(7 * 0.5 + 0.25 + 6 * 2 + 3 + zeros));
    machine.ranks_per_node = 2;
    CHECK(seconds() == Approx(7 * 0.5 + 0.25 + 2 * 2 + 4 * 10 + 20 + zeros));
    machine.node_link_bytes_per_second = 1e6;
    CHECK(seconds() == Approx(7 * 0.5 + 0.25 + 2 * 2 + 4 * 10 + 1 + zeros));
    machine.expert_load = 1.5; // of the bytes; as many messages
    CHECK(seconds() == Approx(7 * 0.5 + 0.25 + 2 * 2 + 4 * 10 + 1.5 + zeros));
    machine.is_device = false;
    machine.expert_load = 1;
    CHECK(seconds() == Approx(0.5 + 0.25 + 2 * 2 + 4 * 10 + 1 + zeros));
}

TEST_CASE("communication along joint axes has rows of its own")
{
    Graph g;
    g.name = "g";
    g.mesh = {{{"x", 2}, {"y", 2}}};
    g.at = {1, 0};
    Builder b(g);
    b.where = {Region::epilogue, Phase::update, 0, ""};
    const ValueId x = b.value("x", {DType::f32, {100}}, Role::parameter);
    b.all_reduce(x, "y", Combine::sum);
    b.all_gather(x, "x+y", 0, 400);
    b.reduce_scatter(x, "x+y", 0, 25, Combine::max);
    const std::vector<CommunicationTotal> totals = communication_totals(g, 3);
    const auto bytes = [&](const std::string& axis) {
        Bytes sum = 0;
        for (const CommunicationTotal& t : totals)
            sum += t.axis == axis && t.part == "step" ? t.bytes : 0;
        return sum;
    };
    CHECK(bytes("y") == 400);
    CHECK(bytes("x+y") == 1200 + 300);
    CHECK(bytes("all") == 1900);
    CHECK(build_schedule(g, {}).queues.back() == "x+y");
}

TEST_CASE("on CPUs, ranks of a node copy what they send each other instead of computing")
{
    Graph g;
    g.mesh.axes = {{"data", 2}};
    g.at = {0};
    Builder b(g);
    b.where = {Region::prologue, Phase::forward, 0, ""};
    const ValueId x = b.value("x", {DType::f32, {1000}}, Role::parameter),
                  y = b.value("y", {DType::f32, {1000}}, Role::parameter);
    b.all_gather(x, "data", 0, 2000); // sends 4000 of 12000 bytes
    b.cast_to(y, DType::f64);         // 12000 bytes
    const Schedule schedule = build_schedule(g, {});
    Machine machine;
    machine.launch = machine.link_latency = 0;
    machine.link_bytes_per_second = 1000; // 4 s
    machine.bytes_per_second = 12000;     // 1 s
    machine.copy_bytes_per_second = 2000; // 2 s
    machine.cache = 12000;
    const auto end_of_compute = [&](const Machine& m) {
        const Timeline t = simulate(g, schedule, m, 1);
        Seconds end = 0;
        for (std::size_t i = 0; i < schedule.steps.size(); ++i)
            if (schedule.steps[i].queue == queue_compute)
                end = std::max(end, t.spans[i].end);
        return end;
    };
    CHECK(end_of_compute(machine) == Approx(3));
    machine.cache = 11999; // read from memory again
    CHECK(end_of_compute(machine) == Approx(4));
    machine.ranks_per_node = 1; // over a network
    CHECK(end_of_compute(machine) == Approx(1));
    machine.ranks_per_node = 0;
    machine.is_device = true;
    CHECK(end_of_compute(machine) == Approx(1));
}

TEST_CASE("machines have names, and a device's is found in the driver's device name")
{
    CHECK(machine_of_device("NVIDIA H200").name == "h200");
    CHECK(machine_of_device("NVIDIA H100 80GB HBM3").name == "h100");
    CHECK(machine_of_device("NVIDIA A100-SXM4-40GB").name == "a100");
    CHECK(machine_of_device("NVIDIA B200").name == "b200");
    CHECK(machine_of_device("NVIDIA GB200").name == "gb200");
    CHECK(machine_of_device("AMD Instinct MI250X").name == "mi250x");
    CHECK(machine_of_device("AMD Instinct MI300X").name == "mi300x");
    CHECK(machine_of_device("AMD Instinct MI300A").name == "gpu");
    CHECK(machine_of_device("Quadro RTX 6000").name == "gpu");
    for (const std::string& name : machine_names()) {
        const Machine machine = machine_called(name);
        CHECK(machine.workers(4) == (name == "cpu" ? 4 : 1));
        if (machine.is_device) { // a plan for one holds on another
            const ScratchBudget &a = machine.scratch, b = machine_called("h200").scratch;
            CHECK(std::tie(a.product, a.attention, a.reduction, a.exchange) ==
                  std::tie(b.product, b.attention, b.reduction, b.exchange));
        }
    }
    CHECK_THROWS_AS(machine_called("h2oo"), UserError);
}

TEST_CASE("each known device has its memory, the devices per node, and its links")
{
    for (const std::string& name : machine_names()) {
        const Machine m = machine_called(name);
        INFO(name);
        if (!m.is_device) {
            CHECK(m.memory == 0); // that of the machine where it is planned
            CHECK(m.link_rate(true) == m.link_rate(false));
            continue;
        }
        const bool torus = name == "tpu-v3", rack = name.starts_with("gb");
        CHECK(m.ranks_per_node == (torus ? 0 : rack ? 72 : 8));
        CHECK(m.node_link_bytes_per_second < m.link_bytes_per_second);
        CHECK((m.latency(true) > m.latency(false)) == !torus);
        CHECK((m.memory > 0) == (name != "gpu"));
    }
    CHECK(machine_called("h100").memory < Bytes{80} << 30); // less than 80 GB of the data sheet in GiB
    CHECK(machine_called("h100").memory > Bytes{78} << 30);
    CHECK(machine_called("h200").memory < 141000000000 + (Bytes{10} << 30));
    CHECK(machine_called("b200").memory > machine_called("h200").memory);
    CHECK(machine_called("mi250x").memory <= Bytes{64} << 30); // a GCD's
    CHECK(machine_called("mi300x").memory <= Bytes{192} << 30);
    CHECK(machine_called("mi300x").memory > machine_called("b200").memory);
}

TEST_CASE("an AMD device has its own links to the host, and attention without matrix cores")
{
    const Machine gcd = machine_called("mi250x"), whole = machine_called("mi300x"),
                  other = machine_called("h200");
    CHECK(gcd.peak(DType::bf16, 1) == 191.5e12); // half of an MI250X
    CHECK(whole.peak(DType::bf16, 1) == 1307.4e12);
    for (const Machine& m : {gcd, whole}) {
        INFO(m.name);
        CHECK(m.attention_efficiency < m.flops_f32 / m.flops_bf16);
        CHECK(m.host_link_rate() < m.link_rate(false));
        CHECK(m.host_link_rate() < m.host_rate() * static_cast<double>(m.ranks_per_node));
    }
    CHECK(gcd.host_link_rate() < whole.host_link_rate());
    CHECK(other.attention_efficiency > 0.1);
}
