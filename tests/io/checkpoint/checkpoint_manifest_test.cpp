// Manifests of checkpoints: damaged ones, and invalid ones with a correct hash.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/files/damaged.hpp"
#include "io/files/hash.hpp"
#include "io/temporary_folder.hpp"

#include <nlohmann/json.hpp>

using namespace trivium;
using OrderedJson = nlohmann::ordered_json;

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

/// Adds a correct hash, as print_manifest does.
std::string sealed(const std::string& text)
{
    return text + ",\n  \"xxh3\": \"" + hex(hash_block(text.data(), static_cast<Bytes>(text.size()))) +
           "\"\n}\n";
}

} // namespace

TEST_CASE("a printed manifest parses to the same values, and any changed byte is detected")
{
    const Manifest m = some_manifest();
    const std::string text = print_manifest(m);
    CHECK(parse_manifest(text, "place") == m);
    CHECK(OrderedJson::parse(text)["state"]["config"] == m.state.config); // plain JSON for other programs
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

TEST_CASE("invalid manifests with a correct hash are refused")
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
    const auto refused = [&](const std::string& from, const std::string& to, const std::string& found) {
        INFO(from << " to " << to << ": " << message_for(from, to));
        CHECK(says(message_for(from, to), "place", found));
    };
    CHECK(says(message_for("\"version\": 1", "\"version\": 2"), "format version 2",
               "this program reads version 1", "use the program that wrote it, or a later one"));
    CHECK(says(message_for("\"version\": 1", "\"version\": 0"), "format version 0",
               "this program reads version 1", "use the program that wrote it"));
    refused("\"version\": 1", "\"version\": -3", "format version -3");
    refused("\"version\": 1", "\"version\": \"1\"", "where a whole number should be");
    refused("\"version\": 1", "\"version\": 18446744073709551615", "where a whole number should be");
    refused("\n  \"version\": 1,", "", "has no 'version'");
    refused("trivium checkpoint", "trivium", "another kind");
    refused("\"block_bytes\": 1048576", "\"block_bytes\": 0", "blocks of 0 bytes");
    refused("\"block_bytes\": 1048576", "\"block_bytes\": 4611686018427387904", "blocks of");
    refused("\"step\":12", "\"step\":-1", "where a count should be");
    refused("\"step\":12", "\"step\":1.5", "where a whole number should be");
    refused("\"step\":12,", "", "step");
    refused("\"file\":\"index.h5\"", "\"file\":\"../index.h5\"", "index");
    refused("\"tensors\":10", "\"tensors\":400000", "its tensors");
    refused("\"records_at\":8192", "\"records_at\":2499999", "its records");
    refused("\"bytes\":2500000", "\"bytes\":9500000", "hashes");
    refused("\"0000000000000001\"", "\"000000000000000g\"", "where a hash should be");
    refused("\"file\":\"shard-00002.h5\"", "\"file\":\"shard-00001.h5\"", "lists");
    refused("\"rank\":2", "\"rank\":99999999999", "lists");
    refused("\"rank\":2", "\"rank\":0", "lists");
    refused("\"header\":4096", "\"header\":4", "with a header of");
    refused("\"header\":4096", "\"header\":50000", "with a header of");
    refused("\"shards\": [", "\"shards\": [[[[", "");
}
