#pragma once
// Where a command writes JSON lines: stdout, or a file.
#include "io/files/files.hpp"

#include <nlohmann/json.hpp>
#include <optional>

namespace trivium {

class JsonLines {
public:
    /// `path`: of the file, which is replaced; empty: stdout. UserError or IoError if it cannot be written.
    explicit JsonLines(const std::string& path);
    /// Bytes that are not UTF-8 become U+FFFD.
    void write(const nlohmann::ordered_json& line);
    void close();

private:
    std::optional<FileWriter> file_;
};

} // namespace trivium
