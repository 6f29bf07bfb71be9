// `trivium checkpoint` on checkpoints of several ranks.
#include "base/check.hpp"
#include "catch.hpp"
#include "cli/commands.hpp"
#include "io/files/config_file.hpp"
#include "io/temporary_folder.hpp"
#include "io/tiled_model.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace trivium;

namespace {

struct Printed {
    int status = 0;
    std::string text;
};

/// Output and exit status of `trivium checkpoint ARGUMENTS…`. Does not catch its exceptions.
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

} // namespace

TEST_CASE("list, show and verify work on checkpoints of several ranks")
{
    const TemporaryFolder folder;
    save_tiled(folder.path(), tilings()[3], 4); // 2 x 3 ranks
    save_tiled(folder.path(), tilings()[0], 7);

    const auto rows = nlohmann::json::parse(checkpoint({"list", folder.path(), "--json"}).text);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0]["step"] == 7);
    CHECK(rows[1]["step"] == 4);
    CHECK(has(checkpoint({"list", folder.path()}).text, "step-00000004  step 4"));

    const auto shown = nlohmann::json::parse(checkpoint({"show", folder / "step-00000004", "--json"}).text);
    CHECK(shown["grid"] == "rows and columns");
    CHECK(shown["ranks"] == 6);
    CHECK(shown["shards"] == 6);
    CHECK(shown["version"] == 1);
    CHECK(shown["pieces"] == 6 * 6 + 1); // six tensors and the scalar; the empty tensor has no pieces
    CHECK(has(checkpoint({"show", folder / "step-00000004"}).text, "6 ranks (rows and columns)"));
    const std::string newest = checkpoint({"show", folder.path()}).text;
    INFO(newest);
    CHECK((has(newest, "step       7") && has(newest, "version 1") && has(newest, "param/w")));

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

TEST_CASE("a path that is not a checkpoint is a UserError; an empty folder has no checkpoints")
{
    const TemporaryFolder folder;
    put(folder / "file", "text");
    std::filesystem::create_directories(folder / "fresh");
    for (const char* command : {"list", "show", "verify", "prune"}) {
        INFO(command);
        CHECK(says(message_of<UserError>([&] {
                       checkpoint({command, folder / "file"});
                   }),
                   "file", "not a checkpoint"));
    }
    for (const char* command : {"list", "show", "prune"})
        CHECK(!message_of<UserError>([&] { checkpoint({command, folder / "nowhere"}); }).empty());
    CHECK(checkpoint({"verify", folder / "nowhere"}).status == 2);
    CHECK(says(message_of<UserError>([&] {
                   checkpoint({"show", folder / "fresh"});
               }),
               "holds none", "checkpoint.dir"));
    CHECK(checkpoint({"verify", folder / "fresh"}).status == 2);
    const Printed fresh = checkpoint({"list", folder / "fresh"});
    CHECK(fresh.status == 0);
    CHECK(says(fresh.text, "contains no checkpoint"));
    CHECK(!has(fresh.text, "bad"));
    CHECK(nlohmann::json::parse(checkpoint({"list", folder / "fresh", "--json"}).text).empty());
    std::filesystem::create_directories(folder / "step-00000009"); // incomplete
    CHECK(has(checkpoint({"list", folder / "step-00000009"}).text, "bad: "));
    CHECK(has(checkpoint({"list", folder.path()}).text, "bad: "));
}

TEST_CASE("a manifest that is too large is not read")
{
    const TemporaryFolder folder;
    const std::string path = folder / "step-00000001";
    put(path + "/manifest.json", "{");
    std::filesystem::resize_file(path + "/manifest.json", 60'000'000'000); // sparse
    CHECK(says(message_of<UserError>([&] { checkpoint({"show", path}); }), "its manifest has", "GiB"));
}

TEST_CASE("verify checks values: not finite, swapped bytes, implausible magnitudes")
{
    const TemporaryFolder folder;
    std::vector<float> values(1000), moments(1000, 1e-9f);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 0.02f * std::sin(static_cast<float>(i));
    const auto save = [&](const std::string& name, const std::vector<float>& w, const std::vector<float>& v) {
        auto copy_w = w, copy_v = v;
        const std::vector<TensorPiece> pieces{whole_tensor("param/w", {10, 100}, DType::f32, copy_w.data()),
                                              whole_tensor("adam_v/w", {1000}, DType::f32, copy_v.data())};
        return save_checkpoint(*make_self_comm(), folder / name, {.step = 1}, pieces, 0);
    };
    CHECK(checkpoint({"verify", save("good", values, moments)}).status == 0);
    const auto bad = [&](const std::string& name, const std::vector<float>& w, const std::vector<float>& v,
                         const std::string& says) {
        const Printed printed = checkpoint({"verify", save(name, w, v)});
        INFO(name << ": " << printed.text);
        CHECK(printed.status == 2);
        CHECK(has(printed.text, "bad"));
        CHECK(has(printed.text, says));
    };
    auto changed = values;
    changed[7] = std::numeric_limits<float>::quiet_NaN();
    changed[8] = -std::numeric_limits<float>::infinity();
    bad("nan", changed, moments, "param/w: 2 of 1000 values are not finite");
    changed = values;
    changed[999] = 1e38f;
    bad("huge", changed, moments, "param/w: 1 of 1000 values are larger than 1e18");
    const auto swapped = [](std::vector<float> all) {
        for (float& value : all)
            value = std::bit_cast<float>(__builtin_bswap32(std::bit_cast<std::uint32_t>(value)));
        return all;
    };
    bad("swapped", swapped(values), moments, "param/w: ");
    changed = values;
    for (float& value : changed) // as of bf16
        value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000u);
    bad("swapped-bf16", swapped(changed), moments, "param/w: ");
    auto wrong = moments;
    wrong[3] = std::numeric_limits<float>::infinity();
    bad("moment", values, wrong, "adam_v/w: 1 of 1000 values are not finite");
    const std::string path = save("prune", values, wrong);
    CHECK(has(checkpoint({"prune", folder / "prune"}).text, "bad"));
    CHECK(std::filesystem::exists(path));
}

TEST_CASE("diff lists the tensors that differ, for any grids")
{
    const TemporaryFolder folder;
    const std::string a = save_tiled(folder / "a", tilings()[3], 4),
                      b = save_tiled(folder / "b", tilings()[4], 4);
    const auto same = nlohmann::json::parse(checkpoint({"diff", a, b, "--json"}).text);
    CHECK(same["same_tensors"] == true);
    CHECK(same["same_state"] == false); // the grid
    CHECK(checkpoint({"diff", a, a}).status == 0);
    CHECK(checkpoint({"diff", a, folder / "a"}).status == 0); // its newest checkpoint

    RankTensors own(tilings()[0], 0);
    own.fill();
    static_cast<float*>(own.pieces[0].data)[37] += 0.5f; // param/w
    own.pieces.erase(own.pieces.begin() + 4);            // param/norm
    const std::string c = save_checkpoint(*make_self_comm(), folder / "c", {.step = 4}, own.pieces, 0);
    const Printed other = checkpoint({"diff", a, c, "--json"});
    CHECK(other.status == 1);
    const auto rows = nlohmann::json::parse(other.text)["tensors"];
    REQUIRE(rows.size() == 2);
    CHECK(rows[0]["tensor"] == "param/norm");
    CHECK(rows[0]["problem"] == "only in a");
    CHECK(rows[1]["tensor"] == "param/w");
    CHECK(rows[1]["differ"] == 1);
    CHECK(rows[1]["first_at"] == 37);
    CHECK(rows[1]["largest"].get<double>() == Approx(0.5));
    const std::string text = checkpoint({"diff", c, a}).text;
    CHECK(has(text, "1 of 120 values differ, by up to 0.5"));
    CHECK(has(text, "param/norm"));
    const std::size_t all = CheckpointReader::open(a).tensors().size(); // c lacks one of them
    CHECK(has(text, str("2 tensors differ, of ", all)));

    RunState state{.step = 4};
    state.recent_losses = {2.5};
    state.job = "7";
    const std::string d = save_checkpoint(*make_self_comm(), folder / "d", state, own.pieces, 0);
    const auto states = nlohmann::json::parse(checkpoint({"diff", c, d, "--json"}).text)["state"];
    REQUIRE(states.size() == 1); // equal runs may be different jobs
    CHECK(states[0]["key"] == "recent_losses");
}

TEST_CASE("diff names the config keys that differ; where files are makes no difference")
{
    const TemporaryFolder folder;
    RankTensors own(tilings()[0], 0);
    own.fill();
    const auto save = [&](const std::string& name, const std::vector<std::string>& overrides) {
        const RunState state{.step = 4, .config = to_toml(parse_config("", "t", overrides))};
        return save_checkpoint(*make_self_comm(), folder / name, state, own.pieces, 0);
    };
    const std::string a = save("a", {"checkpoint.dir=ck-a", "log.dir=log-a", "data.train=a.h5"}),
                      b = save("b", {"checkpoint.dir=ck-b", "log.dir=log-b", "data.train=b.h5"}),
                      c = save("c", {"checkpoint.dir=ck-b", "train.lr=0.5"});
    const Printed alike = checkpoint({"diff", a, b});
    INFO(alike.text);
    CHECK(alike.status == 0);
    CHECK(has(alike.text, "checkpoint.dir \"ck-a\" and \"ck-b\""));
    const Printed unlike = checkpoint({"diff", a, c});
    INFO(unlike.text);
    CHECK(unlike.status == 1);
    CHECK(has(unlike.text, "train.lr    3e-04 and 0.5\n"));
    const auto json = nlohmann::json::parse(checkpoint({"diff", a, b, "--json"}).text);
    CHECK(json["same_state"] == true);
    CHECK(json["places"].size() == 3);
}

TEST_CASE("prune keeps the newest undamaged checkpoints, and never removes the last one")
{
    const TemporaryFolder folder;
    for (const i64 step : {1, 2, 3, 4})
        save_tiled(folder.path(), tilings()[1], step);
    std::string shard = get(folder / "step-00000004/shard-00001.h5");
    shard.back() = static_cast<char>(shard.back() ^ 1); // in the data
    put(folder / "step-00000004/shard-00001.h5", shard);
    const std::vector<std::string> all = list_checkpoints(folder.path());
    const Printed dry = checkpoint({"prune", folder.path(), "--keep", "1", "--dry-run"});
    CHECK(has(dry.text, "step-00000002  would be removed"));
    CHECK(list_checkpoints(folder.path()) == all);
    const Printed pruned = checkpoint({"prune", folder.path(), "--keep", "1"});
    CHECK(has(pruned.text, "step-00000004  bad"));
    CHECK(has(pruned.text, "step-00000003  good, kept"));
    CHECK(list_checkpoints(folder.path()) == std::vector<std::string>{"step-00000004", "step-00000003"});
    CHECK(message_of<UserError>([&] {
              checkpoint({"prune", folder.path(), "--keep", "0"});
          }).find("always stays") != std::string::npos);
    CHECK(list_checkpoints(folder.path()).size() == 2);
    CHECK(has(message_of<UserError>([&] {
                  checkpoint({"prune", folder / "none"});
              }),
              "contains no checkpoint"));
}
