// Manifests of checkpoints: that are not what was written, and that lie.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/files/damaged.hpp"
#include "io/files/hash.hpp"
#include "io/temporary_folder.hpp"

#include <nlohmann/json.hpp>

using namespace trivium;
using Json = nlohmann::ordered_json;

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
    const auto message_for = [&](const std::string& from, const std::string& to) {
        std::string lying = body;
        const std::size_t at = lying.find(from);
        REQUIRE(at != std::string::npos);
        lying.replace(at, from.size(), to);
        return message_of<UserError>([&] { parse_manifest(sealed(lying), "place"); });
    };
    const auto lie = [&](const std::string& from, const std::string& to, const std::string& found) {
        INFO(from << " to " << to << ": " << message_for(from, to));
        CHECK(says(message_for(from, to), "place", found));
    };
    CHECK(says(message_for("\"version\": 1", "\"version\": 2"), "format version 2",
               "this program reads version 1", "use the program that wrote it, or a later one"));
    CHECK(says(message_for("\"version\": 1", "\"version\": 0"), "format version 0",
               "this program reads version 1", "use the program that wrote it"));
    lie("\"version\": 1", "\"version\": -3", "format version -3");
    lie("\"version\": 1", "\"version\": \"1\"", "where a whole number should be");
    lie("\"version\": 1", "\"version\": 18446744073709551615", "where a whole number should be");
    lie("\n  \"version\": 1,", "", "has no 'version'");
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
