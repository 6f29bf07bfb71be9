// For libFuzzer: a third of the mutations replace a number in the text, once or everywhere. Random bytes
// seldom give a number that fits the rest of the text.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

struct Run {
    std::size_t at, length;
};

std::vector<Run> numbers_of(const std::string& text)
{
    constexpr const char* digits = "0123456789";
    std::vector<Run> runs;
    for (std::size_t at = text.find_first_of(digits); at != std::string::npos;) {
        const std::size_t end = std::min(text.find_first_not_of(digits, at), text.size());
        if (end - at < 19) // otherwise not a number of 64 bits
            runs.push_back({at, end - at});
        at = text.find_first_of(digits, end);
    }
    return runs;
}

} // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed)
{
    std::minstd_rand random(seed);
    std::string text(reinterpret_cast<const char*>(data), size);
    const std::vector<Run> runs = numbers_of(text);
    if (random() % 3 != 0 || runs.empty())
        return LLVMFuzzerMutate(data, size, most);
    const auto pick = [&] {
        const Run& run = runs[random() % runs.size()];
        return text.substr(run.at, run.length);
    };
    const std::string old = pick(), other = pick();
    const std::uint64_t value = std::stoull(old);
    const std::string choices[]{"0",
                                "1",
                                other,
                                std::to_string(value + 1),
                                std::to_string(value - (value > 0)),
                                std::to_string(2 * value),
                                std::to_string(value / 2),
                                std::to_string(value + std::stoull(other)),
                                "-1",
                                "9223372036854775807"};
    const std::string& next = choices[random() % std::size(choices)];
    const bool everywhere = random() % 2 != 0;
    const std::size_t only = random() % runs.size();
    for (std::size_t i = runs.size(); i-- > 0;) // from the back, so that earlier positions stay valid
        if (everywhere ? text.compare(runs[i].at, runs[i].length, old) == 0 && runs[i].length == old.size()
                       : i == only)
            text.replace(runs[i].at, runs[i].length, next);
    size = std::min(text.size(), most);
    text.copy(reinterpret_cast<char*>(data), size);
    return size;
}
