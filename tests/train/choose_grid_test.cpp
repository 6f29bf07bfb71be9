// Which grid a run takes on another number of ranks.
#include "base/check.hpp"
#include "catch.hpp"
#include "train/choose_grid.hpp"
#include "train/compile.hpp"

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

std::string chosen(const RunConfig& c, i64 ranks)
{
    const ParallelConfig p = choose_grid(c, ranks);
    return str(p.data, "x", p.pipeline, "x", p.tensor);
}

} // namespace

TEST_CASE("the config's own grid is kept where it fits the ranks")
{
    CHECK(chosen(config_of(4, 4, 8, 2, 2, 2), 8) == "2x2x2");
    CHECK(chosen(config_of(4, 4, 8, 1, 1, 1), 1) == "1x1x1");
}

TEST_CASE("more or fewer nodes: the model stays cut as it was, data ranks take the change")
{
    const RunConfig c = config_of(4, 4, 24, 2, 2, 2);
    CHECK(chosen(c, 16) == "4x2x2");
    CHECK(chosen(c, 12) == "3x2x2");
    CHECK(chosen(c, 4) == "1x2x2");
}

TEST_CASE("what does not divide is left idle rather than unbalanced")
{
    CHECK(chosen(config_of(4, 4, 8, 2, 2, 2), 7) == "1x2x2"); // 3 data ranks do not divide 8 sequences
    CHECK(chosen(config_of(6, 2, 8, 2, 2, 2), 6) == "1x3x2"); // but 3 stages divide 6 layers
}

TEST_CASE("a model that has to be cut less is, where nothing else is left")
{
    CHECK(chosen(config_of(2, 2, 4, 1, 2, 2), 3) == "1x1x2"); // half of the parts
    CHECK(chosen(config_of(2, 2, 4, 1, 2, 2), 1) == "1x1x1");
}

TEST_CASE("whatever is chosen compiles, with the same global batch")
{
    for (const RunConfig& c : {config_of(3, 4, 12, 2, 1, 4), config_of(5, 6, 10, 5, 1, 1), config_of(8, 2, 7, 1, 8, 1)})
        for (i64 ranks = 1; ranks <= 17; ++ranks) {
            RunConfig other = c;
            other.parallel = choose_grid(c, ranks);
            INFO(ranks);
            CHECK(rank_count(other.parallel) <= ranks);
            CompileConfig options;
            options.machine = machine_called(default_machine());
            CHECK_NOTHROW(compile_training(other, options));
            CHECK(microbatch_count(other) * micro_batch(other) * other.parallel.data == c.train.global_batch);
        }
}

TEST_CASE("with a limit of memory, only grids that keep it")
{
    RunConfig c = config_of(4, 4, 8, 1, 4, 1);
    const auto arena = [](const RunConfig& config) {
        CompileConfig options;
        options.machine = machine_called(default_machine());
        return compile_training(config, options).memory.arena;
    };
    c.parallel.memory_limit = arena(c);
    CHECK_THROWS_AS(choose_grid(c, 1), UserError); // the whole model on one rank is too much
    CHECK(rank_count(choose_grid(c, 8)) == 8);
}
