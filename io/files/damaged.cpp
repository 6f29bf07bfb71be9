#include "io/files/damaged.hpp"

namespace trivium {

PlainFile open_stored(const std::string& path)
{
    try {
        return PlainFile::open(path, "checkpoint file");
    } catch (const UserError& error) {
        std::string problem = error.what(); // "PATH: PROBLEM\n  reason: …"
        problem = problem.substr(0, problem.find('\n'));
        throw DamagedCheckpoint(path,
                                problem.starts_with(path + ": ") ? problem.substr(path.size() + 2) : problem);
    }
}

PlainFile open_stored(const std::string& path, Bytes bytes)
{
    PlainFile file = open_stored(path);
    if (const Bytes found = file.size(); found != bytes)
        throw DamagedCheckpoint(path, str("has ", found, " bytes, ", bytes, " were written",
                                          found < bytes ? " (truncated)" : ""));
    return file;
}

} // namespace trivium
