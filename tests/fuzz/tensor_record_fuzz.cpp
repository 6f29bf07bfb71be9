// libFuzzer: any 64-bit words as the records of a checkpoint's index: a UserError, or records that are
// written as they were read.
#include "base/check.hpp"
#include "io/checkpoint/tensor_record.hpp"

#include <cstdlib>
#include <cstring>

using namespace trivium;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    std::vector<u64> words(size / 8);
    if (!words.empty())
        std::memcpy(words.data(), data, words.size() * 8);
    try {
        std::vector<u64> written, again;
        for (const TensorRecord& record : parse_records(words, "input"))
            append(written, record);
        for (const TensorRecord& record : parse_records(written, "written"))
            append(again, record);
        if (written.size() != words.size() || again != written)
            std::abort();
    } catch (const UserError&) {
    }
    return 0;
}
