// Checkpoints of many ranks, with threads as ranks: every tiling reads what any other one wrote.
#include "base/check.hpp"
#include "base/log.hpp"
#include "catch.hpp"
#include "io/checkpoint/shard.hpp"
#include "io/find_resume.hpp"
#include "io/limited_files.hpp"
#include "io/temporary_folder.hpp"
#include "io/tiled_model.hpp"

#include <filesystem>
#include <unistd.h>

using namespace trivium;

namespace {

/// Reads with the ranks of `tiling`; the first wrong value on any rank, or "".
std::string wrong_after_read(const std::string& path, const Tiling& tiling, bool convert = false)
{
    std::vector<std::string> wrong(static_cast<std::size_t>(tiling.mesh.ranks()));
    run_on_threads(static_cast<int>(tiling.mesh.ranks()), [&](Comm& world) {
        RankTensors own(tiling, world.rank());
        if (convert)
            own.convert();
        const CheckpointReader reader = CheckpointReader::open(path);
        for (const TensorPiece& piece : own.pieces)
            reader.read(piece);
        wrong[static_cast<std::size_t>(world.rank())] = own.wrong();
    });
    for (const std::string& each : wrong)
        if (!each.empty())
            return each;
    return "";
}

void flip_in(const std::string& path, std::size_t at)
{
    std::string content = get(path);
    content[at] = static_cast<char>(content[at] ^ 1);
    put(path, content);
}

/// Saves the pieces that `pieces_of` returns for each rank. Returns each rank's error, or "".
template <class Pieces>
std::vector<std::string> save_errors(const std::string& dir, int ranks, const Pieces& pieces_of)
{
    std::vector<std::string> errors(static_cast<std::size_t>(ranks));
    run_on_threads(ranks, [&](Comm& world) {
        RunState state;
        state.step = 2;
        RankTensors own = pieces_of(world.rank());
        own.fill();
        try {
            save_checkpoint(world, dir, state, own.pieces, 1);
        } catch (const Error& error) {
            errors[static_cast<std::size_t>(world.rank())] = error.what();
        }
    });
    return errors;
}

const TiledTensor square{"param/w", {12, 10}, DType::f32};

} // namespace

TEST_CASE("every tiling reads what another one saved, bit for bit")
{
    const TemporaryFolder folder;
    for (const Tiling& from : tilings()) {
        const std::string path = save_tiled(folder / "c", from, 5);
        const CheckpointReader reader = CheckpointReader::open(path);
        reader.verify();
        CHECK(reader.state().grid == from.name);
        CHECK(reader.state().ranks == from.mesh.ranks());
        CHECK(reader.tensors().size() == tiled_tensors().size());
        for (const Tiling& to : tilings()) {
            INFO("from " << from.name << " to " << to.name);
            CHECK(wrong_after_read(path, to) == "");
        }
        INFO("converted, from " << from.name);
        CHECK(wrong_after_read(path, tilings()[4], true) == "");
    }
}

TEST_CASE("each rank writes one shard with the pieces that it saves")
{
    const TemporaryFolder folder;
    const std::string path =
        save_tiled(folder / "c", {"replicas of rows", {{{"a", 3}, {"replica", 2}}}, {"a"}, {}}, 1);
    CHECK(names(path) == std::vector<std::string>{"index.h5", "manifest.json", "shard-00000.h5",
                                                  "shard-00002.h5", "shard-00004.h5"});
    CHECK(names(folder / "c") == std::vector<std::string>{"latest", "step-00000001"});
    const CheckpointReader reader = CheckpointReader::open(path);
    CHECK(reader.shards() == 3);
    for (const CheckpointReader::Entry& entry : reader.tensors())
        CHECK(entry.pieces == (entry.name == "param/scalar" ? 1 : entry.name == "param/none" ? 0 : 3));
}

TEST_CASE("any boxes can be saved: in a spiral, and several of one tensor on a rank")
{
    const TemporaryFolder folder;
    const std::vector<Box> spiral{
        {{0, 0}, {4, 7}}, {{0, 7}, {9, 3}}, {{9, 3}, {3, 7}}, {{4, 0}, {8, 3}}, {{4, 3}, {5, 4}}};
    const auto errors = save_errors(folder.path(), 2, [&](int rank) {
        RankTensors own;
        for (std::size_t i = 0; i < spiral.size(); ++i)
            if (static_cast<int>(i % 2) == rank)
                own.add(square, spiral[i], DType::f32, true);
        return own;
    });
    REQUIRE(errors == std::vector<std::string>(2));
    const CheckpointReader reader = CheckpointReader::open(folder / "step-00000002");
    for (i64 top = 0; top < 12; ++top)
        for (i64 left = 0; left < 10; ++left) {
            RankTensors own;
            for (i64 rows = 1; top + rows <= 12; rows += 2)
                for (i64 columns = 1; left + columns <= 10; columns += 3)
                    own.add(square, {{top, left}, {rows, columns}}, DType::f64, false);
            for (const TensorPiece& piece : own.pieces)
                reader.read(piece);
            REQUIRE(own.wrong() == "");
        }
}

TEST_CASE("pieces that do not tile a tensor are an error on all ranks")
{
    const TemporaryFolder folder;
    save_tiled(folder.path(), tilings()[1], 1);
    const auto refused = [&](const std::string& problem, auto&& pieces_of) {
        const std::vector<std::string> errors = save_errors(folder.path(), 3, [&](int rank) {
            RankTensors own;
            own.add({"param/fine", {3}, DType::f32}, {{rank}, {1}}, DType::f32, true);
            pieces_of(own, rank);
            return own;
        });
        INFO(errors[0]);
        CHECK(has(errors[0], problem));
        CHECK(has(errors[0], "'param/w'"));
        CHECK(errors == std::vector<std::string>(3, errors[0]));
        CHECK(names(folder.path()) == std::vector<std::string>{"latest", "step-00000001"});
    };
    refused("hole", [](RankTensors& own, int rank) {
        if (rank != 1)
            own.add(square, {{4 * rank, 0}, {4, 10}}, DType::f32, true);
    });
    refused("hole", [](RankTensors& own, int) {
        own.add(square, {{0, 0}, {12, 10}}, DType::f32, false);
    }); // no rank saves it
    refused("overlap", [](RankTensors& own, int) { own.add(square, {{0, 0}, {12, 10}}, DType::f32, true); });
    refused("overlap", [](RankTensors& own, int rank) {
        own.add(square, {{4 * rank, 0}, {rank == 1 ? 5 : 4, 10}}, DType::f32, true);
    });
    refused("has a piece [5, 10] at [8, 0]", [](RankTensors& own, int rank) {
        own.add(square, {{4 * rank, 0}, {rank == 2 ? 5 : 4, 10}}, DType::f32, true);
    });
    refused("on another", [](RankTensors& own, int rank) {
        own.add({"param/w", {12, rank == 2 ? 11 : 10}, DType::f32}, {{4 * rank, 0}, {4, 10}}, DType::f32,
                true);
    });
    refused("on another", [](RankTensors& own, int rank) {
        own.add(square, {{4 * rank, 0}, {4, 10}}, rank == 2 ? DType::f64 : DType::f32, true);
    });
}

TEST_CASE("a link or a folder called latest, from other tools or a copy, is no obstacle")
{
    const TemporaryFolder folder;
    save_tiled(folder.path(), tilings()[1], 1);
    std::filesystem::remove(folder / "latest");
    std::filesystem::create_symlink("step-00000001", folder / "latest");
    save_tiled(folder.path(), tilings()[1], 2);
    CHECK(get(folder / "latest") == "step-00000002\n");
    CHECK(wrong_after_read(folder / "step-00000001", tilings()[2]) == "");
    std::filesystem::remove(folder / "latest");
    std::filesystem::copy(folder / "step-00000001", folder / "latest",
                          std::filesystem::copy_options::recursive);
    save_tiled(folder.path(), tilings()[1], 3);
    CHECK(get(folder / "latest") == "step-00000003\n");
    CHECK(std::filesystem::is_directory(folder / ".old-latest"));
}

TEST_CASE("a full disk on one rank is an error on all ranks, and only older checkpoints remain")
{
    const TemporaryFolder folder;
    save_tiled(folder.path(), tilings()[1], 1);
    const TiledTensor large{"param/large", {1 << 18}, DType::f32};
    const auto pieces_of = [&](int rank) { // ranks 1 and 3 write half a megabyte each
        RankTensors own;
        own.add(large, {{rank / 2 << 17}, {rank % 2 == 1 ? 1 << 17 : 0}}, DType::f32, true);
        own.add({"param/small", {4}, DType::f32}, {{rank}, {1}}, DType::f32, true);
        return own;
    };
    {
        const LimitedFiles limited(256 << 10);
        const std::vector<std::string> errors = save_errors(folder.path(), 4, pieces_of);
        INFO(errors[0]);
        CHECK(has(errors[0], "rank 1"));
        CHECK(says(errors[0], "shard-00001.h5: cannot write "));
        CHECK(errors == std::vector<std::string>(4, errors[0]));
        CHECK(names(folder.path()) == std::vector<std::string>{"latest", "step-00000001"});
        CHECK(get(folder / "latest") == "step-00000001\n");
        CHECK(wrong_after_read(folder / "step-00000001", tilings()[2]) == "");
    }
    CHECK(save_errors(folder.path(), 4, pieces_of) ==
          std::vector<std::string>(4)); // with space again, the save works
    CHECK(names(folder.path()) == std::vector<std::string>{"latest", "step-00000002"});
}

TEST_CASE("a folder that cannot be made is an error on all ranks")
{
    const TemporaryFolder folder;
    put(folder / "file", "x");
    const auto errors = save_errors(folder / "file/c", 3, [](int) { return RankTensors(tilings()[0], 0); });
    CHECK(says(errors[0], "rank 0", "file/c"));
    CHECK(errors == std::vector<std::string>(3, errors[0]));
}

TEST_CASE("reads of a damaged shard throw, and so does verify")
{
    const TemporaryFolder folder;
    const std::string path = save_tiled(folder.path(), tilings()[1], 1); // rows of 4 ranks
    const auto read_rows = [&](i64 begin, i64 rows) {
        return message_of<UserError>([&] {
            RankTensors own;
            own.add(square, {{begin, 0}, {rows, 10}}, DType::f32, false);
            CheckpointReader::open(path).read(own.pieces[0]);
        });
    };
    const auto verify = [&](i64 part, i64 parts) {
        return message_of<UserError>([&] { CheckpointReader::open(path).verify(part, parts); });
    };
    const std::string shard = path + "/" + shard_file(2), whole = get(shard);
    for (std::size_t at = 0; at < whole.size(); at += 501) {
        flip_in(shard, at);
        CHECK(read_rows(0, 6) == "");
        CHECK(says(read_rows(0, 7), "step-00000001", "shard-00002.h5", "hash"));
        CHECK(says(verify(0, 1), "shard-00002.h5", "hash"));
        CHECK(says(message_of<UserError>([&] { CheckpointReader::open(path).verify(); }), "shard-00002.h5",
                   "hash"));
        for (i64 part = 0; part < 5; ++part)
            CHECK((verify(part, 5) == "") == (part != 2));
        put(shard, whole);
    }
    put(shard, whole.substr(0, whole.size() - 1));
    CHECK(read_rows(0, 6) == "");
    CHECK(says(read_rows(0, 7), "shard-00002.h5", "truncated"));
    std::filesystem::remove(shard);
    CHECK(says(read_rows(0, 7), "shard-00002.h5", "no such"));
    put(shard, whole);
    CHECK(read_rows(0, 12) == "");
}

TEST_CASE("all ranks restore the same newest undamaged checkpoint, and one rank warns")
{
    const TemporaryFolder folder;
    for (const i64 step : {1, 2, 3, 4})
        save_tiled(folder.path(), tilings()[static_cast<std::size_t>(step)], step);
    flip_in(folder / "step-00000004/shard-00007.h5", 1000); // only one rank checks this file
    std::filesystem::remove(folder / "step-00000003/shard-00003.h5");

    CheckpointConfig config;
    config.dir = folder.path();
    const auto found = [&](int ranks) {
        std::vector<std::string> each(static_cast<std::size_t>(ranks));
        run_on_threads(ranks, [&](Comm& world) {
            std::string& answer = each[static_cast<std::size_t>(world.rank())];
            try {
                answer = find_resume(world, config).value_or("none");
            } catch (const UserError& error) {
                answer = error.what();
            }
        });
        return each;
    };
    const std::string log = folder / "log";
    std::FILE* const file = std::fopen(log.c_str(), "w");
    const int before = ::dup(2);
    ::dup2(::fileno(file), 2);
    const std::vector<std::string> eight = found(8);
    ::dup2(before, 2);
    ::close(before);
    std::fclose(file);
    CHECK(eight == std::vector<std::string>(8, folder / "step-00000002"));
    const std::string lines = get(log);
    INFO(lines);
    std::size_t warnings = 0;
    for (std::size_t at = lines.find("not used"); at != std::string::npos;
         at = lines.find("not used", at + 1))
        ++warnings;
    CHECK(warnings == 2);
    CHECK(has(lines, "step-00000004"));
    CHECK(has(lines, "step-00000003"));

    set_log_level(LogLevel::quiet);
    for (const int ranks : {1, 2, 3, 5})
        CHECK(found(ranks) ==
              std::vector<std::string>(static_cast<std::size_t>(ranks), folder / "step-00000002"));
    CHECK(names(folder.path()) == std::vector<std::string>{".bad-step-00000003", ".bad-step-00000004",
                                                           "latest", "log", "step-00000001",
                                                           "step-00000002"});
    CHECK(get(folder / "latest") == "step-00000002\n");
    std::filesystem::rename(folder / ".bad-step-00000004", folder / "step-00000004");
    config.resume = folder / "step-00000004";
    const std::vector<std::string> named = found(4);
    CHECK(says(named[0], "step-00000004", "shard-00007.h5"));
    CHECK(named == std::vector<std::string>(4, named[0]));
    config.resume = folder / "step-00000001";
    CHECK(found(3) == std::vector<std::string>(3, config.resume));
    config.resume = folder.path();
    CHECK(found(3) == std::vector<std::string>(3, folder / "step-00000002"));
    config.resume = "auto";
    for (const char* name : {"step-00000001", "step-00000002"})
        flip_in(folder / (std::string(name) + "/index.h5"), 1000);
    const std::vector<std::string> bad = found(3);
    CHECK(says(bad[0], "every checkpoint in it is bad"));
    CHECK(bad == std::vector<std::string>(3, bad[0]));
    config.dir = folder / "none";
    CHECK(found(3) == std::vector<std::string>(3, "none"));
    set_log_level(LogLevel::info);
}
