#include "io/files/lines.hpp"

#include "io/files/files.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace trivium {

LineWriter::LineWriter(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666))
{
    if (descriptor_ < 0)
        throw_errno(path, "write");
}

LineWriter::~LineWriter() { ::close(descriptor_); }

void LineWriter::write(std::string_view text)
{
    std::string line(text);
    line += '\n';
    const off_t before = ::lseek(descriptor_, 0, SEEK_END); // -1: a pipe
    try {
        write_all(descriptor_, path_, line);
    } catch (...) {
        static_cast<void>(before >= 0 && ::ftruncate(descriptor_, before)); // or readers skip the rest
        throw;
    }
}

void LineWriter::sync() const
{
    if (TEMP_FAILURE_RETRY(::fsync(descriptor_)) != 0 && errno != EINVAL) // EINVAL: a pipe, for example
        throw_errno(path_, "write");
}

} // namespace trivium
