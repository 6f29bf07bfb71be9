// Random programs on all ranks against JAX, whose results are kept: jax_values.py has made jax.values.
#include "base/check.hpp"
#include "catch.hpp"
#include "draw_tensors.hpp"
#include "ir/text/text.hpp"
#include "plan/graph_file.hpp"
#include "programs/compare.hpp"
#include "random_program.hpp"
#include "ranks/elements.hpp"
#include "runs.hpp"
#include "soak_settings.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>

using namespace trivium;

namespace {

constexpr u64 first_seed = 3'000'000;

/// Forward passes; a quarter with manual regions.
Graph program_of(u64 seed)
{
    RandomConfig config = random_config(seed);
    config.backward = false;
    return random_program(seed, config);
}

/// All outputs in two numbers, as in jax_values.py.
struct Digest {
    double weighted = 0, magnitude = 0;
};

Digest digest_of(const std::vector<ComparedOutput>& outputs)
{
    Digest digest;
    double place = 0, whole = 0;
    for (const ComparedOutput& output : outputs)
        for (i64 i = 0; i < output.type.elements(); ++i) {
            const double x = get(output.type.dtype, output.whole.data(), i);
            digest.weighted += x * (std::modf(++place * 0.6180339887498949, &whole) - 0.5);
            digest.magnitude += std::abs(x);
        }
    return digest;
}

Digest run_on_all_ranks(const Graph& program, u64 seed)
{
    const Graph sharded = sharded_graph(read_graph(to_text(program), "program"));
    return digest_of(runs::comparison_on_threads(sharded, seed, true).outputs);
}

} // namespace

TEST_CASE("programs for JAX", "[.][release]")
{
    const char *path = std::getenv("TRIVIUM_PROGRAMS"), *count = std::getenv("TRIVIUM_PROGRAM_COUNT");
    REQUIRE((path && count));
    std::ofstream out(path);
    out.precision(17);
    for (u64 seed = first_seed; seed < first_seed + std::stoull(count); ++seed) {
        const Graph sharded = sharded_graph(read_graph(to_text(program_of(seed)), "program"));
        const Graph plain = unpartitioned(sharded);
        std::string text = to_text(plain), line;
        for (const char c : text)
            line += c == '\n' ? "\\n" : c == '"' ? "\\\"" : std::string(1, c);
        out << "{\"seed\": " << seed << ", \"text\": \"" << line << "\", \"given\": {";
        const Tensors tensors = draw_tensors(sharded, seed);
        const char* comma = "";
        for (const Value& value : sharded.values) {
            const auto found = tensors.find(value.name);
            if (found == tensors.end() || value.producer)
                continue;
            out << comma << "\"" << value.name << "\": [";
            for (i64 i = 0; i < value.type.elements(); ++i)
                out << (i ? "," : "") << get(value.type.dtype, found->second.data(), i);
            out << "]";
            comma = ", ";
        }
        out << "}}\n";
    }
}

TEST_CASE("random programs on all ranks compute what JAX computes", "[release]")
{
    runs::start_runtime();
    std::ifstream kept(TRIVIUM_TEST_DATA "/programs/jax.values");
    u64 seed = 0;
    Digest expected;
    int run = 0, different = 0;
    while (kept >> seed >> expected.weighted >> expected.magnitude) {
        if (!soak::whole() && seed % 16 != soak::seed() % 16)
            continue;
        const Digest found = run_on_all_ranks(program_of(seed), seed);
        const double bound = 1e-9 * (1 + expected.magnitude);
        ++run;
        if (std::abs(found.weighted - expected.weighted) <= bound &&
            std::abs(found.magnitude - expected.magnitude) <= bound)
            continue;
        FAIL_CHECK("seed " << seed << ": " << found.weighted << " instead of " << expected.weighted << ", "
                           << found.magnitude << " instead of " << expected.magnitude << "\n"
                           << to_text(program_of(seed)));
        if (++different == 5)
            break;
    }
    CHECK(run > 50);
}
