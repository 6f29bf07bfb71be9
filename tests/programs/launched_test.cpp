// A drawn sample of ops and of random programs on ranks under the MPI launcher. A failing case prints its
// seed and its text.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text/text.hpp"
#include "op_batches.hpp"
#include "random_program.hpp"
#include "soak_settings.hpp"
#include "train/program.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

using namespace trivium;

namespace {

const std::vector<Mesh> launched_meshes{
    {{{"x", 2}}}, {{{"x", 2}, {"y", 2}}}, {{{"x", 3}, {"y", 2}}}, {{{"x", 2}, {"y", 4}}}};

/// The difference of each output from the program without partitioning, as `explain --run` reports it.
std::vector<double> differences_launched(const std::string& text, const Mesh& mesh, u64 seed)
{
    const Folder folder;
    write_text(folder / "p.graph", text);
    const Outcome outcome = run_ranks(
        {{static_cast<int>(mesh.ranks()), {"explain", "p.graph", "--run", "--json", "--seed", str(seed)}}},
        folder.path());
    std::vector<double> differences;
    if (outcome.status != 0) {
        FAIL_CHECK("seed " << seed << ": exit status " << outcome.status << "\n" << outcome.err << text);
        return differences;
    }
    const nlohmann::json report = nlohmann::json::parse(outcome.out);
    for (const nlohmann::json& output : report["outputs"]) // an infinite one is null or a string
        differences.push_back(output["difference"].is_number() ? output["difference"].get<double>() : 1e300);
    return differences;
}

void check_ops(const std::vector<OpCase>& cases, const Mesh& mesh, u64 seed, std::size_t count)
{
    Draw draw(seed);
    const AxisPieces pieces = drawn_pieces(draw, mesh, below(draw, 2) == 0);
    std::vector<OpProgram> batch;
    for (std::size_t i = 0; i < count; ++i) {
        const OpCase& op = cases[static_cast<std::size_t>(below(draw, static_cast<i64>(cases.size())))];
        batch.push_back(drawn_program(draw, op, mesh, pieces));
    }
    const std::vector<double> differences = differences_launched(text_of(batch, mesh), mesh, seed);
    std::size_t output = 0;
    for (std::size_t i = 0; i < batch.size() && !differences.empty(); ++i)
        for (const std::string& name : batch[i].op->outputs)
            if (const double difference = differences.at(output++); !(difference <= batch[i].op->tolerance))
                FAIL_CHECK("seed " << seed << ", " << batch[i].op->name << ": %" << name << " differs by "
                                   << difference << "\n"
                                   << text_of(batch[i], mesh, i));
}

void check_random(const Mesh& mesh, u64 seed)
{
    RandomConfig config;
    config.mesh = mesh;
    const std::string text = to_text(random_program(seed, config));
    for (const double difference : differences_launched(text, mesh, seed))
        if (!(difference <= 1e-10))
            FAIL_CHECK("seed " << seed << ": differs by " << difference << "\n" << text);
}

} // namespace

TEST_CASE("ops and random programs under the launcher compute the one-rank result", "[release]")
{
    const std::vector<OpCase> cases = op_cases();
    const soak::Budget budget;
    u64 launches = 0;
    for (u64 round = 0; round == 0 || budget.left(); ++round)
        for (const Mesh& mesh : launched_meshes) {
            const u64 seed = 10'000 * soak::seed() + round;
            check_ops(cases, mesh, seed, 40);
            check_random(mesh, seed);
            launches += 2;
        }
    CHECK(launches >= 8);
    std::printf("%llu launches\n", static_cast<unsigned long long>(launches));
}
