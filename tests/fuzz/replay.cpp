// A fuzz target without libFuzzer: feeds it each file of a folder, then mutations of them until the time is
// over.
#include "mutate.hpp"
#include "soak_settings.hpp"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

/// `last` keeps the input, for inspection if the program crashes.
void feed(const std::string& input, const std::string& last)
{
    std::ofstream(last, std::ios::binary) << input;
    try {
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    } catch (const std::exception& error) {
        std::cerr << last << ": " << error.what() << "\n";
        std::exit(1);
    }
}

} // namespace

int main(int count, char** arguments)
{
    if (count != 3) {
        std::cerr << "usage: " << arguments[0] << " SEED_FOLDER LAST_INPUT\n";
        return 2;
    }
    const trivium::soak::Budget budget;
    std::vector<std::string> seeds;
    std::error_code none; // no such folder: no seeds
    for (const auto& entry : std::filesystem::directory_iterator(arguments[1], none)) {
        std::ifstream file(entry.path(), std::ios::binary);
        seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
        feed(seeds.back(), arguments[2]);
    }
    if (seeds.empty()) {
        std::cerr << arguments[1] << " has no seeds\n";
        return 2;
    }
    std::mt19937_64 random(trivium::soak::seed());
    std::int64_t damaged = 0;
    for (; budget.left(); ++damaged)
        feed(trivium::mutate(seeds[random() % seeds.size()], random), arguments[2]);
    std::cout << seeds.size() << " seeds and " << damaged << " damages of them\n";
}
