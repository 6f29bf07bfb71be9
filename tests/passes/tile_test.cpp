// Memory-centric tiling: what is divided, along which dimension, and what it saves.
#include "catch.hpp"
#include "choose/decide.hpp"
#include "compile/compile.hpp"
#include "ir/names.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/verify.hpp"
#include "model/model.hpp"
#include "passes/memory/tile.hpp"
#include "passes/sharding/propagate.hpp"
#include "passes/simplify.hpp"

#include <algorithm>
#include <string_view>

using namespace trivium;

namespace {

ModelConfig small_model()
{
    return {.layers = 1, .dim = 12, .heads = 3, .kv_heads = 3, .ffn_dim = 40, .vocab = 32, .seq = 8};
}

Graph tiled(const ModelConfig& m, const Mesh& mesh, Bytes bytes)
{
    GraphConfig config{4, DType::bf16, DType::f32};
    config.axes.tensor = tensor_axis;
    Graph g = build_loss_graph(m, config);
    g.mesh = mesh;
    g = simplify(tile(complete_annotations(std::move(g)), {bytes, data_axis}));
    verify(g, Level::global);
    return g;
}

/// The shapes in which microbatches read a parameter.
std::vector<Shape> shapes_read(const Graph& g, const std::string& parameter)
{
    std::vector<Shape> shapes;
    for (const Op& op : g.ops)
        if (op.region == Region::prologue && info(op).placement) {
            ValueId v = op.results[0];
            while (g[v].producer)
                v = g[g[v].producer].operands[0];
            if (g[v].name == parameter)
                shapes.push_back(g[op.results[0]].type.shape);
        }
    return shapes;
}

RunConfig config_of(const ModelConfig& model, Bytes tile)
{
    RunConfig config;
    config.model = model;
    config.train.global_batch = 4;
    config.train.precision = Precision::bf16;
    config.parallel.data = 4;
    config.parallel.zero = 3;
    config.parallel.tile = tile;
    config.parallel.threads = 1;
    resolve_and_validate(config);
    return config;
}

Bytes arena(const RunConfig& config)
{
    CompileConfig options;
    options.runner.verify = true;
    return compile_training(config, options).memory.arena;
}

} // namespace

TEST_CASE("a weight above the maximum is read in equal parts of its longest dimension that no axis shards")
{
    const Mesh mesh{{{data_axis, 4}, {tensor_axis, 2}}};
    const Graph g = tiled(small_model(), mesh, 200);
    // bf16[12, 40] over two tensor ranks: 480 bytes gathered.
    CHECK(shapes_read(g, "layers.0.ffn.up.weight") == std::vector<Shape>(3, Shape{4, 40}));
    CHECK(shapes_read(g, "layers.0.ffn.down.weight") == std::vector<Shape>(3, Shape{40, 4}));
    CHECK(shapes_read(g, "head.weight") == std::vector<Shape>(2, Shape{32, 6})); // 384 bytes
    CHECK(shapes_read(g, "embed.weight") == std::vector<Shape>{{32, 12}});       // a lookup reads it whole
    CHECK(shapes_read(g, "final_norm.weight") == std::vector<Shape>{{12}});
    const Graph whole = tiled(small_model(), mesh, 480);
    CHECK(shapes_read(whole, "layers.0.ffn.up.weight") == std::vector<Shape>{{12, 40}});
    // As many parts as rows, and no more.
    CHECK(shapes_read(tiled(small_model(), mesh, 1), "layers.0.ffn.up.weight") ==
          std::vector<Shape>(12, Shape{1, 40}));
}

TEST_CASE("a weight stays whole if its other dimensions have too few rows to be sharded over the data axis")
{
    const Mesh mesh{{{data_axis, 16}, {tensor_axis, 4}}};
    ModelConfig m = small_model();
    m.heads = m.kv_heads = 4; // and 40 columns over 4 tensor ranks: 10 for 16 data ranks
    CHECK(shapes_read(tiled(m, mesh, 50), "layers.0.ffn.up.weight") == std::vector<Shape>{{12, 40}});
    m.ffn_dim = 64;
    CHECK(shapes_read(tiled(m, mesh, 200), "layers.0.ffn.up.weight") == std::vector<Shape>(2, Shape{6, 64}));
}

TEST_CASE("tiles save the memory of a weight's gather and of its gradient")
{
    ModelConfig m = small_model();
    m.dim = 256;
    m.heads = m.kv_heads = 4;
    m.ffn_dim = 4096;
    m.seq = 2;
    const Bytes weight = 2 * m.dim * m.ffn_dim; // 2 MiB gathered; its gradient in f32 is twice that
    const Bytes whole = arena(config_of(m, 0)), eighths = arena(config_of(m, weight / 8));
    CHECK(eighths < whole - 2 * weight);
    CHECK(arena(config_of(m, 64 * weight)) == whole);
}

TEST_CASE("no bucket in a microbatch has more bytes than the maximum")
{
    const Bytes most = 3000;
    for (const char* mode : {"block", "greedy", "global", "auto", "1000000"}) {
        RunConfig config = config_of(small_model(), most);
        config.parallel.bucket = mode;
        const Compiled compiled = compile_training(config, {});
        const Graph& g = compiled.programs[train_program].graph;
        int several = 0;
        for (const Op& op : g.ops) {
            if (op.region != Region::microbatch || !info(op).bucket || op.operands.size() < 2)
                continue;
            Bytes in = 0, out = 0;
            for (const ValueId v : op.operands)
                in += g[v].type.bytes();
            for (const ValueId v : op.results)
                out += g[v].type.bytes();
            INFO(mode << ": " << op.operands.size() << " tensors");
            CHECK(std::max(in, out) <= most);
            ++several;
        }
        INFO(mode);
        CHECK((several > 0 || mode == std::string_view("greedy"))); // which may merge nothing
    }
}
