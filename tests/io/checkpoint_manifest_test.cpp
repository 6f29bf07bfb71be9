// Checkpoints of versions 1 and 2, and manifests that lie; of version 3, a manifest that is not what was
// written.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/files/damaged.hpp"
#include "io/files/hash.hpp"
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

// Written by the last programs of those versions; the second by four ranks that cut the rows.
const std::string version_1 = TRIVIUM_IO_TEST_DATA "/version-1",
                  version_2 = TRIVIUM_IO_TEST_DATA "/version-2";

/// "" where all of the checkpoint reads and verifies.
std::string manifest_error(const std::string& path)
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

TEST_CASE("a manifest of version 2 that lies is found out")
{
    const TemporaryFolder folder;
    const std::string path = folder / "step-00000001", file = path + "/manifest.json";
    std::filesystem::copy(version_2, path);
    const Json whole = Json::parse(get(file));
    REQUIRE(manifest_error(path) == "");
    const auto lie = [&](const std::string& found, auto&& edit) {
        Json manifest = whole;
        edit(manifest);
        REQUIRE(manifest != whole);
        put(file, manifest.dump());
        INFO(manifest.dump() << "\n" << manifest_error(path));
        CHECK(says(manifest_error(path), "step-00000001", found));
    };
    const auto w = [](Json& m) -> Json& { return tensor_of(m, "param/w"); };

    lie("overlap", [&](Json& m) { w(m)["pieces"][1]["offset"][0] = 2; });
    lie("hole", [&](Json& m) { w(m)["pieces"].erase(2); });
    lie("hole", [&](Json& m) { w(m)["shape"] = {13, 10}; });
    lie("has a piece", [&](Json& m) { w(m)["shape"] = {11, 10}; });
    lie("has a piece", [&](Json& m) { w(m)["shape"] = {12, 10, 1}; });
    lie("has a piece", [&](Json& m) { w(m)["pieces"][0]["offset"] = {0}; });
    lie("has a piece", [&](Json& m) { w(m)["pieces"][0]["shape"] = {0, 10}; });
    lie("has a piece", [&](Json& m) { w(m)["pieces"][0]["offset"][0] = i64{1} << 62; });
    lie("where a count should be", [&](Json& m) { w(m)["pieces"][0]["offset"][0] = -1; });
    lie("where a whole number should be", [&](Json& m) { w(m)["pieces"][0]["shape"][0] = 2.5; });
    lie("where a whole number should be", [&](Json& m) { w(m)["shape"][0] = std::uint64_t{1} << 63; });
    lie("has the shape", [&](Json& m) { w(m)["shape"] = {i64{1} << 40, i64{1} << 40}; });
    lie("a file of", [&](Json& m) {
        w(m)["shape"] = {i64{1} << 40, 10};
        w(m)["pieces"] = {{{"file", "shard-00000.h5"},
                           {"dataset", "param/w"},
                           {"offset", {0, 0}},
                           {"shape", {i64{1} << 40, 10}}}};
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
    for (const char* name : {"../step-00000001/shard-00000.h5", "/etc/passwd", "shard-.h5", "shard-0/../0.h5",
                             "manifest.json", ""}) {
        lie("which is no file of a checkpoint", [&](Json& m) { m["files"][1]["name"] = name; });
        lie("which is not listed", [&](Json& m) { w(m)["pieces"][0]["file"] = name; });
    }
    lie("shard-00009.h5", [&](Json& m) {
        m["files"].push_back({{"name", "shard-00009.h5"}, {"bytes", 0}, {"xxh64", ""}});
    });
    lie("lists shard-00000.h5 twice", [&](Json& m) { m["files"].push_back(m["files"][1]); });
    lie("does not list state.h5", [&](Json& m) { m["files"].erase(0); });
    lie("which is not listed", [&](Json& m) { m["files"].erase(2); });
    lie("bytes", [&](Json& m) { m["files"][2]["bytes"] = 100000; });
    lie("hash", [&](Json& m) { m["files"][2]["xxh64"] = "0123456789abcdef"; });
    lie("step 2", [&](Json& m) { m["step"] = 2; });
    lie("hash", [&](Json& m) { m["version"] = 3; });
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
    const std::string& path = version_1;
    const CheckpointReader reader = CheckpointReader::open(path);
    reader.verify();
    CHECK(reader.version() == 1);
    CHECK(reader.shards() == 1);
    CHECK(reader.state() ==
          RunState{7, 6, 56, 7168, 3, "[model]\nlayers = 1\n", "0.1.0", "bytes", "", 0, "", ""});
    REQUIRE(reader.tensors().size() == 4);
    CHECK(reader.tensors()[0].name == "adam_m/blocks.0.wq");
    CHECK(reader.tensors()[0].type == DType::f64);

    std::vector<float> wq(24), norm(4), column(6);
    std::vector<double> moments(24);
    float scalar = 0;
    reader.read(whole_tensor("param/blocks.0.wq", {6, 4}, DType::f32, wq.data()));
    reader.read(whole_tensor("adam_m/blocks.0.wq", {2, 3, 4}, DType::f64, moments.data()));
    reader.read(whole_tensor("param/norm", {4}, DType::f32, norm.data()));
    reader.read(whole_tensor("param/scalar", {}, DType::f32, &scalar));
    reader.read({"param/blocks.0.wq", {6, 4}, {{0, 2}, {6, 1}}, DType::f32, column.data()});
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

TEST_CASE("a checkpoint of version 2 reads, cut in any way")
{
    const CheckpointReader reader = CheckpointReader::open(version_2);
    reader.verify();
    CHECK(reader.version() == 2);
    CHECK(reader.shards() == 4);
    CHECK(reader.state().step == 1);
    CHECK(reader.state().grid == "rows");
    for (const Tiling& tiling : tilings())
        for (i64 rank = 0; rank < tiling.mesh.ranks(); ++rank) {
            RankTensors own(tiling, rank);
            for (const TensorPiece& piece : own.pieces)
                reader.read(piece);
            INFO(tiling.name << ", rank " << rank);
            CHECK(own.wrong() == "");
        }
}

namespace {

Manifest some_manifest()
{
    Manifest m;
    m.state = {12,    11,      96,       12288, -3,    "[model]\nlayers = 1 # \"quoted\" \u00e9\n",
               "0.4", "bytes", "data 3", 3,     "cpu", "00ff"};
    m.index = {2500000, 4096, 10, 8192, 300, {1, 2, u64{1} << 63}};
    m.shards = {{5000, 4096, 17}, {}, {4096 + 3 * default_block_bytes, 4096, ~u64{0}}};
    return m;
}

/// As print_manifest seals it.
std::string sealed(const std::string& text)
{
    return text + ",\n  \"xxh3\": \"" + hex(hash_block(text.data(), static_cast<Bytes>(text.size()))) +
           "\"\n}\n";
}

} // namespace

TEST_CASE("a manifest reads as it was printed, and any other byte is noticed")
{
    const Manifest m = some_manifest();
    const std::string text = print_manifest(m);
    CHECK(parse_manifest(text, "place") == m);
    CHECK(Json::parse(text)["state"]["config"] == m.state.config); // plain JSON for other programs
    for (std::size_t at = 0; at < text.size(); ++at)
        for (int bit = 0; bit < 8; ++bit) {
            std::string damaged = text;
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
            REQUIRE(says(message_of<DamagedCheckpoint>([&] { parse_manifest(damaged, "place"); }), "place",
                         "hash"));
        }
    for (std::size_t size = 0; size < text.size(); ++size)
        REQUIRE(says(message_of<DamagedCheckpoint>([&] { parse_manifest(text.substr(0, size), "place"); }),
                     "place", "hash"));
    REQUIRE(says(message_of<DamagedCheckpoint>([&] { parse_manifest(text + " ", "place"); }), "hash"));
}

TEST_CASE("a manifest with a right hash may still be none")
{
    const std::string text = print_manifest(some_manifest());
    const std::string body = text.substr(0, text.rfind(",\n  \"xxh3\""));
    REQUIRE(sealed(body) == text);
    const auto lie = [&](const std::string& from, const std::string& to, const std::string& found) {
        std::string lying = body;
        const std::size_t at = lying.find(from);
        REQUIRE(at != std::string::npos);
        lying.replace(at, from.size(), to);
        const std::string message = message_of<UserError>([&] { parse_manifest(sealed(lying), "place"); });
        INFO(lying << "\n" << message);
        CHECK(says(message, "place", found));
    };
    lie("\"version\": 3", "\"version\": 4", "this program reads versions 1 to 3");
    lie("\"version\": 3", "\"version\": \"3\"", "another kind");
    lie("trivium checkpoint", "trivium", "another kind");
    lie("\"block_bytes\": 1048576", "\"block_bytes\": 0", "blocks of 0 bytes");
    lie("\"block_bytes\": 1048576", "\"block_bytes\": 4611686018427387904", "blocks of");
    lie("\"step\":12", "\"step\":-1", "where a count should be");
    lie("\"step\":12", "\"step\":1.5", "where a whole number should be");
    lie("\"step\":12,", "", "step");
    lie("\"file\":\"index.h5\"", "\"file\":\"../index.h5\"", "index");
    lie("\"tensors\":10", "\"tensors\":400000", "its tensors");
    lie("\"records_at\":8192", "\"records_at\":2499999", "its records");
    lie("\"bytes\":2500000", "\"bytes\":9500000", "hashes");
    lie("\"0000000000000001\"", "\"000000000000000g\"", "where a hash should be");
    lie("\"file\":\"shard-00002.h5\"", "\"file\":\"shard-00001.h5\"", "lists");
    lie("\"rank\":2", "\"rank\":99999999999", "lists");
    lie("\"rank\":2", "\"rank\":0", "lists");
    lie("\"header\":4096", "\"header\":4", "with a header of");
    lie("\"header\":4096", "\"header\":50000", "with a header of");
    lie("\"shards\": [", "\"shards\": [[[[", "");
}
