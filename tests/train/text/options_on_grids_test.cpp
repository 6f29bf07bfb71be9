// The logits of models with every option of a block, on grids of ranks, which are threads, against one rank.
#include "catch.hpp"
#include "config/option_sets.hpp"
#include "io/temporary_folder.hpp"
#include "train/generator.hpp"
#include "train/rank_engine.hpp"
#include "train/tiny_run.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

using namespace trivium;

namespace {

constexpr i64 rows = 4, chunk = 4, capacity = 16;

/// The logits of some calls for sequences of several lengths, one call after the other.
std::vector<double> logits_of(const RunConfig& config)
{
    std::vector<double> all;
    std::mutex writing;
    run_on_threads(static_cast<int>(rank_count(config.parallel)), [&](Comm& world) {
        RankEngine rank(config, world, [](const RunConfig& own, const CompileConfig& options) {
            return compile_generation(own, {rows, chunk, capacity, true}, options);
        });
        Engine& engine = rank.engine();
        draw_parameters(engine.program(prefill_program), engine.arenas(), 3, "test", 0.3);
        Generator generator(engine);
        std::vector<i32> start(rows);
        std::size_t end = 0; // of the logits so far
        for (const auto& [program, given] :
             std::vector<std::pair<std::size_t, std::vector<i32>>>{{prefill_program, {4, 2, 4, 1}},
                                                                   {score_program, {0, 4, 2, 0}},
                                                                   {decode_program, {1, 1, 0, 1}},
                                                                   {prefill_program, {3, 0, 4, 1}},
                                                                   {decode_program, {1, 1, 1, 1}}}) {
            const i64 queries = generator.queries(program), width = generator.vocab(),
                      each = program == score_program ? queries : 1;
            GeneratorCall call{program, {}, start, given};
            for (i64 i = 0; i < rows * queries; ++i)
                call.tokens.push_back(static_cast<i32>((7 + 13 * i + static_cast<i64>(end)) % width));
            generator.run(call);
            if (world.rank() == 0)
                all.resize(end + static_cast<std::size_t>(rows * each * width));
            agree(world, 0); // a barrier
            const Mesh& mesh = rank.grid().mesh();
            if (stage_of(mesh, world.rank()) + 1 == config.parallel.pipeline) {
                const Box part = generator.part(program, mesh.coordinates(world.rank()));
                const auto wide = static_cast<std::size_t>(part.shape.back());
                for (i64 row = 0; row < part.shape[0]; ++row)
                    for (i64 token = 0; token < each; ++token) {
                        const i64 global = part.offset[0] + row;
                        const bool is_new = token < std::max(given[static_cast<std::size_t>(global)], 1);
                        std::vector<double> own(wide);
                        generator.copy_logits(program, (row * each + token) * part.shape.back(), own);
                        const std::lock_guard lock(writing);
                        if (is_new) // the others are of padding
                            std::copy(own.begin(), own.end(),
                                      all.begin() + static_cast<std::ptrdiff_t>(end) +
                                          (global * each + token) * width + part.offset.back());
                    }
            }
            agree(world, 0);
            end += static_cast<std::size_t>(rows * each * width);
            for (std::size_t row = 0; row < start.size(); ++row)
                start[row] += given[row];
        }
    });
    return all;
}

} // namespace

TEST_CASE("the logits of every option are the same on every grid")
{
    const tiny::Ground ground(TemporaryFolder().path()); // starts the kernels
    struct Grid {
        i64 data = 1, pipeline = 1, tensor = 1, zero = 0, context = 1, expert = 1;
    };
    for (std::size_t set = 0; set < names_of_enum<OptionSet>.size(); ++set) {
        if (contracts_on && set % 5 != 0) // sanitizers take their time
            continue;
        const bool has_experts = static_cast<OptionSet>(set) == OptionSet::experts ||
                                 static_cast<OptionSet>(set) == OptionSet::groups;
        std::vector<Grid> grids{{}, {1, 1, 3}, {1, 2, 2}, {2, 1, 2, 3}, {2, 1, 1, 1, 2}};
        if (has_experts)
            grids.insert(grids.end(), {{2, 1, 1, 0, 1, 2}, {4, 1, 1, 3, 1, 2}});
        std::vector<double> want;
        for (const Grid& grid : grids) {
            RunConfig c = ground.config(tiny::model_of(0), Precision::f64, {}, "x");
            c.model.layers = 3;
            c.model.dim = 24;
            c.model.heads = 6;
            c.model.kv_heads = 3;
            c.model.seq = 16;
            set_options(c.model, static_cast<OptionSet>(set));
            c.parallel.data = grid.data;
            c.parallel.pipeline = grid.pipeline;
            c.parallel.tensor = grid.tensor;
            c.parallel.zero = grid.zero;
            c.parallel.context = grid.context;
            c.parallel.expert = grid.expert;
            resolve_and_validate(c);
            const std::vector<double> got = logits_of(c);
            INFO(names_of_enum<OptionSet>[set] << ", data " << grid.data << ", pipeline " << grid.pipeline
                                               << ", tensor " << grid.tensor << ", context " << grid.context
                                               << ", expert " << grid.expert << ", zero " << grid.zero);
            if (want.empty())
                want = got;
            REQUIRE(got.size() == want.size());
            double most = 0, size = 0;
            for (std::size_t i = 0; i < got.size(); ++i) {
                most = std::max(most, std::abs(got[i] - want[i]));
                size = std::max(size, std::abs(want[i]));
            }
            CHECK(most <= 1e-10 * size);
            CHECK(size > 0.1);
        }
    }
}
