// `trivium checkpoint`, on checkpoints of a grid and on one of version 1.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/temporary_folder.hpp"
#include "io/tiled_model.hpp"
#include "train/run_commands.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace trivium;

namespace {

struct Printed {
    int status = 0;
    std::string text;
};

/// What `trivium checkpoint ARGUMENTS…` prints and returns; its exceptions pass.
Printed checkpoint(std::vector<std::string> arguments)
{
    CommandLine line("trivium", "", "");
    Command program = line.root();
    add_checkpoint_command(program);
    arguments.insert(arguments.begin(), {"trivium", "checkpoint"});
    std::vector<char*> argv;
    for (std::string& argument : arguments)
        argv.push_back(argument.data());
    const TemporaryFolder folder;
    std::FILE* const file = std::fopen((folder / "out").c_str(), "w");
    std::fflush(stdout);
    const int before = ::dup(1);
    ::dup2(::fileno(file), 1);
    const auto restore = [&] {
        std::fflush(stdout);
        ::dup2(before, 1);
        ::close(before);
        std::fclose(file);
    };
    Printed printed;
    try {
        printed.status = line.run(static_cast<int>(argv.size()), argv.data());
    } catch (...) {
        restore();
        throw;
    }
    restore();
    printed.text = get(folder / "out");
    return printed;
}

const std::string version_1 = TRIVIUM_IO_TEST_DATA "/version-1";

} // namespace

TEST_CASE("list, show and verify know checkpoints of a grid and those of version 1")
{
    const TemporaryFolder folder;
    save_tiled(folder.path(), tilings()[3], 4); // 2 x 3 ranks
    std::filesystem::copy(version_1, folder / "step-00000007");

    const auto rows = nlohmann::json::parse(checkpoint({"list", folder.path(), "--json"}).text);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0]["step"] == 7);
    CHECK(rows[1]["step"] == 4);
    CHECK(has(checkpoint({"list", folder.path()}).text, "step-00000004  step 4"));

    const auto shown = nlohmann::json::parse(checkpoint({"show", folder / "step-00000004", "--json"}).text);
    CHECK(shown["grid"] == "rows and columns");
    CHECK(shown["ranks"] == 6);
    CHECK(shown["shards"] == 6);
    CHECK(shown["version"] == 3);
    CHECK(shown["pieces"] == 6 * 6 + 1); // of six tensors, and the single value; the empty one has none
    CHECK(has(checkpoint({"show", folder / "step-00000004"}).text, "6 ranks (rows and columns)"));
    const std::string old = checkpoint({"show", folder.path()}).text; // the newest
    CHECK(has(old, "unknown"));
    CHECK(has(old, "version 1"));
    CHECK(has(old, "param/blocks.0.wq"));

    CHECK(checkpoint({"verify", folder.path()}).status == 0);
    std::string shard = get(folder / "step-00000004/shard-00005.h5");
    shard[1000] = static_cast<char>(shard[1000] ^ 1);
    put(folder / "step-00000004/shard-00005.h5", shard);
    const Printed bad = checkpoint({"verify", folder.path()});
    CHECK(bad.status == 2);
    CHECK(has(bad.text, "step-00000007: good"));
    CHECK(has(bad.text, "step-00000004: bad"));
    CHECK(has(bad.text, "shard-00005.h5"));
    std::filesystem::remove(folder / "step-00000004/shard-00005.h5");
    CHECK(has(checkpoint({"list", folder.path()}).text, "bad: "));
}
