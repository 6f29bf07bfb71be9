// Communication between ranks during training: counted by layer and phase, and as a readable table.
#include "base/check.hpp"
#include "choose/decide.hpp"
#include "compile/forward.hpp"
#include "golden/golden.hpp"
#include "ir/ops/op_table.hpp"
#include "small_run.hpp"

#include <algorithm>
#include <iomanip>
#include <map>

using namespace trivium;

namespace {

Graph program_of(Family family, const Grid& grid, i64 rank = 0)
{
    CompileConfig options;
    options.rank = rank;
    RunConfig config = run_config(family, grid);
    config.parallel.bucket = "26214400"; // more than there is: one bucket of each kind
    return compile_training(config, options).programs[train_program].graph;
}

/// A column of the table: "prologue", "forward", "backward" or "epilogue".
std::string_view when(const Op& op)
{
    return op.region == Region::microbatch ? name_of(op.phase) : name_of(op.region);
}

Bytes bytes_of_all(const Graph& graph, const std::vector<ValueId>& values)
{
    Bytes bytes = 0;
    for (const ValueId v : values)
        bytes += graph[v].type.bytes();
    return bytes;
}

/// Number of collectives and messages of one kind, axis, phase and block (-1: any).
int count(const Graph& graph, std::string_view op_name, std::string_view axis, std::string_view time,
          int block = -1)
{
    return static_cast<int>(std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
        return info(op).communicates && info(op).name == op_name && *op.attrs->axis == axis &&
               when(op) == time && (block < 0 || op.block == block);
    }));
}

int communicating(const Graph& graph)
{
    return static_cast<int>(std::count_if(graph.ops.begin(), graph.ops.end(),
                                          [](const Op& op) { return info(op).communicates; }));
}

/// A line for each collective: when (per microbatch, or once per step), block, op, axis, bytes in and out of
/// this rank, what.
std::string table(const Graph& graph)
{
    std::ostringstream text;
    const auto row = [&](const auto& time, const auto& block, const auto& op, const auto& axis,
                         const auto& in, const auto& out, const std::string& what) {
        text << std::left << std::setw(10) << time << std::setw(7) << block << std::setw(15) << op
             << std::setw(9) << axis << std::right << std::setw(9) << in << std::setw(10) << out << "  "
             << what << "\n";
    };
    row("when", "block", "op", "axis", "bytes in", "bytes out", "what");
    for (const char* time : {"prologue", "forward", "backward", "epilogue"})
        for (const Op& op : graph.ops) {
            if (!info(op).communicates || when(op) != time)
                continue;
            std::string what;
            std::size_t line = 0;
            for (const ValueId v : op.operands.empty() ? op.results : op.operands) {
                if (what.size() - line > 70) { // a bucket: its members on lines of their own
                    what += str(",\n", std::string(62, ' '));
                    line = what.size();
                }
                what += str(what.size() == line ? "" : ", ", graph[v].name);
            }
            if (op.attrs->to)
                what += str(", to stage ", *op.attrs->to);
            if (op.attrs->from)
                what += str(", from stage ", *op.attrs->from);
            const std::string block = str(op.block == 0            ? "embed"
                                          : op.block == layers + 1 ? "head"
                                                                   : "layer",
                                          op.block > 0 && op.block <= layers ? str(op.block - 1) : "");
            row(time, block, info(op).name, *op.attrs->axis, bytes_of_all(graph, op.operands),
                bytes_of_all(graph, op.results), what);
        }
    return text.str();
}

std::string file_of(Family family, const std::string& grid)
{
    return str("golden/collectives/", family == Family::llama ? "llama" : "gpt2", "-", grid, ".txt");
}

/// The collectives of a layer with sequence parallelism, per microbatch: 2 + 2 forward; backward their duals
/// and two gathers of saved sharded activations (Korthikanti et al., arXiv:2205.05198, section 4.2).
void check_layers(const Graph& g, std::initializer_list<int> blocks)
{
    for (const int block : blocks) {
        INFO("block " << block);
        CHECK(count(g, "all_gather", "tensor", "forward", block) == 2);
        CHECK(count(g, "reduce_scatter", "tensor", "forward", block) == 2);
        CHECK(count(g, "all_gather", "tensor", "backward", block) == 2 + 2);
        CHECK(count(g, "reduce_scatter", "tensor", "backward", block) == 2);
        for (const char* time : {"forward", "backward"})
            CHECK(count(g, "all_reduce", "tensor", time, block) == 0);
    }
}

/// The calls of a rank on each of its communication queues, in order, without the extents, which differ
/// between ranks.
std::map<std::string, std::vector<std::string>> calls_of(const Program& program)
{
    std::map<std::string, std::vector<std::string>> calls;
    for (const Step& step : program.schedule.steps)
        if (step.kind == StepKind::op && info(program.graph[step.op]).communicates) {
            const Op& op = program.graph[step.op];
            std::string call = str(info(op).name, " ", step.microbatch);
            for (const auto& values : {op.operands, op.results})
                for (const ValueId v : values)
                    call += " " + program.graph[v].name;
            calls[program.schedule.queues[static_cast<std::size_t>(step.queue)]].push_back(call);
        }
    return calls;
}

/// Per tag, the types of the messages in order: "0 -> 1 #0".
std::map<std::string, std::vector<std::string>> messages_of(const Program& program, i64 stage,
                                                            std::optional<i64> Attributes::*peer)
{
    std::map<std::string, std::vector<std::string>> messages;
    for (const Step& step : program.schedule.steps) {
        if (step.kind != StepKind::op || !((*program.graph[step.op].attrs).*peer))
            continue;
        const Op& op = program.graph[step.op];
        const bool sends = op.attrs->to.has_value();
        const i64 from = sends ? stage : *op.attrs->from, to = sends ? *op.attrs->to : stage;
        const Value& v = program.graph[sends ? op.operands[0] : op.results[0]];
        std::string name = v.name; // partition renames values that it combines before they are sent
        for (const std::string_view suffix : {".reduced", ".scattered"})
            if (name.ends_with(suffix))
                name.resize(name.size() - suffix.size());
        // In the epilogue, a resharded value keeps its name if no data had to move.
        const std::string what = step.microbatch < 0 ? "" : name + " ";
        messages[str(from, " -> ", to, " #", *op.attrs->tag)].push_back(
            str(step.microbatch, " ", what, v.type));
    }
    return messages;
}

} // namespace

TEST_CASE("all ranks of a stage make the same calls in the same order, and every sent message is received")
{
    const Grid grids[] = {{2, 1, 2, 0},        {3, 1, 2, 1}, {1, 2, 3, 0}, {2, 2, 2, 1},
                          {2, 3, 2, 1, false}, {4, 1, 3, 1}, {2, 4, 1, 1}};
    int cases = 0;
    for (const Family family : {Family::llama, Family::gpt2})
        for (const bool tied : {false, true})
            for (const Grid& grid : grids) {
                const i64 odd = cases++ % 3;
                if (contracts_on && cases % 2 == 0) // sanitizers take their time
                    continue;
                const RunConfig c = odd_config(family, grid, tied, odd);
                std::map<i64, std::vector<std::map<std::string, std::vector<std::string>>>>
                    first; // by stage, of its first rank
                std::map<i64, std::map<std::string, std::vector<std::string>>> sent,
                    received; // by coordinates on the other axes
                compile_ranks(
                    decide(c, Machine{}), {}, [](const Mesh&, i64) { return true; },
                    [&](i64 rank, const Compiled& compiled) {
                        INFO(file_of(family, "")
                             << " odd " << odd << " tied " << tied << " data " << grid.data << " pipeline "
                             << grid.pipeline << " tensor " << grid.tensor << " rank " << rank);
                        const i64 stage = compiled.at[1],
                                  place = compiled.at[0] * grid.tensor + compiled.at[2];
                        std::vector<std::map<std::string, std::vector<std::string>>> calls;
                        for (const Program& program : compiled.programs)
                            calls.push_back(calls_of(program));
                        const auto [at, added] = first.try_emplace(stage, calls);
                        REQUIRE((added || at->second == calls));
                        const Program& train = compiled.programs[train_program];
                        sent[place].merge(messages_of(train, stage, &Attributes::to));
                        received[place].merge(messages_of(train, stage, &Attributes::from));
                        return true;
                    });
                for (const auto& [place, messages] : sent)
                    for (const auto& [tag, list] : messages) {
                        INFO("place " << place << ", tag " << tag);
                        REQUIRE(list == received[place][tag]);
                    }
                REQUIRE(sent == received);
            }
    CHECK(cases == 28);
}

TEST_CASE("tensor 2 with sequence parallelism: 2 + 2 forward, 2 + 2 and 2 backward, in each layer")
{
    for (const Family family : {Family::llama, Family::gpt2}) {
        const Graph g = program_of(family, {1, 1, 2});
        INFO(file_of(family, ""));
        check_layers(g, {1, 2});
        CHECK(count(g, "all_reduce", "tensor", "epilogue") == 1); // gradients of norms, in one bucket
        CHECK(count(g, "all_reduce", "world", "epilogue") == 1);  // loss, tokens and squares
        for (const char* op : {"all_gather", "reduce_scatter"})
            for (const char* time : {"prologue", "epilogue"})
                CHECK(count(g, op, "tensor", time) == 0);
        for (const Op& op : g.ops)
            if (info(op).communicates)
                CHECK((*op.attrs->axis == "tensor" || *op.attrs->axis == "world"));
        require_golden(file_of(family, "tensor2"), table(g));
    }
}

TEST_CASE("uneven heads, vocabulary and sequences have the same communication as even ones")
{
    for (const Family family : {Family::llama, Family::gpt2}) {
        RunConfig c = run_config(family, {2, 1, 2, 1});
        c.parallel.bucket = "block";
        const RunConfig even = c;
        c.model.dim = 15;
        c.model.head_dim = 0;
        c.model.heads = c.model.kv_heads = 3;
        c.model.ffn_dim = 17;
        c.model.vocab = 13;
        c.model.seq = 7;
        CompileConfig options;
        options.rank = 3;
        const Graph g = compile_training(c, options).programs[train_program].graph;
        check_layers(g, {1, 2});
        const i64 blocks = family == Family::llama ? 3 : 4; // that have gradients of norms and positions
        CHECK(count(g, "all_reduce", "tensor", "epilogue") == blocks);
        CHECK(count(compile_training(even, options).programs[train_program].graph, "all_reduce", "tensor",
                    "epilogue") == blocks);
    }
}

TEST_CASE(
    "fewer key-value heads than tensor ranks: keys and values of a part of the tokens, gathered for all")
{
    RunConfig c = run_config(Family::llama, {1, 1, 2});
    c.model.kv_heads = 1;
    const Graph g = compile_training(c, {}).programs[train_program].graph;
    for (const int block : {1, 2}) { // keys and values, in addition to those of every layer
        CHECK(count(g, "all_gather", "tensor", "forward", block) == 2 + 2);
        CHECK(count(g, "reduce_scatter", "tensor", "forward", block) == 2);
        CHECK(count(g, "all_gather", "tensor", "backward", block) == 2 + 2 + 2);
        CHECK(count(g, "reduce_scatter", "tensor", "backward", block) == 2 + 2);
    }
    CHECK(count(g, "all_reduce", "tensor", "epilogue") ==
          1); // their weights are whole on each rank: with the norms
    require_golden(file_of(Family::llama, "one-kv-head-tensor2"), table(g));
}

TEST_CASE("tensor 2 without sequence parallelism: sums, 2 forward and 2 backward, in each layer")
{
    for (const Family family : {Family::llama, Family::gpt2}) {
        const Graph g = program_of(family, {1, 1, 2, 0, false});
        INFO(file_of(family, ""));
        for (const int block : {1, 2})
            for (const char* time : {"forward", "backward"}) {
                CHECK(count(g, "all_reduce", "tensor", time, block) == 2);
                CHECK(count(g, "all_gather", "tensor", time, block) == 0);
                CHECK(count(g, "reduce_scatter", "tensor", time, block) == 0);
            }
        CHECK(count(g, "all_reduce", "tensor", "epilogue") == 0); // norms see every token
        require_golden(file_of(family, "tensor2-no-sequence"), table(g));
    }
}

TEST_CASE("data 2: one bucket of gradients; with ZeRO 1 it is scattered, and the parameters are gathered")
{
    for (const Family family : {Family::llama, Family::gpt2}) {
        INFO(file_of(family, ""));
        const Graph whole = program_of(family, {2, 1, 1});
        CHECK(count(whole, "all_reduce", "data", "epilogue") == 1);
        CHECK(communicating(whole) == 2); // and the norm
        const Graph cut = program_of(family, {2, 1, 1, 1});
        CHECK(count(cut, "reduce_scatter", "data", "epilogue") == 1);
        CHECK(count(cut, "all_gather", "data", "prologue") == 1);
        CHECK(communicating(cut) == 3);
        require_golden(file_of(family, "data2-zero1"), table(cut));
    }
}

TEST_CASE("data 2, tensor 2, ZeRO 1: layers as over tensor alone, once per step the data axis")
{
    for (const Family family : {Family::llama, Family::gpt2}) {
        const Graph g = program_of(family, {2, 1, 2, 1});
        INFO(file_of(family, ""));
        check_layers(g, {1, 2});
        for (const char* time : {"forward", "backward"})
            for (const char* op : {"all_gather", "reduce_scatter", "all_reduce"})
                CHECK(count(g, op, "data", time) == 0);
        CHECK(count(g, "all_gather", "data", "prologue") == 1);
        CHECK(count(g, "reduce_scatter", "data", "epilogue") == 1);
        CHECK(count(g, "all_reduce", "tensor", "epilogue") == 1);
        CHECK(count(g, "all_reduce", "world", "epilogue") == 1);
        require_golden(file_of(family, "data2-tensor2-zero1"), table(g));
    }
}

TEST_CASE("gradients that are accumulated whole are reduced over data ranks once per step, in whatever type")
{
    for (const Family family : {Family::llama, Family::gpt2})
        for (const GradientType type : {GradientType::f32, GradientType::bf16})
            for (const i64 dim : {6, 40}) {
                RunConfig config = run_config(family, {2, 1, 2, dim == 6 ? 0 : 1});
                config.model.dim = dim;
                config.model.head_dim = 0;
                config.model.heads = config.model.kv_heads = 2;
                config.model.ffn_dim = 3; // so that a weight is smaller than activations
                config.parallel.accumulate = type;
                const Graph g = compile_training(config, {}).programs[train_program].graph;
                INFO(name_of(family) << " " << name_of(type) << " " << dim);
                CHECK(std::none_of(g.ops.begin(), g.ops.end(), [](const Op& op) {
                    return op.region == Region::microbatch && info(op).communicates &&
                           *op.attrs->axis == "data";
                }));
            }
}

TEST_CASE("in bf16, the products of weights' gradients add into accumulators of either type themselves")
{
    for (const GradientType type : {GradientType::f32, GradientType::bf16}) {
        RunConfig config = run_config(Family::llama, {});
        config.train.precision = Precision::bf16;
        config.parallel.accumulate = type;
        const Graph g = compile_training(config, {}).programs[train_program].graph;
        int products = 0;
        for (const Op& op : g.ops) {
            products += op.kind == OpKind::matmul && op.accumulate;
            if (op.kind == OpKind::accumulate)
                CHECK(g[g[op.operands[0]].producer].kind != OpKind::matmul);
        }
        CHECK(products >= 7 * config.model.layers);
    }
}

TEST_CASE("pipeline 2, tensor 2: one message per microbatch and direction, and a tied table's gradient once")
{
    for (const Family family : {Family::llama, Family::gpt2}) {
        std::string both;
        for (const i64 stage : {0, 1}) {
            const Graph g = program_of(family, {1, 2, 2}, 2 * stage);
            INFO(file_of(family, "") << " stage " << stage);
            check_layers(g, {static_cast<int>(stage) + 1});
            CHECK(count(g, stage == 0 ? "send" : "recv", "pipeline", "forward") == 1);
            CHECK(count(g, stage == 0 ? "recv" : "send", "pipeline", "backward") == 1);
            CHECK(count(g, "send", "pipeline", "epilogue") == 0); // untied
            CHECK(count(g, "recv", "pipeline", "epilogue") == 0);
            CHECK(count(g, "all_reduce", "tensor", "epilogue") == 1);
            CHECK(count(g, "all_reduce", "world", "epilogue") == 1);
            both += str("stage ", stage, "\n", table(g), stage == 0 ? "\n" : "");
        }
        require_golden(file_of(family, "pipeline2-tensor2"), both);
    }
}

TEST_CASE("a tied table's gradient is sent in both directions between its two stages, once per step")
{
    for (const i64 stage : {0, 1}) {
        RunConfig c = run_config(Family::gpt2, {1, 2, 1});
        c.model.tied_embeddings = true;
        CompileConfig options;
        options.rank = stage;
        const Graph g = compile_training(c, options).programs[train_program].graph;
        CHECK(count(g, "send", "pipeline", "epilogue") == 1);
        CHECK(count(g, "recv", "pipeline", "epilogue") == 1);
        CHECK(communicating(g) == 5); // a message per microbatch and direction, and the norm
    }
}

TEST_CASE("one rank does not communicate")
{
    for (const Family family : {Family::llama, Family::gpt2})
        CHECK(communicating(program_of(family, {})) == 0);
}

TEST_CASE("programs for one rank have a mesh of one rank, also if the run shards in groups")
{
    for (const i64 zero : {1, 3}) {
        RunConfig c = run_config(Family::llama, {.data = 2, .zero = zero});
        c.parallel.data = 4;
        c.parallel.shard = 2;
        c.train.micro_batch = 1;
        resolve_and_validate(c);
        c = config_on(c, 1);
        const Graph g = compile_evaluation(c, {}).programs[only_program].graph;
        CHECK(g.mesh.ranks() == 1);
        CHECK(g.at.size() == g.mesh.axes.size());
        CHECK(compile_generation(c, {1, 4, 8}, {}).programs[decode_program].graph.mesh.ranks() == 1);
    }
}

TEST_CASE("model FLOPs are the same on any grid")
{
    for (const Family family : {Family::llama, Family::gpt2}) {
        const double alone = compile_training(odd_config(family, {}, true, 1), {}).flops;
        CHECK(alone > 0);
        for (const Grid& grid : {Grid{2, 1, 2, 1}, {1, 4, 1}, {3, 2, 3, 0, false}}) {
            CompileConfig options;
            options.rank = 1;
            CHECK(compile_training(odd_config(family, grid, true, 1), options).flops ==
                  Approx(alone).epsilon(1e-12));
        }
    }
}
