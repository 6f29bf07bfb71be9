#include "config/data_config.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

void require_share(const DataSource& source)
{
    const auto refuse = [&](const std::string& problem, const std::string& remedy) {
        throw UserError({"data.train", str(source.path, " has ", problem), "", remedy});
    };
    if (source.weight && !(std::isfinite(*source.weight) && *source.weight >= 0))
        refuse(str("weight = ", *source.weight), "a weight is a number of at least 0");
    if (!std::isfinite(source.epochs) || source.epochs < 0)
        refuse(str("epochs = ", source.epochs), "set how often it may be read, such as 1 or 2.5");
    if (source.epochs > 0 && source.repeat)
        refuse("both epochs and repeat", "remove one of them: repeat = true sets no limit");
}

} // namespace

TrainingStores::TrainingStores(std::string path)
{
    if (!path.empty())
        list.push_back({std::move(path), {}, 0, true});
}

std::string TrainingStores::text() const
{
    std::string text;
    for (const DataSource& source : list)
        text += str(text.empty() ? "" : ", ", source.path);
    return text;
}

ValidationStores::ValidationStores(std::string path)
{
    if (!path.empty())
        list.push_back({"", std::move(path)});
}

std::string ValidationStores::text() const
{
    std::string text;
    for (const ValidationStore& store : list)
        text += str(text.empty() ? "" : ", ", store.name, store.name.empty() ? "" : ": ", store.path);
    return text;
}

void validate(const DataConfig& config)
{
    const std::vector<DataSource>& sources = config.train.list;
    double sum = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const DataSource& source = sources[i];
        require_share(source);
        sum += source.weight.value_or(0);
        if (source.weight.has_value() != sources[0].weight.has_value())
            throw UserError({"data.train",
                             str(sources[0].weight ? source.path : sources[0].path, " has no weight, ",
                                 sources[0].weight ? sources[0].path : source.path, " has one"),
                             "without weights the shares follow from the sizes of the stores",
                             "give each store a weight, or none"});
        for (std::size_t before = 0; before < i; ++before)
            if (sources[before].path == source.path)
                throw UserError({"data.train", str("names ", source.path, " twice"), "",
                                 "name it once, with the sum of the weights"});
    }
    if (!sources.empty() && sources[0].weight && !(sum > 0 && std::isfinite(sum)))
        throw UserError({"data.train", str("has weights whose sum is ", sum), "no store has a share",
                         "give at least one store a weight above 0"});
    const std::vector<ValidationStore>& sets = config.valid.list;
    for (std::size_t i = 0; i < sets.size(); ++i) {
        const std::string& name = sets[i].name;
        const bool plain = std::ranges::all_of(name, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                   c == '-';
        });
        if (!plain || (name.empty() && sets.size() > 1))
            throw UserError({"data.valid", str("has a set with the name '", name, "'"),
                             "names are parts of the names of metrics", "use letters, digits, _ and -"});
        for (std::size_t before = 0; before < i; ++before)
            if (sets[before].name == name)
                throw UserError(
                    {"data.valid", str("has two sets with the name '", name, "'"), "", "rename one of them"});
    }
}

} // namespace trivium
