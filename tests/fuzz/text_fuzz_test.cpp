// A damaged text is a UserError or valid; it never causes a bug, a crash or a hang.
#include "base/check.hpp"
#include "catch.hpp"
#include "explain_text.hpp"
#include "golden/golden.hpp"
#include "graph_mutations.hpp"
#include "io/files/config_file.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "model/model.hpp"
#include "mutate.hpp"
#include "passes/autodiff.hpp"
#include "passes/optimizer.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>

using namespace trivium;

namespace {

/// Runs `read` on mutations of `text` until the time is over and some were valid, of which there are few;
/// `read` may throw only UserError.
template <class Read>
void fuzz(const std::string& text, const soak::Budget& budget, Read&& read)
{
    std::mt19937_64 random(soak::seed());
    constexpr i64 most_refused = 30'000; // then the parser refuses everything
    i64 tried = 0, refused = 0;
    while (budget.left() || (refused == tried && tried < most_refused)) {
        const std::string damaged = mutate(text, random);
        ++tried;
        try {
            read(damaged);
        } catch (const UserError& error) {
            ++refused;
            if (std::string(error.what()).empty())
                FAIL("a message without words for:\n" << damaged);
        } catch (const std::exception& error) {
            FAIL("seed " << soak::seed() << ", text " << tried << ": " << error.what() << "\n" << damaged);
        }
    }
    INFO(tried << " texts, " << refused << " refused");
    CHECK(refused > 0);
    CHECK(refused < tried);
}

std::string small_graph()
{
    ModelConfig model = preset("toy");
    model.layers = 1;
    model.vocab = 300;
    resolve(model);
    return to_text(add_optimizer(autodiff(build_loss_graph(model, {.batch = 2}), {}), {}));
}

} // namespace

TEST_CASE("damaged graphs are refused or print as they parse")
{
    fuzz(small_graph(), soak::Budget(3), [](const std::string& text) {
        const Graph graph = parse_graph(text, "damaged.graph");
        const std::string printed = to_text(graph);
        if (to_text(parse_graph(printed, "printed.graph")) != printed)
            throw std::runtime_error("prints as another graph than it parses to:\n" + printed);
        verify(graph, Level::global);
    });
}

TEST_CASE("explain refuses a damaged graph, or makes a correct program from it")
{
    std::vector<std::string> graphs;
    for (const auto& entry : std::filesystem::directory_iterator(test_file("fuzz/seeds/graph_text")))
        graphs.push_back(read_text("fuzz/seeds/graph_text/" + entry.path().filename().string()));
    std::sort(graphs.begin(), graphs.end()); // so that a seed means the same everywhere
    REQUIRE(graphs.size() >= 9);
    for (const std::string& graph : graphs)
        explain_text(graph);
    const i64 least = soak::whole() ? 10'000 : contracts_on ? 200 : 2'000;
    i64 tried = 0, explained = 0;
    std::mt19937_64 random(soak::seed());
    for (const soak::Budget budget(3); tried < least || budget.left(); ++tried) {
        const std::string damaged = mutate_graph(graphs[random() % graphs.size()], random);
        INFO("seed " << soak::seed() << ", text " << tried << ":\n" << damaged);
        const std::clock_t begin = std::clock(); // others may use the cores
        try {
            explain_text(damaged);
            ++explained;
        } catch (const UserError& error) {
            const std::string what = error.what(), place = "input.graph:";
            if (what.rfind(place, 0) != 0 || what.size() <= place.size() || what[place.size()] < '1' ||
                what[place.size()] > '9' || what.find("remedy: ") == std::string::npos)
                FAIL("a message without file, line and remedy: " << what);
        } catch (const std::exception& error) {
            FAIL(error.what());
        }
        const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
        if (seconds > (contracts_on ? 50 : 5))
            FAIL("takes " << seconds << " s");
    }
    INFO(explained << " of " << tried << " explained");
    CHECK(explained > tried / 20);
}

TEST_CASE("damaged configs are refused or valid")
{
    RunConfig config;
    config.model = preset("llama-5m");
    config.data.train = "train.h5";
    fuzz(to_toml(config), soak::Budget(3), [](const std::string& text) {
        RunConfig read = parse_config(text, "damaged.toml");
        if (to_toml(parse_config(to_toml(read), "printed.toml")) != to_toml(read))
            throw std::runtime_error("prints as another config than it parses to:\n" + to_toml(read));
        read.model.vocab = 300;
        resolve_and_validate(read);
    });
}
