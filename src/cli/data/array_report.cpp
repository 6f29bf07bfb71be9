#include "cli/data/array_report.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/arrays/array_file.hpp"
#include "io/arrays/convert.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/tokens/store_list.hpp"
#include "ir/type.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

/// Of the finite ones among some numbers of an array.
struct Facts {
    i64 numbers = 0, nan = 0, infinite = 0;
    double least = 0, most = 0, sum = 0;

    i64 finite() const { return numbers - nan - infinite; }
    double mean() const { return sum / static_cast<double>(std::max<i64>(1, finite())); }
};

/// Of up to 16 pieces, evenly spread.
Facts facts_of(const ArrayFile& file, std::size_t a)
{
    const StoredArray& array = file.arrays()[a];
    const i64 pieces = array.defect.empty() ? file.pieces(a) : 0, taken = std::min<i64>(16, pieces);
    Facts facts;
    const auto add = [&](i64, i64 count, const void* stored) {
        for (i64 i = 0; i < count; ++i) {
            const double number = number_at(array.type, stored, i) * array.scale + array.offset;
            if (std::isnan(number) || std::isinf(number)) {
                ++(std::isnan(number) ? facts.nan : facts.infinite);
            } else {
                facts.least = facts.finite() == 0 ? number : std::min(facts.least, number);
                facts.most = facts.finite() == 0 ? number : std::max(facts.most, number);
                facts.sum += number;
            }
            ++facts.numbers;
        }
    };
    for (i64 i = 0; i < taken; ++i)
        file.scan(a, add, spread_index(i, taken, pieces), pieces);
    return facts;
}

std::string layout_of(const StoredArray& array)
{
    std::string text = array.in_place        ? "in place"
                       : array.chunk.empty() ? "through HDF5"
                                             : "in chunks of " + counted(array.chunk.front(), "sample");
    if (array.hashed)
        text += ", hashed";
    if (!array.defect.empty())
        text += ", " + array.defect;
    if (array.scale != 1 || array.offset != 0)
        text += fmt::format(", scale {:g}, offset {:g}", array.scale, array.offset);
    return text;
}

std::string type_text(const StoredArray& array) { return to_string(TensorType{array.type, array.shape}); }

nlohmann::ordered_json json_of(const ArrayFile& file)
{
    nlohmann::ordered_json report{{"file", file.path()}, {"file_bytes", file_size(file.path())}};
    for (std::size_t a = 0; a < file.arrays().size(); ++a) {
        const StoredArray& array = file.arrays()[a];
        const Facts facts = facts_of(file, a);
        report["arrays"].push_back({{"name", array.name},
                                    {"type", name_of(array.type)},
                                    {"shape", array.shape},
                                    {"samples", array.samples},
                                    {"layout", layout_of(array)},
                                    {"scale", array.scale},
                                    {"offset", array.offset},
                                    {"numbers_read", facts.numbers},
                                    {"min", facts.least},
                                    {"max", facts.most},
                                    {"mean", facts.mean()},
                                    {"nan", facts.nan},
                                    {"infinite", facts.infinite}});
    }
    return report;
}

void print(const ArrayFile& file)
{
    std::cout << fmt::format("{} ({}, {})\n", file.path(), format_bytes(file_size(file.path())),
                             counted(static_cast<i64>(file.arrays().size()), "array"));
    std::size_t name_width = 0, type_width = 0;
    for (const StoredArray& array : file.arrays()) {
        name_width = std::max(name_width, array.name.size());
        type_width = std::max(type_width, type_text(array).size());
    }
    for (std::size_t a = 0; a < file.arrays().size(); ++a) {
        const StoredArray& array = file.arrays()[a];
        const Facts facts = facts_of(file, a);
        const i64 all = array.samples * array.elements();
        std::cout << fmt::format("  {:<{}}  {:<{}}  {}, {}\n", array.name, name_width, type_text(array),
                                 type_width, counted_in_groups(array.samples, "sample"), layout_of(array));
        std::cout << fmt::format("  {:<{}}  {:g} to {:g}, mean {:g}; {} NaN, {} ({} of {})\n", "", name_width,
                                 facts.least, facts.most, facts.mean(), format_count(facts.nan),
                                 facts.infinite == 1 ? "1 infinity"
                                                     : format_count(facts.infinite) + " infinities",
                                 facts.numbers == all ? std::string("all") : format_count(facts.numbers),
                                 counted_in_groups(all, "number"));
    }
}

/// "3 in 2 samples: 5, 17"; "" if there are none.
std::string bad_numbers(const ArrayFile& file, std::size_t a)
{
    constexpr std::size_t most_named = 10;
    const StoredArray& array = file.arrays()[a];
    i64 bad = 0, samples = 0, last = -1;
    std::string named;
    file.scan(a, [&](i64 first, i64 count, const void* stored) {
        const Bytes width = size_of(array.type);
        for (i64 at = 0; at < count; ++at) {
            at +=
                first_not_finite(array.type, static_cast<const std::byte*>(stored) + at * width, count - at);
            if (at == count)
                return;
            ++bad;
            if (const i64 sample = (first + at) / array.elements(); sample != last) {
                if (samples < static_cast<i64>(most_named))
                    named += str(samples == 0 ? "" : ", ", sample);
                last = sample;
                ++samples;
            }
        }
    });
    return bad == 0 ? ""
                    : str(format_count(bad), " in ", counted_in_groups(samples, "sample"), ": ", named,
                          samples > static_cast<i64>(most_named) ? ", …" : "");
}

} // namespace

bool names_arrays(const std::string& name)
{
    const std::string file = files_of_store(name).front();
    std::error_code none;
    return std::filesystem::is_regular_file(file, none) && holds_arrays(file);
}

void show_arrays(const std::string& name, bool json)
{
    nlohmann::ordered_json reports;
    for (const std::string& path : files_of_store(name)) {
        const ArrayFile file = ArrayFile::open(path);
        if (json)
            reports.push_back(json_of(file));
        else
            print(file);
    }
    if (json)
        std::cout << fmt::format("{}\n", (names_several_files(name) ? reports : reports[0])
                                             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string verify_arrays(const std::string& path)
{
    const ArrayFile file = ArrayFile::open(path);
    std::string bad, samples;
    bool hashed = true;
    for (std::size_t a = 0; a < file.arrays().size(); ++a) {
        const StoredArray& array = file.arrays()[a];
        if (!array.defect.empty())
            throw UserError(
                {path, str("its dataset '", array.name, "' ", array.defect), "", "write it again"});
        if (const std::string numbers = bad_numbers(file, a); !numbers.empty())
            bad += str(bad.empty() ? "" : "; ", "dataset '", array.name, "': ", numbers);
        if (array.samples != file.arrays().front().samples)
            samples = ", not as many in all arrays";
        hashed = hashed && array.hashed;
    }
    if (!bad.empty())
        throw UserError({path, "has NaN or infinities", bad, "correct or leave out these samples"});
    return str(counted(static_cast<i64>(file.arrays().size()), "array"), ", ",
               counted_in_groups(file.arrays().front().samples, "sample"), samples, ", ",
               format_bytes(file_size(path)), hashed ? ", all hashes fit" : ", without hashes");
}

} // namespace trivium
