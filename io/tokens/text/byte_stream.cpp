#include "io/tokens/text/byte_stream.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t input_bytes = std::size_t{256} << 10;
constexpr std::string_view gzip_magic = "\x1f\x8b", zstd_magic = "\x28\xb5\x2f\xfd";

} // namespace

bool has_compressed_suffix(const std::string& path)
{
    const std::string suffix = fs::path(path).extension().string();
    return suffix == ".gz" || suffix == ".zst";
}

std::string text_suffix(const std::string& path)
{
    return (has_compressed_suffix(path) ? fs::path(path).stem() : fs::path(path)).extension().string();
}

ByteStream::ByteStream(const std::string& path, Bytes begin) : path_(path)
{
    file_size(path, "text file"); // the usual errors
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0 || (begin > 0 && ::lseek(descriptor_, begin, SEEK_SET) != begin))
        throw_errno(path, "read");
    if (begin > 0)
        return;
    while (input_.size() < zstd_magic.size() && !file_ended_)
        fill();
    const bool gzip = input_.starts_with(gzip_magic), zstd = input_.starts_with(zstd_magic);
    if (gzip)
        decompressor_ = make_gzip_decompressor();
    else if (zstd)
        decompressor_ = make_zstd_decompressor();
    if ((gzip || zstd) && !decompressor_)
        throw UserError({path, "is compressed",
                         str("this program was built without ", gzip ? "zlib" : "libzstd"),
                         str("decompress it first (", gzip ? "gunzip" : "unzstd", "), or build with ",
                             gzip ? "zlib1g-dev" : "libzstd-dev")});
    if (!decompressor_ && !input_.empty() && has_compressed_suffix(path))
        throw UserError({path, "is not compressed, although its name says so", "its first bytes are others",
                         "give it the suffix of its content, or get it again from where it came from"});
}

ByteStream::~ByteStream()
{
    if (descriptor_ >= 0)
        ::close(descriptor_);
}

std::size_t ByteStream::read_file(char* to, std::size_t bytes)
{
    const ssize_t size = TEMP_FAILURE_RETRY(::read(descriptor_, to, bytes));
    if (size < 0)
        throw_errno(path_, "read");
    file_ended_ = size == 0;
    taken_ += size;
    return static_cast<std::size_t>(size);
}

/// Reads more of the file behind what input_ still has.
void ByteStream::fill()
{
    input_.erase(0, used_);
    used_ = 0;
    const std::size_t before = input_.size();
    input_.resize(before + input_bytes);
    input_.resize(before + read_file(input_.data() + before, input_bytes));
}

void ByteStream::read(std::string& to, std::size_t bytes)
{
    if (decompressor_)
        return decompress(to, bytes);
    const std::size_t held = std::min(bytes, input_.size() - used_), begin = to.size();
    to.resize(begin + bytes);
    std::copy_n(input_.data() + used_, held, to.data() + begin);
    used_ += held;
    std::size_t have = held;
    while (have < bytes && !file_ended_)
        have += read_file(to.data() + begin + have, bytes - have);
    to.resize(begin + have);
    ended_ = file_ended_ && used_ == input_.size();
}

void ByteStream::decompress(std::string& to, std::size_t bytes)
{
    const std::size_t begin = to.size();
    to.resize(begin + bytes);
    std::size_t have = 0;
    while (have < bytes && !ended_) {
        if (used_ == input_.size() && !file_ended_)
            fill();
        const Decompressor::Step step =
            input_.size() == used_ && decompressor_->is_whole()
                ? Decompressor::Step{}
                : decompressor_->decompress(std::string_view(input_).substr(used_), to.data() + begin + have,
                                            bytes - have);
        used_ += step.taken;
        have += step.made;
        made_ += static_cast<Bytes>(step.made);
        const auto damaged = [&](const std::string& problem, const std::string& reason) {
            throw UserError({path_, problem,
                             str(reason, reason.empty() ? "" : ", ", "at byte ",
                                 taken_ - static_cast<Bytes>(input_.size() - used_), " of the file, behind ",
                                 made_, " bytes of text"),
                             "get it again from where it came from, or leave it out (--exclude)"});
        };
        if (!step.problem.empty())
            damaged("is damaged", step.problem);
        if (file_ended_ && used_ == input_.size() && step.made == 0) {
            if (!decompressor_->is_whole())
                damaged("is truncated: the compressed text does not end", "");
            ended_ = true;
        }
    }
    to.resize(begin + have);
}

} // namespace trivium
