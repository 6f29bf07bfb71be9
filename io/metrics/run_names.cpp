#include "base/check.hpp"
#include "io/metrics/metrics.hpp"
#include "io/metrics/metrics_export.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

namespace trivium {

std::vector<std::string> run_names(std::span<const std::string> paths)
{
    namespace fs = std::filesystem;
    if (paths.size() == 1)
        return {paths[0]};
    std::vector<std::vector<std::string>> parts;
    std::set<std::vector<std::string>> seen;
    for (const std::string& path : paths) {
        std::error_code ignored; // the reader of the file reports errors
        const fs::path whole = fs::weakly_canonical(metrics_file(path), ignored);
        parts.emplace_back();
        for (const fs::path& part : whole.relative_path())
            parts.back().push_back(part.string());
        if (!seen.insert(parts.back()).second)
            throw UserError({path, "is named twice", "", "name each run once"});
    }
    const auto all_share = [&](auto part) {
        return std::all_of(parts.begin(), parts.end(),
                           [&](const auto& p) { return p.size() > 1 && part(p) == part(parts[0]); });
    };
    while (all_share([](const auto& p) { return p.back(); }))
        for (auto& p : parts)
            p.pop_back();
    while (all_share([](const auto& p) { return p.front(); }))
        for (auto& p : parts)
            p.erase(p.begin());
    std::vector<std::string> names;
    for (const auto& p : parts) {
        names.emplace_back();
        for (const std::string& part : p)
            names.back() += (names.back().empty() ? "" : "/") + part;
    }
    return names;
}

} // namespace trivium
