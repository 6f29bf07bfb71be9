#pragma once
// Files of lines that a run appends to, one write() per line, so that the lines of a killed run are complete.
#include <string>
#include <string_view>

namespace trivium {

/// Appends lines to a file. One LineWriter at a time may write to it.
class LineWriter {
public:
    /// Opens the file, or makes it. IoError.
    explicit LineWriter(const std::string& path);
    LineWriter(const LineWriter&) = delete;
    LineWriter& operator=(const LineWriter&) = delete;
    ~LineWriter();

    /// Appends `text` and a newline; on an error, nothing (unless the file is a pipe). IoError.
    void write(std::string_view text);
    /// Waits until all written lines are durable. Another thread may call write() concurrently. IoError.
    void sync() const;
    const std::string& path() const { return path_; }

private:
    std::string path_;
    int descriptor_;
};

/// Calls visit(line, complete) for each line of `content`; `complete` is false if the newline is missing.
template <class Visit>
void for_each_line(const std::string& content, Visit&& visit)
{
    for (std::size_t begin = 0; begin < content.size();) {
        const std::size_t end = content.find('\n', begin);
        const bool complete = end != std::string::npos;
        visit(content.substr(begin, complete ? end - begin : std::string::npos), complete);
        begin = complete ? end + 1 : content.size();
    }
}

} // namespace trivium
