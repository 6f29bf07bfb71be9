#include "base/control_groups.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace trivium {

namespace {

struct Mount {
    std::string root, point; ///< the part of the hierarchy that is mounted, and where
    bool second = false;     ///< of version 2, which has all controllers
    std::string controllers; ///< of version 1: ",memory,", among other options
};

/// The mounts of control groups, from lines "ID PARENT DEVICE ROOT POINT OPTIONS … - TYPE SOURCE OPTIONS".
std::vector<Mount> mounts(const std::string& process)
{
    std::vector<Mount> all;
    std::ifstream file(process + "/mountinfo");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string word, type, source, options;
        Mount mount;
        words >> word >> word >> word >> mount.root >> mount.point;
        while (words >> word && word != "-")
            ;
        words >> type >> source >> options;
        mount.second = type == "cgroup2";
        mount.controllers = "," + options + ",";
        if (mount.second || type == "cgroup")
            all.push_back(mount);
    }
    return all;
}

/// The folders of the process's group and of those around it that have files of this controller, innermost
/// first.
std::vector<std::string> folders(const std::string& process, const std::string& controller)
{
    std::vector<std::string> all;
    const std::vector<Mount> where = mounts(process);
    std::ifstream file(process + "/cgroup");
    for (std::string line; std::getline(file, line);) { // "ID:CONTROLLERS:PATH", of version 2 "0::PATH"
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos)
            continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        std::string path = line.substr(second + 1);
        const bool is_second = controllers == ",,",
                   has = controllers.find("," + controller + ",") != std::string::npos;
        const auto mount = std::find_if(where.begin(), where.end(), [&](const Mount& m) {
            return is_second ? m.second
                             : !m.second && m.controllers.find("," + controller + ",") != std::string::npos;
        });
        if ((!is_second && !has) || mount == where.end())
            continue;
        if (mount->root != "/") // a container sees its own part at the mount point
            path = path.rfind(mount->root, 0) == 0 ? path.substr(mount->root.size()) : "";
        while (!path.empty() && path != "/") {
            all.push_back(mount->point + path);
            path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
        }
        all.push_back(mount->point);
    }
    return all;
}

std::optional<Bytes> number_in(const std::string& path)
{
    Bytes number = 0;
    if (std::ifstream(path) >> number)
        return number;
    return {}; // missing, or "max"
}

/// What the kernel gives back first when the group needs memory.
Bytes file_cache(const std::string& folder)
{
    std::ifstream file(folder + "/memory.stat");
    Bytes all = 0, number = 0;
    for (std::string key; file >> key >> number;)
        if (key == "total_inactive_file" ||
            (key == "inactive_file" && all == 0)) // version 1, with the groups inside
            all = number;
    return all;
}

} // namespace

Bytes ControlGroups::available_memory() const
{
    Bytes least = -1;
    for (const std::string& folder : folders(process, "memory"))
        for (const auto& [limit_file, used_file] :
             {std::pair("/memory.max", "/memory.current"),
              std::pair("/memory.limit_in_bytes", "/memory.usage_in_bytes")}) {
            const std::optional<Bytes> limit = number_in(folder + limit_file),
                                       used = number_in(folder + used_file);
            if (!limit || !used || *limit > Bytes{1} << 60) // version 1 has no word for "none"
                continue;
            const Bytes rest = std::max<Bytes>(0, *limit - std::max<Bytes>(0, *used - file_cache(folder)));
            least = least < 0 ? rest : std::min(least, rest);
        }
    return least;
}

double ControlGroups::cpu_quota() const
{
    double least = 0;
    const auto consider = [&](double quota, double period) {
        if (quota > 0 && period > 0)
            least = least > 0 ? std::min(least, quota / period) : quota / period;
    };
    for (const std::string& folder : folders(process, "cpu")) {
        double quota = 0, period = 0;
        if (std::ifstream(folder + "/cpu.max") >> quota >> period)
            consider(quota, period);
        consider(static_cast<double>(number_in(folder + "/cpu.cfs_quota_us").value_or(0)),
                 static_cast<double>(number_in(folder + "/cpu.cfs_period_us").value_or(0)));
    }
    return least;
}

} // namespace trivium
