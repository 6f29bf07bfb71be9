#include "io/checkpoint/manifest.hpp"

#include "base/check.hpp"
#include "io/files/damaged.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/files/json_value.hpp"

namespace trivium {

namespace {

using Json = nlohmann::ordered_json; // to print
using nlohmann::json;                // to read

constexpr std::string_view seal_begins = ",\n  \"xxh3\": \"", seal_ends = "\"\n}\n";
constexpr std::size_t digits = 16;
constexpr Bytes min_block_bytes = Bytes{4} << 10, max_block_bytes = Bytes{64} << 20;
constexpr i64 max_shards = i64{1} << 20;

/// Texts of the state; the manifest has those that are not empty.
constexpr std::pair<const char*, std::string RunState::*> optional_texts[] = {
    {"data", &RunState::data},
    {"valid", &RunState::valid},
    {"job", &RunState::job},
    {"program", &RunState::program}};

Json to_json(const MixtureHistory& mixture)
{
    Json sources = Json::array(), segments = Json::array();
    for (const MixtureSource& source : mixture.sources)
        sources.push_back({{"path", source.path}, {"data", source.data}, {"samples", source.samples}});
    for (const MixtureSegment& segment : mixture.segments)
        segments.push_back(
            {{"first", segment.first}, {"weights", segment.weights}, {"counts", segment.counts}});
    return {{"sources", sources}, {"segments", segments}};
}

Json to_json(const RunState& s)
{
    Json state{{"step", s.step},           {"updates", s.updates},
               {"samples", s.samples},     {"tokens", s.tokens},
               {"seed", s.seed},           {"grid", s.grid},
               {"ranks", s.ranks},         {"build", s.build},
               {"machine", s.machine},     {"cost_table", s.cost_table},
               {"tokenizer", s.tokenizer}, {"config", s.config}};
    for (const auto& [key, text] : optional_texts)
        if (!(s.*text).empty())
            state[key] = s.*text;
    if (!s.recent_losses.empty())
        state["recent_losses"] = s.recent_losses;
    if (s.skipped_in_row > 0)
        state["skipped_in_row"] = s.skipped_in_row;
    if (!s.mixture.empty())
        state["mixture"] = to_json(s.mixture);
    if (s.best != BestLoss{})
        state["best"] = {{"set", s.best.set},
                         {"step", s.best.step},
                         {"loss", s.best.loss},
                         {"evaluated", s.best.evaluated},
                         {"unimproved", s.best.unimproved},
                         {"averages", s.best.averages},
                         {"data", s.best.data}};
    if (s.rewinds != Rewinds{}) {
        state["rewinds"] = {{"count", s.rewinds.count}, {"samples", s.rewinds.samples}};
        if (s.rewinds.from > 0)
            state["rewinds"]["from"] = s.rewinds.from;
    }
    if (!s.imported.empty())
        state["imported"] = {{"tokenizer", s.imported_tokenizer}, {"files", s.imported}};
    return state;
}

/// Numbers from 0 to `most`, at most one per source.
std::vector<i64> parse_numbers(const json& segment, const char* key, std::size_t sources, i64 most)
{
    std::vector<i64> numbers;
    for (const json& number : list_at(segment, key)) {
        if (!number.is_number_integer() || number < 0 || number > most)
            throw_wrong_json(number, key, "counts");
        numbers.push_back(number.get<i64>());
    }
    if (numbers.size() > sources)
        throw JsonFault{str("has ", numbers.size(), " ", key, " for ", sources, " sources")};
    return numbers;
}

MixtureHistory parse_mixture(const json& value)
{
    MixtureHistory mixture;
    for (const json& source : list_at(value, "sources"))
        mixture.sources.push_back(
            {text_at(source, "path"), text_at(source, "data"), count_at(source, "samples")});
    const std::size_t sources = mixture.sources.size();
    i64 first = 0;
    for (const json& entry : list_at(value, "segments")) {
        MixtureSegment segment{count_at(entry, "first"),
                               parse_numbers(entry, "weights", sources, most_weight),
                               parse_numbers(entry, "counts", sources, i64{1} << 62)};
        i64 sum = 0;
        for (const i64 weight : segment.weights)
            sum += weight;
        if (sum == 0 || sum > most_weight || segment.first < first)
            throw JsonFault{str("has a segment of its mixture at ", segment.first, " with weights of ", sum)};
        first = segment.first;
        mixture.segments.push_back(std::move(segment));
    }
    if (sources == 0 || static_cast<i64>(sources) > most_sources || mixture.segments.empty())
        throw JsonFault{
            str("has a mixture of ", sources, " sources and ", mixture.segments.size(), " segments")};
    return mixture;
}

RunState parse_state(const json& value)
{
    RunState s;
    s.step = count_at(value, "step");
    s.updates = count_at(value, "updates");
    s.samples = count_at(value, "samples");
    s.tokens = count_at(value, "tokens");
    s.seed = integer_at(value, "seed");
    s.grid = text_at(value, "grid");
    s.ranks = count_at(value, "ranks");
    s.build = text_at(value, "build");
    s.machine = text_at(value, "machine");
    s.cost_table = text_at(value, "cost_table");
    s.tokenizer = text_at(value, "tokenizer");
    s.config = text_at(value, "config");
    if (static_cast<Bytes>(s.config.size()) > max_settings_bytes)
        throw JsonFault{str("has a config of ", format_bytes(static_cast<Bytes>(s.config.size())))};
    for (const auto& [key, text] : optional_texts)
        if (value.contains(key))
            s.*text = text_at(value, key);
    if (value.contains("recent_losses"))
        for (const json& loss : list_at(value, "recent_losses")) {
            if (!loss.is_number())
                throw_wrong_json(loss, "recent_losses", "numbers");
            s.recent_losses.push_back(loss.get<double>());
        }
    if (value.contains("skipped_in_row"))
        s.skipped_in_row = count_at(value, "skipped_in_row");
    if (value.contains("mixture"))
        s.mixture = parse_mixture(value.at("mixture"));
    if (value.contains("best")) {
        const json& best = json_member(value, "best");
        const json& loss = json_member(best, "loss");
        if (!loss.is_number())
            throw_wrong_json(loss, "loss", "a number");
        s.best = {text_at(best, "set"), count_at(best, "step"), loss.get<double>(),
                  count_at(best, "evaluated"), count_at(best, "unimproved")};
        if (best.contains("averages"))
            s.best.averages = best.at("averages") == true;
        if (best.contains("data"))
            s.best.data = text_at(best, "data");
    }
    if (value.contains("rewinds")) {
        const json& rewinds = json_member(value, "rewinds");
        s.rewinds = {count_at(rewinds, "count"), count_at(rewinds, "samples")};
        if (rewinds.contains("from"))
            s.rewinds.from = count_at(rewinds, "from");
    }
    if (value.contains("imported")) {
        const json& imported = json_member(value, "imported");
        s.imported_tokenizer = text_at(imported, "tokenizer");
        const json& files = json_member(imported, "files");
        if (!files.is_object() || files.empty())
            throw_wrong_json(files, "files", "an object");
        for (const auto& [name, text] : files.items())
            s.imported[name] = json_text(text, name);
    }
    return s;
}

Json to_json(const IndexPlace& index)
{
    Json blocks = Json::array();
    for (const u64 hash : index.blocks)
        blocks.push_back(hex(hash));
    return {{"file", index_file},       {"bytes", index.bytes},           {"tensors_at", index.tensors_at},
            {"tensors", index.tensors}, {"records_at", index.records_at}, {"words", index.words},
            {"blocks", blocks}};
}

/// Checks that `count` words at offset `at` are inside a file of `file` bytes.
void require_inside(Bytes at, i64 count, Bytes file, const char* what)
{
    if (at > file || count > (file - at) / 8)
        throw JsonFault{str("has ", what, " at ", at, " in a file of ", file, " bytes")};
}

IndexPlace parse_index(const json& value, Bytes block_bytes)
{
    IndexPlace index;
    if (text_at(value, "file") != index_file)
        throw JsonFault{str("has the index ", short_text(value.at("file")))};
    index.bytes = count_at(value, "bytes");
    index.tensors_at = count_at(value, "tensors_at");
    index.tensors = count_at(value, "tensors");
    index.records_at = count_at(value, "records_at");
    index.words = count_at(value, "words");
    for (const json& hash : list_at(value, "blocks"))
        index.blocks.push_back(json_hash(hash, "blocks"));
    require_inside(index.tensors_at, index.tensors, index.bytes, "its tensors");
    require_inside(index.records_at, index.words, index.bytes, "its records");
    if (static_cast<i64>(index.blocks.size()) != ceil_div(index.bytes, block_bytes))
        throw JsonFault{str("has ", index.blocks.size(), " hashes for ", index.bytes, " bytes of its index")};
    return index;
}

std::vector<Shard> parse_shards(const json& manifest, Bytes block_bytes)
{
    std::vector<Shard> shards;
    for (const json& entry : list_at(manifest, "shards")) {
        const json& file = json_member(entry, "file");
        const i64 rank = count_at(entry, "rank");
        if (rank < static_cast<i64>(shards.size()) || rank > max_shards || file != shard_file(rank))
            throw JsonFault{str("lists ", short_text(file), " as that of rank ", rank)};
        shards.resize(static_cast<std::size_t>(rank));
        shards.push_back({count_at(entry, "bytes"), count_at(entry, "header"), hash_at(entry, "xxh3")});
        const Shard& s = shards.back();
        if (s.header > s.bytes || ceil_div(s.bytes - s.header, block_bytes) > s.header / 8)
            throw JsonFault{str("lists ", short_text(file), " with a header of ", s.header, " of its ",
                                s.bytes, " bytes")};
    }
    return shards;
}

/// Whether the last line is the hash of all the text before it.
bool is_sealed(const std::string& text)
{
    const std::size_t seal = seal_begins.size() + digits + seal_ends.size();
    const std::size_t sealed = text.size() < seal ? 0 : text.size() - seal;
    return sealed > 0 &&
           text.substr(sealed) ==
               str(seal_begins, hex(hash_block(text.data(), static_cast<Bytes>(sealed))), seal_ends);
}

} // namespace

std::string print_manifest(const Manifest& m)
{
    const auto line = [](const char* key, const Json& value) {
        return str(",\n  \"", key, "\": ", value.dump(-1, ' ', false, Json::error_handler_t::replace));
    };
    std::string text =
        str("{\n  \"format\": ", Json(checkpoint_kind).dump(), ",\n  \"version\": ", checkpoint_version);
    text += line("state", to_json(m.state)) + line("block_bytes", m.block_bytes) +
            line("index", to_json(m.index)) + ",\n  \"shards\": [";
    bool first = true;
    for (std::size_t rank = 0; rank < m.shards.size(); ++rank) {
        const Shard& s = m.shards[rank];
        if (s.bytes == 0)
            continue;
        const Json entry{{"file", shard_file(static_cast<i64>(rank))},
                         {"rank", rank},
                         {"bytes", s.bytes},
                         {"header", s.header},
                         {"xxh3", hex(s.hash)}};
        text += str(first ? "" : ",", "\n    ", entry.dump());
        first = false;
    }
    text += "\n  ]";
    const std::string hash = hex(hash_block(text.data(), static_cast<Bytes>(text.size())));
    return str(text, seal_begins, hash, seal_ends);
}

Manifest parse_manifest(const std::string& text, const std::string& path)
{
    if (!is_sealed(text))
        throw DamagedCheckpoint(path, "its manifest is not the one that was written (its hash differs)");
    const json value = parse_json(text);
    Manifest m;
    try {
        if (json_member(value, "format") != checkpoint_kind)
            throw JsonFault{"is of another kind"};
        if (const i64 version = integer_at(value, "version"); version != checkpoint_version)
            throw UserError({path, str("is a checkpoint of format version ", version),
                             str("this program reads version ", checkpoint_version),
                             version > checkpoint_version ? "use the program that wrote it, or a later one"
                                                          : "use the program that wrote it"});
        m.block_bytes = count_at(value, "block_bytes");
        if (m.block_bytes < min_block_bytes || m.block_bytes > max_block_bytes)
            throw JsonFault{str("has blocks of ", m.block_bytes, " bytes")};
        m.state = parse_state(json_member(value, "state"));
        m.index = parse_index(json_member(value, "index"), m.block_bytes);
        m.shards = parse_shards(value, m.block_bytes);
    } catch (const JsonFault& fault) {
        throw DamagedCheckpoint(path, "its manifest " + fault.text);
    }
    return m;
}

} // namespace trivium
