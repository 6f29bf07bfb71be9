#include "layers.hpp"

#include <regex>
#include <sstream>
#include <stdexcept>

namespace trivium::structure {

Rooms parse_rooms(std::string_view text)
{
    Rooms rooms;
    for (const std::string& line : lines_of(text)) {
        std::istringstream words(line);
        std::string name, dep;
        Room room;
        if (!(words >> name >> room.folder))
            continue;
        while (words >> dep)
            room.deps.insert(dep);
        rooms[name] = room;
    }
    return rooms;
}

const Rooms& designed_rooms()
{
    static const Rooms rooms{
        {"base", {"src/base", {}}},
        {"config", {"src/config", {"base"}}},
        {"ir", {"src/ir", {"base"}}},
        {"stablehlo", {"src/stablehlo", {"ir"}}},
        {"model", {"src/model", {"config", "ir"}}},
        {"passes", {"src/passes", {"config", "ir"}}},
        {"schedule", {"src/schedule", {"config", "ir"}}},
        {"plan", {"src/plan", {"config", "ir", "model", "passes", "schedule"}}},
        {"compile", {"src/compile", {"plan"}}},
        {"choose", {"src/choose", {"compile"}}},
        {"kernels", {"src/kernels", {"base"}}},
        {"mpi", {"mpi", {"base", "ir", "kernels"}}},
        {"runtime", {"src/runtime", {"ir", "schedule", "kernels", "mpi"}}},
        {"io_files", {"io/files", {"base", "config", "ir"}}},
        {"io_metrics", {"io/metrics", {"base", "io_files"}}},
        {"io_report", {"io/report", {"base", "io_metrics"}}},
        {"io_arrays", {"io/arrays", {"base", "ir", "io_files"}}},
        {"io_chat", {"io/chat", {"base", "io_files"}}},
        {"io_tokens", {"io/tokens", {"base", "io_arrays", "io_chat", "mpi"}}},
        {"io_checkpoint", {"io/checkpoint", {"base", "ir", "io_files", "mpi"}}},
        {"io_hugging_face", {"io/hugging_face", {"base", "config", "io_checkpoint", "io_tokens"}}},
        {"io_gguf", {"io/gguf", {"base", "config", "io_hugging_face"}}},
        {"lifecycle", {"src/lifecycle", {"io_checkpoint", "io_metrics"}}},
        {"train", {"src/train", {"choose", "runtime", "io_tokens", "io_chat", "lifecycle"}}},
        {"serve", {"src/serve", {"train", "io_hugging_face"}}},
        {"check", {"src/check", {"train"}}},
        {"programs", {"src/programs", {"plan", "runtime", "io_hugging_face"}}},
        {"cli", {"src/cli", {"check", "serve", "io_report", "io_gguf", "programs", "stablehlo"}}},
    };
    return rooms;
}

Rooms completed(Rooms rooms, const Rooms& design)
{
    const Rooms built = rooms;
    for (const auto& [name, room] : design) {
        if (!built.contains(name)) {
            rooms[name] = room;
            continue;
        }
        for (const std::string& dep : room.deps)
            if (!built.contains(dep))
                rooms[name].deps.insert(dep);
    }
    return rooms;
}

std::set<std::string> reachable(const Rooms& rooms, const std::string& room)
{
    std::set<std::string> seen;
    std::vector<std::string> open{room};
    while (!open.empty()) {
        const std::string at = open.back();
        open.pop_back();
        const auto found = rooms.find(at);
        if (found == rooms.end())
            continue;
        for (const std::string& dep : found->second.deps)
            if (seen.insert(dep).second)
                open.push_back(dep);
    }
    return seen;
}

Findings check_against_design(const Rooms& rooms, const Rooms& design)
{
    Findings findings;
    for (const auto& [name, room] : rooms) {
        const auto designed = design.find(name);
        if (designed == design.end()) {
            findings.push_back("room " + name + " is not in the design");
            continue;
        }
        if (room.folder != designed->second.folder)
            findings.push_back("room " + name + " stands in " + room.folder + ", not in " +
                               designed->second.folder);
        const std::set<std::string> allowed = reachable(design, name);
        for (const std::string& dep : room.deps)
            if (!allowed.contains(dep))
                findings.push_back("room " + name + " may not depend on " + dep);
    }
    return findings;
}

Findings check_no_cycle(const Rooms& rooms)
{
    Findings findings;
    for (const auto& [name, room] : rooms)
        if (reachable(rooms, name).contains(name))
            findings.push_back("room " + name + " depends on itself in the end");
    return findings;
}

namespace {

const std::regex quoted_include(R"re(^\s*#\s*include\s*"([^"]+)")re");
const std::regex angled_include(R"re(^\s*#\s*include\s*<([^>]+)>)re");

/// The room whose folder (below src/ or not) this is, or is below of; empty: none.
std::string room_of_folder(const Rooms& rooms, const std::string& folder)
{
    for (const auto& [name, room] : rooms) {
        const std::string own = (room.folder.starts_with("src/") ? room.folder.substr(4) : room.folder) + "/";
        if ((folder + "/").starts_with(own))
            return name;
    }
    return "";
}

std::string at(const SourceFile& file, std::size_t line)
{
    return file.path + ":" + std::to_string(line + 1) + ": ";
}

} // namespace

Findings check_includes(const Rooms& rooms, const std::string& room, const std::vector<SourceFile>& files)
{
    Findings findings;
    std::set<std::string> allowed = reachable(rooms, room);
    allowed.insert(room);
    std::set<std::string> own_folders; // host/ of kernels, for example
    const std::string& folder = rooms.at(room).folder;
    for (const SourceFile& file : files) {
        const std::string inside = file.path.substr(std::min(file.path.size(), folder.size() + 1));
        if (const std::size_t slash = inside.find('/'); slash != std::string::npos)
            own_folders.insert(inside.substr(0, slash));
    }
    for (const SourceFile& file : files) {
        const std::vector<std::string> lines = lines_of(without_comments(file.text));
        for (std::size_t i = 0; i < lines.size(); ++i) {
            std::smatch match;
            if (!std::regex_search(lines[i], match, quoted_include))
                continue;
            const std::string path = match[1];
            const std::size_t slash = path.rfind('/');
            const std::string first = path.substr(0, path.find('/'));
            std::string of = room_of_folder(rooms, path.substr(0, slash));
            if (of.empty())
                of = room_of_folder(designed_rooms(), path.substr(0, slash));
            if (slash == std::string::npos || allowed.contains(of))
                continue;
            if (!of.empty())
                findings.push_back(at(file, i) + "room " + room + " may not include \"" + path + "\"");
            else if (!own_folders.contains(first))
                findings.push_back(at(file, i) + "\"" + path + "\" is in no room");
        }
    }
    return findings;
}

Findings check_planner_includes(const std::vector<SourceFile>& files)
{
    static const std::regex foreign("^(mpi\\.h|hdf5.*|H5.*|Kokkos.*|cuda.*|cublas.*|nccl.*|oneapi/"
                                    ".*|dnnl.*|omp\\.h|sentencepiece.*|oniguruma.*|utf8proc.*)$");
    Findings findings;
    for (const SourceFile& file : files) {
        const std::vector<std::string> lines = lines_of(without_comments(file.text));
        for (std::size_t i = 0; i < lines.size(); ++i) {
            std::smatch match;
            if (std::regex_search(lines[i], match, angled_include) &&
                std::regex_match(match[1].str(), foreign))
                findings.push_back(at(file, i) + "the planner's rooms build without <" + match[1].str() +
                                   ">");
        }
    }
    return findings;
}

} // namespace trivium::structure
