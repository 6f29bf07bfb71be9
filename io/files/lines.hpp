#pragma once
// Files of lines that a run appends to, each line with one write(), so that those of a killed run are whole.
#include <string>
#include <string_view>

namespace trivium {

/// Appends to a file, which it makes where there is none.
class LineWriter {
public:
    /// IoError.
    explicit LineWriter(const std::string& path);
    LineWriter(const LineWriter&) = delete;
    LineWriter& operator=(const LineWriter&) = delete;
    ~LineWriter();

    /// `text` and a newline. IoError.
    void write(std::string_view text);
    /// Returns once what was written is on the disk. Another thread may write meanwhile. IoError.
    void sync() const;
    const std::string& path() const { return path_; }

private:
    std::string path_;
    int descriptor_;
};

/// Calls visit(line, complete) for each line of `content`; the last may lack its newline: it is not complete
/// then.
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
