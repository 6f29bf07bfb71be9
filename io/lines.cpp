#include "io/lines.hpp"

#include "io/files.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace trivium {

LineWriter::LineWriter(const std::string& path) : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666))
{
    if (descriptor_ < 0)
        throw_errno(path, "write");
}

LineWriter::~LineWriter() { ::close(descriptor_); }

void LineWriter::write(std::string_view text)
{
    std::string line(text);
    line += '\n';
    // The loop is for a disk that takes less than all.
    for (std::size_t done = 0; done < line.size();) {
        const ssize_t put = ::write(descriptor_, line.data() + done, line.size() - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            throw_errno(path_, "write");
        done += static_cast<std::size_t>(put);
    }
}

void LineWriter::sync() const
{
    int result = 0;
    do
        result = ::fsync(descriptor_);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EINVAL) // a pipe, say
        throw_errno(path_, "write");
}

} // namespace trivium
