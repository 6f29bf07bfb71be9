#include "base/check.hpp"
#include "io/tokens/text/decompressor.hpp"

#include <algorithm>
#include <limits>
#include <zlib.h>

namespace trivium {

namespace {

class Gzip final : public Decompressor {
public:
    Gzip()
    {
        constexpr int gzip_only = 15 + 16;
        TRV_CHECK(::inflateInit2(&stream_, gzip_only) == Z_OK, "zlib cannot start");
    }
    Gzip(const Gzip&) = delete;
    Gzip& operator=(const Gzip&) = delete;
    ~Gzip() override { ::inflateEnd(&stream_); }

    Step decompress(std::string_view input, char* to, std::size_t room) override
    {
        // Zeros may fill the file up behind the last member.
        if (whole_ && (padded_ || (any_ && input[0] == '\0'))) {
            padded_ = true;
            const std::size_t zeros = std::min(input.find_first_not_of('\0'), input.size());
            if (zeros < input.size())
                return {zeros, 0, "other bytes follow the compressed text"};
            return {zeros, 0};
        }
        if (whole_ && any_)
            ::inflateReset(&stream_);
        whole_ = false;
        any_ = true;
        constexpr auto most = static_cast<std::size_t>(std::numeric_limits<uInt>::max());
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
        stream_.avail_in = static_cast<uInt>(std::min(input.size(), most));
        stream_.next_out = reinterpret_cast<Bytef*>(to);
        stream_.avail_out = static_cast<uInt>(std::min(room, most));
        const uInt in = stream_.avail_in, out = stream_.avail_out;
        const int result = ::inflate(&stream_, Z_NO_FLUSH);
        Step step{in - stream_.avail_in, out - stream_.avail_out};
        whole_ = result == Z_STREAM_END;
        if (result == Z_NEED_DICT)
            step.problem = "it needs a dictionary";
        else if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            step.problem = stream_.msg ? stream_.msg : "zlib cannot read it";
        return step;
    }

    bool is_whole() const override { return whole_; }

private:
    z_stream stream_{};
    bool whole_ = true, any_ = false,
         padded_ = false; ///< between members; behind the begin; behind the last one
};

} // namespace

std::unique_ptr<Decompressor> make_gzip_decompressor() { return std::make_unique<Gzip>(); }

} // namespace trivium
