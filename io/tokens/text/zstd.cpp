#include "base/check.hpp"
#include "io/tokens/text/decompressor.hpp"

#include <zstd.h>

namespace trivium {

namespace {

class Zstd final : public Decompressor {
public:
    Zstd() { TRV_CHECK(stream_ != nullptr, "libzstd cannot start"); }
    Zstd(const Zstd&) = delete;
    Zstd& operator=(const Zstd&) = delete;
    ~Zstd() override { ::ZSTD_freeDStream(stream_); }

    Step decompress(std::string_view input, char* to, std::size_t room) override
    {
        ZSTD_inBuffer in{input.data(), input.size(), 0};
        ZSTD_outBuffer out{to, room, 0};
        const std::size_t left = ::ZSTD_decompressStream(stream_, &out, &in);
        Step step{in.pos, out.pos};
        if (::ZSTD_isError(left) != 0)
            step.problem = ::ZSTD_getErrorName(left);
        whole_ = left == 0;
        return step;
    }

    bool is_whole() const override { return whole_; }

private:
    ZSTD_DStream* stream_ = ::ZSTD_createDStream();
    bool whole_ = true;
};

} // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor() { return std::make_unique<Zstd>(); }

} // namespace trivium
