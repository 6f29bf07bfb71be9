// A sequence that ranks share, in each form of attention, against one rank.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/decide.hpp"
#include "compile/simulated_step.hpp"
#include "grid/cases.hpp"
#include "ir/verify.hpp"
#include "passes/sharding/overlap_gathers.hpp"
#include "plan/cost.hpp"

#include <algorithm>

using namespace trivium;
using namespace trivium::grids;

namespace {

struct Form {
    const char* name;
    ContextForm form;
    i64 heads; ///< of the context ranks; 0: as many as all
};
const Form forms[] = {{"gather", ContextForm::gather, 1},
                      {"ring", ContextForm::ring, 1},
                      {"heads", ContextForm::gather, 0},
                      {"heads and gather", ContextForm::gather, 2},
                      {"heads and ring", ContextForm::ring, 2}};

/// A case of a form. The other settings change from number to number: window, chunk, cap and sinks come with
/// the options, queries share keys in groups or not.
Case case_of_form(i64 context, const Form& form, int number)
{
    Case c;
    const OptionSet options[] = {OptionSet::llama, OptionSet::post, OptionSet::sandwich, OptionSet::parallel};
    if (const OptionSet set = options[number % 4]; set != OptionSet::llama)
        c.mixed = set;
    ParallelConfig& p = c.parallel;
    p.context = context;
    p.context_heads = form.heads == 0 ? context : form.heads;
    p.context_form = form.form;
    c.model.kv_heads = static_cast<int>(p.context_heads) + (number % 3 == 0 && p.context_heads < 4 ? 1 : 0);
    c.model.heads = c.model.kv_heads * (1 + number % 2);
    c.model.dim = 2 * c.model.heads;
    c.model.ffn = 5;
    c.model.vocab = 11;
    c.model.layers = 2;
    // From blocks of two tokens, of which windows see few, to some that do not divide evenly.
    c.model.seq = static_cast<int>(2 * context * (1 + number % 3) + number % 4);
    c.rows = 2;
    c.micro_batch = 1 + number % 2;
    c.steps = 2;
    if (number % 5 >= 3)
        c.packing = number % 2 ? SamplePacking::concatenate : SamplePacking::best_fit;
    const Recompute recompute[] = {Recompute::none, Recompute::selective, Recompute::full};
    p.recompute = recompute[number / 2 % 3];
    p.overlap = number % 4 != 3;
    return c;
}

/// All forms that a degree has, with numbers for the other settings.
void for_each_case(const std::function<void(const Case&, const Form&)>& visit)
{
    int number = 0;
    for (const i64 context : {2, 3, 4, 8})
        for (const Form& form : forms)
            if (form.heads != 2 || context > 2)
                if (context % std::max<i64>(form.heads, 1) == 0)
                    for (int i = 0; i < 2; ++i, ++number)
                        visit(case_of_form(context, form, number), form);
}

/// The training program of each rank.
std::vector<Program> programs_of(const Case& c)
{
    std::vector<Program> made;
    CompileConfig options = runs::small_machine();
    options.outline = true;
    compile_ranks(
        decide(config_of(c), options.machine), options, [](const Mesh&, i64) { return true; },
        [&](i64, Compiled& rank) {
            made.push_back(std::move(rank.programs[train_program]));
            return true;
        });
    return made;
}

/// The graph of the first rank before its gathers are divided.
Graph undivided(const Case& c)
{
    CompileConfig options = runs::small_machine();
    const Choices choices = decide(config_of(c), options.machine);
    return TrainingCompiler(choices.config, choices.order, options).unbucketed(0);
}

/// Divides gathers as far as possible, whatever that costs.
void divide_gathers(Graph& g)
{
    const GatherParts parts = parts_of_gathers(g);
    g = overlap_gathers(std::move(g), parts);
}

/// A case whose attention takes as long as its gathers on a slow network.
Case slow_case()
{
    Case c = case_of_form(2, forms[0], 0);
    c.model.seq = 256;
    c.model.kv_heads = 4;
    c.model.heads = 8;
    c.model.dim = 64;
    c.micro_batch = 1;
    c.steps = 1;
    c.parallel.recompute = Recompute::none;
    c.parallel.delay_bandwidth = 2e8;
    return c;
}

} // namespace

TEST_CASE("sequences that ranks share have the gradients of one rank in every form")
{
    std::size_t n = 0;
    for_each_case([&](const Case& c, const Form& form) {
        if (contracts_on && n++ % 5 != 0) // sanitizers take their time
            return;
        INFO(form.name << ", " << c.parallel.context_heads << " by heads: " << c.text());
        const Differences found = differences(train_on_threads(c), alone_outcome(c));
        INFO(found.text());
        CHECK(found.most() < 1e-9);
    });
}

TEST_CASE("sequences that ranks share in rings have the gradients of one rank in f32 and bf16", "[release]")
{
    for (const Precision precision : {Precision::f32, Precision::bf16})
        for (int number = 0; number < 4; ++number) {
            Case c = case_of_form(4, forms[1], number);
            c.precision = precision;
            c.spread = 0.1;
            c.steps = 1;
            INFO(c.text());
            const Differences found = differences(train_on_threads(c), alone_outcome(c));
            INFO(found.text());
            CHECK(found.gradients < (precision == Precision::f32 ? 1e-4 : 0.05));
        }
}

TEST_CASE("q, k and v are one product in a ring, also in layers in which no rank sees another's block")
{
    for (const Precision precision : {Precision::f64, Precision::f32}) {
        Case c = case_of_form(2, forms[1], 7);
        REQUIRE(c.mixed == OptionSet::parallel); // of which layer 0 has chunks of 3
        c.model.seq = 12;
        c.model.heads = 4;
        c.model.kv_heads = 2;
        c.model.dim = 16;
        c.precision = precision;
        c.spread = 0.1;
        c.parallel.group = true;
        INFO(c.text());
        const Graph graph = compile(c, 0).programs[train_program].graph;
        CHECK(std::ranges::count(graph.ops, OpKind::join_columns, &Op::kind) > 0);
        const Differences found = differences(train_on_threads(c), alone_outcome(c));
        INFO(found.text());
        CHECK(found.gradients < (precision == Precision::f64 ? 1e-9 : 1e-4));
    }
}

TEST_CASE("a ring has no gathers of keys and values, and a block travels while the one before it is in use")
{
    for (const i64 tensor : {1, 2}) {
        Case c = case_of_form(4, forms[1], 0);
        c.parallel.tensor = tensor;
        c.model.kv_heads = 1; // with two tensor ranks, sums over both
        c.model.heads = 4;
        c.model.dim = 8;
        c.model.seq = 64;
        for (const Program& program : programs_of(c)) {
            const Graph& g = program.graph;
            int ahead = 0, steps = 0;
            std::vector<std::size_t> place(g.ops.size(), 0); // of an op's first Step
            for (std::size_t i = program.schedule.steps.size(); i-- > 0;)
                if (const Step& step = program.schedule.steps[i]; step.kind == StepKind::op)
                    place[step.op.index()] = i;
            std::size_t before = 0; // the last attention
            for (std::size_t i = 0; i < g.ops.size(); ++i) {
                if (info(g.ops[i]).scratch != ScratchKind::attention)
                    continue;
                for (const ValueId v : g.ops[i].operands)
                    if (const OpId from = g[v].producer; from && info(g[from]).communicates) {
                        if (*g[from].attrs->axis == tensor_axis)
                            continue;
                        REQUIRE(info(g[from]).exchanges);
                        ahead += place[from.index()] < place[before] ? 1 : 0;
                        ++steps;
                    }
                before = i;
            }
            CHECK(steps == 2 * 3 * 2 * 2); // keys and values, ranks - 1, passes, layers
            CHECK(ahead == steps);
        }
    }
}

TEST_CASE("keys and values are gathered in parts by heads: the same elements, a part ahead of its use")
{
    struct Heads {
        int kv;
        i64 tensor, sequences, parts;
        Recompute recompute = Recompute::none;
    };
    for (const Heads& h : {Heads{4, 1, 1, 4},
                           {4, 1, 1, 4, Recompute::selective},
                           {4, 2, 1, 2},
                           {1, 2, 3, 3}}) { // of one head, whose gradients are sums over both
        Case c = case_of_form(4, forms[0], 0);
        c.parallel.tensor = h.tensor;
        c.parallel.sequence = false;
        c.parallel.recompute = h.recompute;
        c.model.kv_heads = h.kv;
        c.model.heads = 4;
        c.model.dim = 8;
        c.model.seq = 64;
        c.rows = c.micro_batch = h.sequences;
        INFO(c.text());
        const Graph whole = undivided(c);
        Graph parts = whole;
        divide_gathers(parts);
        verify(parts, Level::local);
        struct Sums {
            i64 collectives = 0, elements = 0, largest = 0;
        };
        const auto sums = [](const Graph& g, OpKind kind) {
            Sums made;
            for (const Op& op : g.ops)
                if (op.kind == kind && op.region == Region::microbatch) {
                    const ValueId larger = kind == OpKind::all_gather ? op.results[0] : op.operands[0];
                    ++made.collectives;
                    made.elements += g[larger].type.elements();
                    made.largest = std::max(made.largest, g[larger].type.elements());
                }
            return made;
        };
        for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter}) {
            const Sums before = sums(whole, kind), after = sums(parts, kind);
            CHECK(before.collectives == 2 * 2 * (kind == OpKind::all_gather ? 2 : 1)); // layers, passes
            CHECK(after.collectives == h.parts * before.collectives);
            CHECK(after.elements == before.elements);
            CHECK(after.largest == before.largest / h.parts);
        }
        // The gathers of part k + 1 come before attention of part k.
        i64 gathered = 0, attended = 0;
        for (const Op& op : parts.ops) {
            if (op.phase != Phase::forward || op.region != Region::microbatch || op.block != 1)
                continue;
            gathered += op.kind == OpKind::all_gather;
            if (info(op).scratch == ScratchKind::attention)
                CHECK(gathered == 2 * std::min(h.parts, ++attended + 1));
        }
        CHECK(attended == h.parts);
    }
}

TEST_CASE("sequences whose keys and values are gathered in parts have the gradients of one rank")
{
    Meddle meddle;
    meddle.graph = divide_gathers;
    int number = 0;
    for (const i64 context : {2, 3, 4})
        for (const Form& form : {forms[0], forms[3]})
            for (int i = 0; i < 3 && context % form.heads == 0 && form.heads < context; ++i, ++number) {
                if (contracts_on && number % 5 != 0)
                    continue;
                Case c = case_of_form(context, form, number);
                c.model.kv_heads = static_cast<int>(form.heads) * 2 + i % 2;
                c.model.heads = c.model.kv_heads * (1 + number % 2);
                c.model.dim = 2 * c.model.heads;
                INFO(form.name << ": " << c.text());
                const Differences found = differences(train_on_threads(c, meddle), alone_outcome(c));
                INFO(found.text());
                CHECK(std::max({found.losses, found.norms, found.gradients, found.parameters}) < 1e-9);
            }
}

TEST_CASE("a rank sends per layer what the formulas of docs/grid.md say, in every form")
{
    for (const i64 context : {2, 4, 8})
        for (const Form& form : forms) {
            if (form.heads == 2 && context == 2)
                continue;
            Case c = case_of_form(context, form, 0);
            c.model.kv_heads = 8;
            c.model.heads = 16;
            c.model.dim = 32;
            c.model.seq = static_cast<int>(16 * context);
            c.micro_batch = 1;
            double sent[] = {0, 0}; // forward and backward, of the average rank
            for (const Program& program : programs_of(c))
                for (const Op& op : program.graph.ops)
                    if (op.region == Region::microbatch && op.block == 1 && info(op).communicates)
                        sent[op.phase == Phase::forward ? 0 : 1] +=
                            static_cast<double>(bytes_sent(program.graph, op)) /
                            static_cast<double>(size_of(DType::f64) * context);
            const double u = static_cast<double>(c.parallel.context_heads),
                         r = static_cast<double>(context) / u, s = c.model.seq, h = c.model.dim,
                         g = h * c.model.kv_heads / c.model.heads;
            const double blocks = (form.form == ContextForm::ring ? 0.75 : 1) * 2 * s * g / u * (r - 1) / r,
                         exchanged = s / (r * u) * (2 * h + 2 * g) * (u - 1) / u;
            INFO(form.name << ", " << context << " ranks");
            CHECK(sent[0] == blocks + exchanged);
            CHECK(sent[1] == 2 * blocks + exchanged);
        }
}

TEST_CASE("gathers are divided where the simulated step is then shorter, and use the planned memory")
{
    Case c = slow_case();
    const RunConfig config = config_of(c);
    const auto step = [&](bool divided) {
        CompileConfig options = runs::small_machine();
        options.machine = with_delay(options.machine, 0, c.parallel.delay_bandwidth);
        if (!divided)
            options.runner.skip = {"overlap-gathers", "overlap-gathers-eval"};
        return simulate_step(decide(config, options.machine), options, train_program, 1);
    };
    const SimulatedStep whole = step(false), parts = step(true);
    const auto attentions_in = [](const Graph& g) {
        return std::ranges::count_if(g.ops,
                                     [](const Op& op) { return info(op).scratch == ScratchKind::attention; });
    };
    CHECK(attentions_in(whole.ranks[0].program.graph) == 2 * 2);
    CHECK(attentions_in(parts.ranks[0].program.graph) > 2 * 2);
    CHECK(parts.length() < whole.length());
    const Differences found = differences(train_on_threads(c), alone_outcome(c));
    INFO(found.text());
    CHECK(found.most() < 1e-9);
    CHECK(attentions_in(compile(case_of_form(2, forms[0], 0), 0).programs[train_program].graph) == 2 * 2);
}

TEST_CASE("ranks that share sequences have the same causal work")
{
    for (const i64 context : {2, 3, 4, 8})
        for (const Form& form : {forms[0], forms[1]}) {
            Case c = case_of_form(context, form, 0);
            c.model.seq = static_cast<int>(64 * context + 1);
            Flops least = 0, most = 0;
            for (const Program& program : programs_of(c)) {
                Flops sum = 0;
                for (const Op& op : program.graph.ops)
                    if (info(op).scratch == ScratchKind::attention)
                        sum += flops_of(program.graph, op);
                least = least == 0 ? sum : std::min(least, sum);
                most = std::max(most, sum);
            }
            INFO(form.name << ", " << context << " ranks");
            CHECK(most < 1.02 * least);
        }
}

TEST_CASE("blocks of a ring that no query of a rank sees are neither sent nor computed")
{
    const auto attentions = [](i64 window) {
        Case c = case_of_form(8, forms[1], 0);
        c.model.seq = 128; // 16 chunks of 8
        std::vector<int> made;
        RunConfig config = config_of(c);
        config.model.layer_pattern = {LayerKind::sliding};
        config.model.window = window;
        CompileConfig options = runs::small_machine();
        options.outline = true;
        compile_ranks(
            decide(config, options.machine), options, [](const Mesh&, i64) { return true; },
            [&](i64, Compiled& rank) {
                int exchanges = 0;
                const Graph& g = rank.programs[train_program].graph;
                for (const Op& op : g.ops)
                    exchanges += info(op).exchanges ? 1 : 0;
                made.push_back(exchanges);
                return true;
            });
        CHECK(std::ranges::all_of(made, [&](int count) { return count == made[0]; }));
        return made[0];
    };
    // Per layer keys and values, twice, and their gradients.
    CHECK(attentions(128) == 2 * 6 * 7);
    CHECK(attentions(9) == 2 * 6 * 2); // of both neighbours
    CHECK(attentions(1) == 0);
}

TEST_CASE("ranks that share sequences issue their transfers in one order")
{
    for (const i64 window : {3, 7, 16, 64}) {
        Case c = case_of_form(4, forms[1], 0);
        c.model.seq = 64; // 8 chunks of 8: with a window some ranks see nothing of others
        RunConfig config = config_of(c);
        config.model.layers = 4;
        config.model.layer_pattern = {LayerKind::sliding};
        config.model.window = window;
        config.parallel.zero = 3; // gathers along the axis of the ring
        config.parallel.recompute = Recompute::none;
        CompileConfig options = runs::small_machine();
        options.outline = true;
        std::vector<std::string> orders;
        compile_ranks(
            decide(config, options.machine), options, [](const Mesh&, i64) { return true; },
            [&](i64, Compiled& rank) {
                const Program& program = rank.programs[train_program];
                std::string& order = orders.emplace_back();
                for (const Step& step : program.schedule.steps)
                    if (step.kind == StepKind::op && info(program.graph[step.op]).communicates)
                        order += str(info(program.graph[step.op]).name, " ");
                return true;
            });
        INFO("window " << window);
        CHECK(std::ranges::all_of(orders, [&](const std::string& order) { return order == orders[0]; }));
    }
}
