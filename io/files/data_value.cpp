// The values that are lists or tables: of [data], train.batch_ramp, parallel.axes, model.sizes.
#include "base/check.hpp"
#include "io/files/config_value.hpp"

#include <algorithm>

namespace trivium {

namespace {

constexpr const char* training_forms = "a string, or a list of stores such as [{path = \"a.h5\", weight = "
                                       "0.7}, {path = \"b.h5\", weight = 0.3}]";
constexpr const char* validation_forms = "a string, or a table of names such as {web = \"w.h5\", code = "
                                         "\"c.h5\"}";
constexpr const char* ramp_forms = "a list of [sequences, steps] such as [[8, 100], [16, 50]]";

bool is_one_path(const ConfigValue& value) { return !value.node.is_array() && !value.node.is_table(); }

std::string one_path(const ConfigValue& value)
{
    std::string path;
    assign(path, value);
    return path;
}

DataSource parse_source(const ConfigValue& value)
{
    DataSource source;
    if (value.node.is_string()) {
        assign(source.path, value);
        return source;
    }
    const toml::table* table = value.node.as_table();
    if (table == nullptr)
        throw_wrong_type(value, "a table such as {path = \"a.h5\", weight = 0.7}");
    for (const auto& [key, node] : *table) {
        const std::string name(key.str());
        const ConfigValue entry{node, value.place, str(value.key, ".", name), ""};
        if (name == "path")
            assign(source.path, entry);
        else if (name == "weight")
            assign(source.weight.emplace(), entry);
        else if (name == "epochs") {
            assign(source.epochs, entry);
            if (source.epochs == 0)
                throw UserError({value.place, str("'", entry.key, "' is 0"),
                                 "it is how often the store may be read",
                                 "set it above 0; a store with weight = 0 is not read"});
        } else if (name == "repeat")
            assign(source.repeat, entry);
        else {
            const std::vector<std::string> known{"path", "weight", "epochs", "repeat"};
            throw UserError({value.place, str("unknown key '", entry.key, "'"),
                             str("a store has ", one_of(known)), did_you_mean(name, known, "remove it")});
        }
    }
    if (source.path.empty())
        throw UserError(
            {value.place, str("'", value.key, "' has a store without a path"), "", "add path = \"…\" to it"});
    return source;
}

void add_validation_stores(ValidationStores& target, const ConfigValue& value)
{
    const toml::table* table = value.node.as_table();
    if (table == nullptr)
        throw_wrong_type(value, validation_forms);
    for (const auto& [name, node] : *table) {
        ValidationStore store{std::string(name.str()), ""};
        assign(store.path, ConfigValue{node, value.place, str(value.key, ".", store.name), ""});
        if (store.name.empty() || store.path.empty())
            throw UserError({value.place, str("'", value.key, "' has a set without a name or a path"), "",
                             str("write ", validation_forms)});
        target.list.push_back(std::move(store));
    }
}

/// A name as a key of TOML.
std::string print_bare(const std::string& name)
{
    const bool bare = !name.empty() &&
                      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == std::string::npos;
    return bare ? name : print_value(name);
}

} // namespace

void assign(TrainingStores& target, const ConfigValue& value)
{
    target = {};
    if (is_one_path(value)) {
        target = one_path(value);
        return;
    }
    const toml::array* array = value.node.as_array();
    if (array == nullptr)
        throw_wrong_type(value, training_forms);
    for (const toml::node& node : *array)
        target.list.push_back(parse_source({node, value.place, value.key, ""}));
}

void assign(ValidationStores& target, const ConfigValue& value)
{
    target = {};
    if (is_one_path(value)) {
        target = one_path(value);
        return;
    }
    if (const toml::array* array = value.node.as_array())
        for (const toml::node& node : *array)
            add_validation_stores(target, {node, value.place, value.key, ""});
    else
        add_validation_stores(target, value);
}

void assign(BatchRamp& target, const ConfigValue& value)
{
    target = {};
    const toml::array* array = value.node.as_array();
    if (array == nullptr)
        throw_wrong_type(value, ramp_forms);
    for (const toml::node& node : *array) {
        const toml::array* pair = node.as_array();
        if (pair == nullptr || pair->size() != 2)
            throw_wrong_type({node, value.place, value.key, ""}, ramp_forms);
        BatchRamp::Stage stage;
        assign(stage.batch, ConfigValue{*pair->get(0), value.place, value.key, ""});
        assign(stage.steps, ConfigValue{*pair->get(1), value.place, value.key, ""});
        target.stages.push_back(stage);
    }
}

void assign(NamedNumbers& target, const ConfigValue& value)
{
    const toml::table* table = value.node.as_table();
    if (table == nullptr)
        throw_wrong_type(value, "a table of numbers such as {x = 2, y = 4}");
    for (const auto& [key, node] : *table) {
        const std::string name(key.str());
        i64 number = 0;
        assign(number, ConfigValue{node, value.place, str(value.key, ".", name), ""});
        const auto known = std::ranges::find(target.list, name, [](const auto& each) { return each.first; });
        if (known == target.list.end())
            target.list.emplace_back(name, number);
        else
            known->second = number;
    }
}

void assign(ProgramAxes& target, const ConfigValue& value)
{
    NamedNumbers numbers = target.degrees();
    assign(numbers, value);
    target.list.clear();
    for (const auto& [name, degree] : numbers.list)
        target.list.push_back({name, degree});
}

std::string print_value(const TrainingStores& value)
{
    if (value.empty() || value.is_plain())
        return print_value(value.text());
    std::string text;
    for (const DataSource& source : value.list) {
        text += str(text.empty() ? "" : ", ", "{path = ", print_value(source.path));
        if (source.weight)
            text += ", weight = " + print_value(*source.weight);
        if (source.epochs != 0)
            text += ", epochs = " + print_value(source.epochs);
        text += source.repeat ? ", repeat = true}" : "}";
    }
    return str("[", text, "]");
}

std::string print_value(const ValidationStores& value)
{
    if (value.empty() || value.list[0].name.empty())
        return print_value(value.text());
    std::string text; // a list keeps the order, a table would not
    for (const ValidationStore& store : value.list)
        text +=
            str(text.empty() ? "" : ", ", "{", print_bare(store.name), " = ", print_value(store.path), "}");
    return str("[", text, "]");
}

std::string print_value(const NamedNumbers& value)
{
    std::string text;
    for (const auto& [name, number] : value.list)
        text += str(text.empty() ? "" : ", ", print_bare(name), " = ", number);
    return str("{", text, "}");
}

std::string print_value(const ProgramAxes& value) { return print_value(value.degrees()); }

std::string print_value(const BatchRamp& value)
{
    std::string text;
    for (const BatchRamp::Stage& stage : value.stages)
        text += str(text.empty() ? "[" : ", [", stage.batch, ", ", stage.steps, "]");
    return str("[", text, "]");
}

} // namespace trivium
