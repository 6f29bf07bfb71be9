// The grid that a run chooses on another number of ranks.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/choose_grid.hpp"
#include "choose/decide.hpp"
#include "compile/compile.hpp"

using namespace trivium;

namespace {

RunConfig config_of(i64 layers, i64 heads, i64 batch, i64 data, i64 pipeline, i64 tensor)
{
    RunConfig c;
    c.model.layers = layers;
    c.model.heads = heads;
    c.model.dim = 16 * heads;
    c.model.vocab = 64;
    c.model.seq = 32;
    c.train.global_batch = batch;
    c.train.micro_batch = 1;
    c.parallel.data = data;
    c.parallel.pipeline = pipeline;
    c.parallel.tensor = tensor;
    resolve_and_validate(c);
    return c;
}

/// `memory`: of a rank, in addition to what the process takes; 0: unknown.
std::string chosen(const RunConfig& c, i64 ranks, Bytes memory = 0)
{
    const Bytes process = machine_called(default_machine()).process;
    Compiling estimator(machine_called(default_machine()));
    const ParallelConfig p = choose_grid(c, ranks, memory > 0 ? memory + process : 0, estimator).parallel;
    return str(p.data, "x", p.pipeline, "x", p.tensor);
}

RunConfig grid_for(const RunConfig& c, i64 ranks)
{
    Compiling estimator(machine_called(default_machine()));
    return choose_grid(c, ranks, 0, estimator);
}

/// Each rank's arena.
std::vector<Bytes> arenas(const RunConfig& c)
{
    CompileConfig options;
    options.machine = machine_called(default_machine());
    std::vector<Bytes> all;
    for (options.rank = 0; options.rank < rank_count(c.parallel); ++options.rank)
        all.push_back(compile_training(c, options).memory.arena);
    return all;
}

} // namespace

TEST_CASE("the config's own grid is used if it fits the ranks")
{
    CHECK(chosen(config_of(4, 4, 8, 2, 2, 2), 8) == "2x2x2");
    CHECK(chosen(config_of(4, 4, 8, 1, 1, 1), 1) == "1x1x1");
}

TEST_CASE("more or fewer nodes: the sharding of the model stays, the data degree changes")
{
    const RunConfig c = config_of(4, 4, 24, 2, 2, 2);
    CHECK(chosen(c, 16) == "4x2x2");
    CHECK(chosen(c, 12) == "3x2x2");
    CHECK(chosen(c, 4) == "1x2x2");
}

TEST_CASE("ranks stay idle rather than unbalanced")
{
    CHECK(chosen(config_of(4, 4, 8, 2, 2, 2), 7) == "1x2x2"); // 3 data ranks do not divide 8 sequences
    CHECK(chosen(config_of(6, 2, 8, 2, 2, 2), 6) == "1x3x2"); // but 3 stages divide 6 layers
}

TEST_CASE("a model is sharded over fewer ranks if nothing else is possible")
{
    CHECK(chosen(config_of(2, 2, 4, 1, 2, 2), 3) == "1x1x2"); // half of the parts
    CHECK(chosen(config_of(2, 2, 4, 1, 2, 2), 1) == "1x1x1");
}

TEST_CASE("every chosen grid compiles, with the same global batch", "[release]")
{
    for (const RunConfig& c :
         {config_of(3, 4, 12, 2, 1, 4), config_of(5, 6, 10, 5, 1, 1), config_of(8, 2, 7, 1, 8, 1)})
        for (i64 ranks = 1; ranks <= 17; ranks += contracts_on ? 4 : 1) { // sanitizers take their time
            const RunConfig other = grid_for(c, ranks);
            INFO(ranks);
            CHECK(rank_count(other.parallel) <= ranks);
            CompileConfig options;
            options.machine = machine_called(default_machine());
            CHECK_NOTHROW(compile_training(other, options));
            CHECK(microbatch_count(other) * micro_batch(other) * other.parallel.data == c.train.global_batch);
        }
}

TEST_CASE("with a memory limit, only grids within it")
{
    RunConfig c = config_of(4, 4, 8, 1, 4, 1);
    c.parallel.memory_limit = arenas(c).front();
    CHECK_THROWS_AS(grid_for(c, 1), UserError); // the whole model on one rank is too much
    CHECK(rank_count(grid_for(c, 8).parallel) == 8);
}

TEST_CASE("each stage is within the limit, not only the first", "[release]")
{
    RunConfig c = config_of(3, 4, 256, 1, 1, 2);
    c.model.vocab = 20000;
    c.train.micro_batch = 4;
    RunConfig three = c;
    three.parallel.pipeline = 3;
    three.parallel.tensor = 1;
    const std::vector<Bytes> stages = arenas(three), halves = arenas(c);
    c.parallel.memory_limit = std::max(halves[0], halves[1]);
    REQUIRE((stages[0] < c.parallel.memory_limit &&
             stages[2] > c.parallel.memory_limit)); // the last has the head
    CHECK(chosen(c, 3) == "1x1x2");
}

TEST_CASE("of the grids within the limit, one that fits the ranks' memory; if there is none, the best",
          "[release]")
{
    RunConfig c = config_of(3, 4, 256, 1, 1, 2);
    c.model.vocab = 20000;
    c.train.micro_batch = 4;
    const std::vector<Bytes> halves = arenas(c);
    CHECK(chosen(c, 3) == "1x3x1");
    CHECK(chosen(c, 3, 2 * std::max(halves[0], halves[1])) == "1x3x1");
    CHECK(chosen(c, 3, std::max(halves[0], halves[1])) == "1x1x2");
    CHECK(chosen(c, 3, 1000) == "1x3x1");
    c.checkpoint.every = 10; // the snapshot is outside the arena
    CHECK(chosen(c, 3, std::max(halves[0], halves[1])) == "1x3x1");
}

TEST_CASE("fewer data ranks use more microbatches, not larger ones")
{
    RunConfig c = config_of(4, 4, 32, 4, 1, 1);
    c.train.micro_batch = 0; // 8 on the config's grid
    const auto micro = [&](i64 ranks) { return grid_for(c, ranks).train.micro_batch; };
    CHECK(micro(4) == 0);
    CHECK(micro(1) == 8);
    CHECK(micro(8) == 4);      // a data rank has no more
    c.train.global_batch = 36; // 9
    CHECK(micro(1) == 9);
    c.train.global_batch = 40; // 10
    c.parallel.tensor = 2;
    CHECK(grid_for(c, 10).parallel.data == 5);
    CHECK(micro(10) == 8);
    c.train.global_batch = 44; // 11
    c.parallel.data = 4;
    CHECK(grid_for(c, 4).parallel.data == 2);
    CHECK(micro(4) == 11);
}
