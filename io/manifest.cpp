#include "io/manifest.hpp"

#include "base/check.hpp"
#include "io/box.hpp"
#include "io/damaged.hpp"
#include "io/hash.hpp"
#include "io/json_value.hpp"

#include <algorithm>

namespace trivium {

namespace {

using Json = nlohmann::ordered_json; // to print
using nlohmann::json;           // to read

constexpr std::string_view seal_begins = ",\n  \"xxh3\": \"", seal_ends = "\"\n}\n";
constexpr std::size_t digits = 16;
constexpr Bytes least_block_bytes = Bytes{4} << 10, most_block_bytes = Bytes{64} << 20;
constexpr i64 most_shards = i64{1} << 20;

Json to_json(const RunState& s)
{
    Json state{{"step", s.step},           {"updates", s.updates},     {"samples", s.samples}, {"tokens", s.tokens}, {"seed", s.seed},
            {"grid", s.grid},           {"ranks", s.ranks},         {"build", s.build},     {"machine", s.machine}, {"cost_table", s.cost_table},
            {"tokenizer", s.tokenizer}, {"config", s.config}};
    if (!s.data.empty())
        state["data"] = s.data;
    if (!s.valid.empty())
        state["valid"] = s.valid;
    if (!s.job.empty())
        state["job"] = s.job;
    if (!s.recent_losses.empty())
        state["recent_losses"] = s.recent_losses;
    if (s.skipped_in_row > 0)
        state["skipped_in_row"] = s.skipped_in_row;
    return state;
}

RunState parse_state(const json& value)
{
    RunState s;
    s.step = json_count(value.at("step"));
    s.updates = json_count(value.at("updates"));
    s.samples = json_count(value.at("samples"));
    s.tokens = json_count(value.at("tokens"));
    s.seed = json_integer(value.at("seed"));
    s.grid = value.at("grid").get<std::string>();
    s.ranks = json_count(value.at("ranks"));
    s.build = value.at("build").get<std::string>();
    s.machine = value.at("machine").get<std::string>();
    s.cost_table = value.at("cost_table").get<std::string>();
    s.tokenizer = value.at("tokenizer").get<std::string>();
    s.config = value.at("config").get<std::string>();
    if (const auto data = value.find("data"); data != value.end())
        s.data = data->get<std::string>();
    if (const auto valid = value.find("valid"); valid != value.end())
        s.valid = valid->get<std::string>();
    if (const auto job = value.find("job"); job != value.end())
        s.job = job->get<std::string>();
    if (const auto losses = value.find("recent_losses"); losses != value.end())
        s.recent_losses = losses->get<std::vector<double>>();
    if (const auto skipped = value.find("skipped_in_row"); skipped != value.end())
        s.skipped_in_row = json_count(*skipped);
    return s;
}

Json to_json(const IndexPlace& index)
{
    Json blocks = Json::array();
    for (const u64 hash : index.blocks)
        blocks.push_back(hex(hash));
    return {{"file", index_file},  {"bytes", index.bytes}, {"tensors_at", index.tensors_at}, {"tensors", index.tensors}, {"records_at", index.records_at},
            {"words", index.words}, {"blocks", blocks}};
}

/// A stretch of `count` words of a file.
void require_inside(Bytes at, i64 count, Bytes file, const char* what)
{
    if (at > file || count > (file - at) / 8)
        throw JsonFault{str("has ", what, " at ", at, " in a file of ", file, " bytes")};
}

IndexPlace parse_index(const json& value, Bytes block_bytes)
{
    IndexPlace index;
    if (value.at("file") != index_file)
        throw JsonFault{str("has the index ", shown(value.at("file")))};
    index.bytes = json_count(value.at("bytes"));
    index.tensors_at = json_count(value.at("tensors_at"));
    index.tensors = json_count(value.at("tensors"));
    index.records_at = json_count(value.at("records_at"));
    index.words = json_count(value.at("words"));
    for (const json& hash : value.at("blocks"))
        index.blocks.push_back(json_hash(hash));
    require_inside(index.tensors_at, index.tensors, index.bytes, "its tensors");
    require_inside(index.records_at, index.words, index.bytes, "its records");
    if (static_cast<i64>(index.blocks.size()) != ceil_div(index.bytes, block_bytes))
        throw JsonFault{str("has ", index.blocks.size(), " hashes for ", index.bytes, " bytes of its index")};
    return index;
}

std::vector<Shard> parse_shards(const json& value, Bytes block_bytes)
{
    std::vector<Shard> shards;
    for (const json& entry : value) {
        const json& file = entry.at("file");
        const i64 rank = json_count(entry.at("rank"));
        if (rank < static_cast<i64>(shards.size()) || rank > most_shards || file != shard_file(rank))
            throw JsonFault{str("lists ", shown(file), " as that of rank ", rank)};
        shards.resize(static_cast<std::size_t>(rank));
        shards.push_back({json_count(entry.at("bytes")), json_count(entry.at("header")), json_hash(entry.at("xxh3"))});
        const Shard& s = shards.back();
        if (s.header > s.bytes || ceil_div(s.bytes - s.header, block_bytes) > s.header / 8)
            throw JsonFault{str("lists ", shown(file), " with a header of ", s.header, " of its ", s.bytes, " bytes")};
    }
    return shards;
}

} // namespace

std::string print_manifest(const Manifest& m)
{
    const auto line = [](const char* key, const Json& value) { return str(",\n  \"", key, "\": ", value.dump(-1, ' ', false, Json::error_handler_t::replace)); };
    std::string text = str("{\n  \"format\": ", Json(checkpoint_kind).dump(), ",\n  \"version\": ", checkpoint_version);
    text += line("state", to_json(m.state)) + line("block_bytes", m.block_bytes) + line("index", to_json(m.index)) + ",\n  \"shards\": [";
    bool first = true;
    for (std::size_t rank = 0; rank < m.shards.size(); ++rank) {
        const Shard& s = m.shards[rank];
        if (s.bytes == 0)
            continue;
        const Json entry{{"file", shard_file(static_cast<i64>(rank))}, {"rank", rank}, {"bytes", s.bytes}, {"header", s.header}, {"xxh3", hex(s.hash)}};
        text += str(first ? "" : ",", "\n    ", entry.dump());
        first = false;
    }
    text += "\n  ]";
    const std::string hash = hex(hash_block(text.data(), static_cast<Bytes>(text.size())));
    return str(text, seal_begins, hash, seal_ends);
}

bool is_sealed(const std::string& text)
{
    const std::size_t seal = seal_begins.size() + digits + seal_ends.size();
    const std::size_t sealed = text.size() < seal ? 0 : text.size() - seal;
    return sealed > 0 && text.substr(sealed) == str(seal_begins, hex(hash_block(text.data(), static_cast<Bytes>(sealed))), seal_ends);
}

i64 manifest_version(const std::string& text)
{
    const json value = parse_json(text);
    const auto version = value.is_object() ? value.find("version") : value.end();
    return value.is_object() && version != value.end() && version->is_number_integer() ? version->get<i64>() : 0;
}

Manifest parse_manifest(const std::string& text, const std::string& path)
{
    if (!is_sealed(text))
        throw DamagedCheckpoint(path, "its manifest is not the one that was written (its hash differs)");
    if (const i64 version = manifest_version(text); version > checkpoint_version)
        throw UserError({path, str("is a checkpoint of version ", version), str("this program reads versions 1 to ", checkpoint_version), "use the program that wrote it"});
    const json value = parse_json(text);
    Manifest m;
    try {
        if (value.at("format") != checkpoint_kind || value.at("version") != checkpoint_version)
            throw JsonFault{"is of another kind"};
        m.block_bytes = json_count(value.at("block_bytes"));
        if (m.block_bytes < least_block_bytes || m.block_bytes > most_block_bytes)
            throw JsonFault{str("has blocks of ", m.block_bytes, " bytes")};
        m.state = parse_state(value.at("state"));
        m.index = parse_index(value.at("index"), m.block_bytes);
        m.shards = parse_shards(value.at("shards"), m.block_bytes);
    } catch (const JsonFault& fault) {
        throw DamagedCheckpoint(path, "its manifest " + fault.text);
    } catch (const json::exception& error) {
        throw DamagedCheckpoint(path, str("its manifest has another form: ", error.what()));
    }
    return m;
}

} // namespace trivium
