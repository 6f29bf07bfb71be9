// Manifests that lie, and checkpoints of version 1.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/manifest.hpp"
#include "io/temporary_folder.hpp"
#include "io/tiled_model.hpp"

#include <nlohmann/json.hpp>

using namespace trivium;
using Json = nlohmann::ordered_json;

namespace {

Json& tensor_of(Json& manifest, const std::string& name)
{
    for (Json& tensor : manifest["tensors"])
        if (tensor["name"] == name)
            return tensor;
    FAIL("no tensor " << name);
    return manifest;
}

/// "" where all of the checkpoint reads and verifies.
std::string complaint(const std::string& path)
{
    return message_of<UserError>([&] {
        const CheckpointReader reader = CheckpointReader::open(path);
        RankTensors own(tilings()[0], 0);
        for (const TensorPiece& piece : own.pieces)
            reader.read(piece);
        reader.verify();
    });
}

} // namespace

TEST_CASE("a manifest that lies is found out")
{
    const TemporaryFolder folder;
    const std::string path = save_tiled(folder.path(), tilings()[1], 1), file = path + "/manifest.json"; // rows of 4 ranks
    const Json whole = Json::parse(get(file));
    REQUIRE(complaint(path) == "");
    const auto lie = [&](const std::string& found, auto&& edit) {
        Json manifest = whole;
        edit(manifest);
        REQUIRE(manifest != whole);
        put(file, manifest.dump());
        INFO(manifest.dump() << "\n" << complaint(path));
        CHECK(says(complaint(path), "step-00000001", found));
    };
    const auto w = [](Json& m) -> Json& { return tensor_of(m, "param/w"); };

    lie("overlap", [&](Json& m) { w(m)["pieces"][1]["offset"][0] = 2; });
    lie("hole", [&](Json& m) { w(m)["pieces"].erase(2); });
    lie("hole", [&](Json& m) { w(m)["shape"] = {13, 10}; });
    lie("has a piece", [&](Json& m) { w(m)["shape"] = {11, 10}; });
    lie("has a piece", [&](Json& m) { w(m)["shape"] = {12, 10, 1}; });
    lie("has a piece", [&](Json& m) { w(m)["pieces"][0]["offset"] = {0}; });
    lie("has a piece", [&](Json& m) { w(m)["pieces"][0]["shape"] = {0, 10}; });
    lie("has a piece", [&](Json& m) { w(m)["pieces"][0]["offset"][0] = std::numeric_limits<i64>::max(); });
    lie("where a count should be", [&](Json& m) { w(m)["pieces"][0]["offset"][0] = -1; });
    lie("where a count should be", [&](Json& m) { w(m)["pieces"][0]["shape"][0] = 2.5; });
    lie("where a count should be", [&](Json& m) { w(m)["shape"][0] = std::uint64_t{1} << 63; });
    lie("has the shape", [&](Json& m) { w(m)["shape"] = {i64{1} << 40, i64{1} << 40}; });
    lie("a file of", [&](Json& m) {
        w(m)["shape"] = {i64{1} << 40, 10};
        w(m)["pieces"] = {{{"file", "shard-00000.h5"}, {"dataset", "param/w"}, {"offset", {0, 0}}, {"shape", {i64{1} << 40, 10}}}};
    });
    // Consistent with itself, not with the shards.
    lie("offset", [&](Json& m) { std::swap(w(m)["pieces"][0]["file"], w(m)["pieces"][1]["file"]); });
    lie("shape", [&](Json& m) {
        w(m)["pieces"][0]["shape"] = {2, 10};
        w(m)["pieces"][1]["shape"] = {4, 10};
        w(m)["pieces"][1]["offset"] = {2, 0};
    });
    lie("shape", [&](Json& m) { // the same elements in another shape
        w(m)["shape"] = {120};
        for (int i = 0; i < 4; ++i) {
            w(m)["pieces"][static_cast<std::size_t>(i)]["offset"] = {30 * i};
            w(m)["pieces"][static_cast<std::size_t>(i)]["shape"] = {30};
        }
    });
    lie("f64", [&](Json& m) { w(m)["type"] = "f64"; });
    lie("'bf17'", [&](Json& m) { w(m)["type"] = "bf17"; });
    lie("in a dataset 'param/norm'", [&](Json& m) { w(m)["pieces"][0]["dataset"] = "param/norm"; });
    lie("no dataset 'param/w@7'", [&](Json& m) { w(m)["pieces"][0]["dataset"] = "param/w@7"; });
    lie("lists tensor 'param/w' twice", [&](Json& m) { m["tensors"].push_back(w(m)); });
    // Names of files.
    for (const char* name : {"../step-00000001/shard-00000.h5", "/etc/passwd", "shard-.h5", "shard-0/../0.h5", "manifest.json", ""}) {
        lie("which is no file of a checkpoint", [&](Json& m) { m["files"][1]["name"] = name; });
        lie("which is not listed", [&](Json& m) { w(m)["pieces"][0]["file"] = name; });
    }
    lie("shard-00009.h5", [&](Json& m) { m["files"].push_back({{"name", "shard-00009.h5"}, {"bytes", 0}, {"xxh64", ""}}); });
    lie("lists shard-00000.h5 twice", [&](Json& m) { m["files"].push_back(m["files"][1]); });
    lie("does not list state.h5", [&](Json& m) { m["files"].erase(0); });
    lie("which is not listed", [&](Json& m) { m["files"].erase(2); });
    lie("bytes", [&](Json& m) { m["files"][2]["bytes"] = 100000; });
    lie("hash", [&](Json& m) { m["files"][2]["xxh64"] = "0123456789abcdef"; });
    lie("step 2", [&](Json& m) { m["step"] = 2; });
    lie("version 3", [&](Json& m) { m["version"] = 3; });
    lie("not of version 1", [&](Json& m) { m["version"] = 1; });
    lie("another kind", [&](Json& m) { m["format"] = "trivium"; });
    for (const char* key : {"format", "version", "step", "files", "tensors"}) {
        lie("manifest", [&](Json& m) { m.erase(key); });
        lie("", [&](Json& m) { m[key] = Json::array({1}); });
    }
    for (const char* key : {"name", "type", "shape", "pieces"})
        lie("manifest", [&](Json& m) { w(m).erase(key); });
    for (const char* key : {"file", "dataset", "offset", "shape"}) {
        lie("manifest", [&](Json& m) { w(m)["pieces"][0].erase(key); });
        lie("manifest", [&](Json& m) { w(m)["pieces"][0][key] = nullptr; });
    }
}

TEST_CASE("a checkpoint of version 1 reads, in boxes too")
{
    // Written by the last program of that version.
    const std::string path = TRIVIUM_IO_TEST_DATA "/version-1";
    const CheckpointReader reader = CheckpointReader::open(path);
    reader.verify();
    CHECK(reader.version() == 1);
    CHECK(reader.shards() == 1);
    CHECK(reader.state() == RunState{7, 6, 56, 7168, 3, "[model]\nlayers = 1\n", "0.1.0", "bytes", "", 0});
    REQUIRE(reader.tensors().size() == 4);
    CHECK(reader.tensors()[0].name == "adam_m/blocks.0.wq");
    CHECK(reader.tensors()[0].type == StoredType::f64);

    std::vector<float> wq(24), norm(4), column(6);
    std::vector<double> moments(24);
    float scalar = 0;
    reader.read(whole_tensor("param/blocks.0.wq", {6, 4}, StoredType::f32, wq.data()));
    reader.read(whole_tensor("adam_m/blocks.0.wq", {2, 3, 4}, StoredType::f64, moments.data()));
    reader.read(whole_tensor("param/norm", {4}, StoredType::f32, norm.data()));
    reader.read(whole_tensor("param/scalar", {}, StoredType::f32, &scalar));
    reader.read({"param/blocks.0.wq", {6, 4}, {{0, 2}, {6, 1}}, StoredType::f32, column.data()});
    for (int i = 0; i < 24; ++i) {
        CHECK(wq[static_cast<std::size_t>(i)] == 1.0f / static_cast<float>(i + 1));
        CHECK(moments[static_cast<std::size_t>(i)] == 1.0 / (3.0 + i));
    }
    for (int i = 0; i < 6; ++i)
        CHECK(column[static_cast<std::size_t>(i)] == 1.0f / static_cast<float>(4 * i + 3));
    CHECK(norm == std::vector<float>{-1.5f, -0.5f, 0.5f, 1.5f});
    CHECK(scalar == -2.5f);

    const TemporaryFolder folder;
    std::filesystem::copy(path, folder / "copy");
    std::string state = get(folder / "copy/state.h5");
    state[4000] = static_cast<char>(state[4000] ^ 1);
    put(folder / "copy/state.h5", state);
    CHECK(says(message_of<UserError>([&] { CheckpointReader::open(folder / "copy"); }), "state.h5", "hash"));
}
