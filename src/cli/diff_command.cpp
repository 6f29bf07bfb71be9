// `trivium checkpoint diff`: the differences between two checkpoints.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/config_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

using Json = nlohmann::ordered_json;

constexpr i64 values_at_once = i64{1} << 18;

struct DiffArguments {
    std::string a, b;
    bool json = false;
};

struct Difference {
    i64 count = 0;      ///< values whose bits differ
    double largest = 0; ///< absolute difference; NaN if one of two values is NaN
    i64 at = -1;        ///< flattened index of the first
};

/// Compares two tensors of the same shape and type.
Difference compare(const CheckpointReader& a, const CheckpointReader& b, const CheckpointReader::Entry& entry)
{
    Difference found;
    std::vector<double> x, y; // exact for both types
    const i64 values = element_count(entry.shape);
    for (i64 begin = 0; begin < values; begin += values_at_once) {
        const i64 count = std::min(values_at_once, values - begin);
        x.resize(static_cast<std::size_t>(count));
        y.resize(static_cast<std::size_t>(count));
        a.read(entry.name, begin, count, DType::f64, x.data());
        b.read(entry.name, begin, count, DType::f64, y.data());
        for (std::size_t i = 0; i < x.size(); ++i) {
            if (std::memcmp(&x[i], &y[i], sizeof(double)) == 0)
                continue;
            found.at = found.count++ == 0 ? begin + static_cast<i64>(i) : found.at;
            const double difference = std::abs(x[i] - y[i]);
            found.largest = std::isnan(difference) || difference > found.largest ? difference : found.largest;
        }
    }
    return found;
}

/// Config keys that only say where files are. What is in the files is compared by itself.
bool is_place(const std::string& key)
{
    static const char* const places[] = {"data.train",     "data.valid", "data.tokenizer",
                                         "checkpoint.dir", "log.dir",    "log.trace"};
    return std::find(std::begin(places), std::end(places), key) != std::end(places);
}

/// The differing config keys.
Json compare_configs(const std::string& a, const std::string& b)
{
    Json rows = Json::array();
    const auto x = values_by_key(a), y = values_by_key(b);
    auto keys = x;
    keys.insert(y.begin(), y.end());
    const auto value = [](const auto& values, const std::string& key) {
        const auto found = values.find(key);
        return found == values.end() ? std::string("absent") : found->second;
    };
    for (const auto& [key, unused] : keys)
        if (value(x, key) != value(y, key))
            rows.push_back({{"key", key}, {"a", value(x, key)}, {"b", value(y, key)}});
    return rows;
}

/// The differing keys of the run's state, without its config.
Json compare_states(const RunState& a, const RunState& b)
{
    Json rows = Json::array();
    const auto compare = [&](const char* key, const auto& x, const auto& y) {
        if (x != y)
            rows.push_back({{"key", key}, {"a", x}, {"b", y}});
    };
    compare("step", a.step, b.step);
    compare("updates", a.updates, b.updates);
    compare("samples", a.samples, b.samples);
    compare("tokens", a.tokens, b.tokens);
    compare("seed", a.seed, b.seed);
    compare("tokenizer", a.tokenizer, b.tokenizer);
    compare("data", a.data, b.data);
    compare("valid", a.valid, b.valid);
    compare("recent_losses", a.recent_losses, b.recent_losses);
    compare("skipped_in_row", a.skipped_in_row, b.skipped_in_row);
    compare("grid", a.grid, b.grid);
    compare("ranks", a.ranks, b.ranks);
    compare("build", a.build, b.build);
    compare("machine", a.machine, b.machine);
    compare("cost_table", a.cost_table, b.cost_table);
    compare("imported", a.imported, b.imported);
    return rows;
}

/// A row for each tensor that differs.
Json compare_tensors(const CheckpointReader& a, const CheckpointReader& b)
{
    Json rows = Json::array();
    std::map<std::string, CheckpointReader::Entry> others;
    for (const CheckpointReader::Entry& entry : b.tensors())
        others.emplace(entry.name, entry);
    for (const CheckpointReader::Entry& entry : a.tensors()) {
        const auto other = others.find(entry.name);
        if (other == others.end()) {
            rows.push_back({{"tensor", entry.name}, {"problem", "only in a"}});
            continue;
        }
        log_progress("comparing " + entry.name);
        if (entry.shape != other->second.shape || entry.type != other->second.type)
            rows.push_back({{"tensor", entry.name},
                            {"problem", "another shape or type"},
                            {"a", {{"shape", entry.shape}, {"type", name_of(entry.type)}}},
                            {"b", {{"shape", other->second.shape}, {"type", name_of(other->second.type)}}}});
        else if (const Difference found = compare(a, b, entry); found.count > 0)
            rows.push_back({{"tensor", entry.name},
                            {"problem", "other values"},
                            {"values", element_count(entry.shape)},
                            {"differ", found.count},
                            {"largest", found.largest},
                            {"first_at", found.at}});
        others.erase(other);
    }
    for (const auto& [name, entry] : others)
        rows.push_back({{"tensor", name}, {"problem", "only in b"}});
    log_progress("");
    return rows;
}

void print(const DiffArguments& arguments, const Json& state, const Json& places, const Json& tensors,
           std::size_t all)
{
    const auto text = [](const Json& value, bool quoted) {
        return quoted ? value.dump() : value.get<std::string>();
    };
    for (const Json& row : state)
        if (const auto key = row["key"].get<std::string>(); key == "imported")
            fmt::print("imported    differs (files of the imported model)\n");
        else {
            const bool quoted = key.find('.') == std::string::npos; // values of the config are quoted already
            fmt::print("{:<11} {} and {}\n", key, text(row["a"], quoted), text(row["b"], quoted));
        }
    for (const Json& row : places)
        fmt::print("{:<11} {} and {} (not a difference: it only says where files are)\n",
                   row["key"].get<std::string>(), row["a"].get<std::string>(), row["b"].get<std::string>());
    for (const Json& row : tensors) {
        const auto name = row["tensor"].get<std::string>(), problem = row["problem"].get<std::string>();
        if (problem == "other values")
            fmt::print("{:<44} {} of {} values differ, by up to {:.3g}\n", name,
                       format_count(row["differ"].get<i64>()), format_count(row["values"].get<i64>()),
                       row["largest"].is_number() ? row["largest"].get<double>() : std::nan(""));
        else if (problem == "another shape or type")
            fmt::print("{:<44} {} {} and {} {}\n", name, row["a"]["type"].get<std::string>(),
                       row["a"]["shape"].dump(), row["b"]["type"].get<std::string>(),
                       row["b"]["shape"].dump());
        else
            fmt::print("{:<44} only in {}\n", name, problem == "only in a" ? arguments.a : arguments.b);
    }
    if (tensors.empty())
        fmt::print("all {} the same, bit for bit\n", counted(all, "tensor is", "tensors are"));
    else
        fmt::print("{}, of {}\n", counted(tensors.size(), "tensor differs", "tensors differ"), all);
}

int diff(const DiffArguments& arguments)
{
    const CheckpointReader a = CheckpointReader::open(newest_checkpoint(arguments.a)),
                           b = CheckpointReader::open(newest_checkpoint(arguments.b));
    Json state = compare_states(a.state(), b.state()), places = Json::array();
    for (const Json& row : compare_configs(a.state().config, b.state().config))
        (is_place(row["key"].get<std::string>()) ? places : state).push_back(row);
    const Json tensors = compare_tensors(a, b);
    if (arguments.json)
        fmt::print("{}\n", Json{{"a", a.path()},
                                {"b", b.path()},
                                {"same_tensors", tensors.empty()},
                                {"same_state", state.empty()},
                                {"state", state},
                                {"places", places},
                                {"tensors", tensors}}
                               .dump(2, ' ', false, Json::error_handler_t::replace));
    else {
        const auto others = std::count_if(tensors.begin(), tensors.end(),
                                          [](const Json& row) { return row["problem"] == "only in b"; });
        print(arguments, state, places, tensors, a.tensors().size() + static_cast<std::size_t>(others));
    }
    return state.empty() && tensors.empty() ? 0 : 1;
}

} // namespace

void add_diff_command(Command& checkpoint)
{
    Command command =
        checkpoint.add("diff", "compare two checkpoints, also between grids; exit status 1 if they differ");
    auto arguments = std::make_shared<DiffArguments>();
    command.option("a", arguments->a, "a checkpoint, or a folder of checkpoints (the newest)",
                   {.required = true});
    command.option("b", arguments->b, "another checkpoint", {.required = true});
    command.flag("--json", arguments->json, "print JSON");
    command.action([=] { return diff(*arguments); });
}

} // namespace trivium
