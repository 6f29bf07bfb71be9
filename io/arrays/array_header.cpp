#include "io/arrays/array_header.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace trivium {

namespace {

constexpr Bytes largest_block = Bytes{1} << 30;
/// Of samples that HDF5 reads together, and of the chunks of one sample that it keeps.
constexpr Bytes group_bytes = Bytes{4} << 20, most_cached = Bytes{64} << 20;

/// Box of consecutive samples in the whole dataset.
Box of_samples(i64 first, i64 count, const Box& box)
{
    Box all{{first}, {count}};
    all.offset.insert(all.offset.end(), box.offset.begin(), box.offset.end());
    all.shape.insert(all.shape.end(), box.shape.begin(), box.shape.end());
    return all;
}

} // namespace

void ArrayHeader::damaged(const std::string& problem) const
{
    throw UserError({path, problem, "the file of arrays is damaged", make_arrays_again});
}

std::string ArrayHeader::dataset_name(const StoredArray& array) const
{
    return str("dataset '", array.name, "'");
}

void ArrayHeader::read_samples(std::size_t a, i64 first, i64 count, const Box& box, void* to) const
{
    try {
        sources[a].dataset->read(of_samples(first, count, box), to);
    } catch (const IoError& error) { // a wrong checksum, for example
        damaged(
            str(dataset_name(arrays[a]), ", samples ", first, " to ", first + count - 1, ": ", error.what()));
    }
}

void ArrayHeader::read_header()
{
    arrays.clear();
    sources.clear();
    left_out.clear();
    try {
        hdf5 = h5::File::open(path);
        for (const std::string& name : hdf5->datasets())
            add(name);
    } catch (const IoError& error) { // HDF5 failed on damaged bytes
        damaged(error.what());
    }
    if (std::ranges::all_of(arrays, &StoredArray::in_place))
        hdf5.reset();
}

void ArrayHeader::try_chunks() const
{
    for (std::size_t a = 0; a < arrays.size(); ++a) {
        const Bytes chunk = element_count(arrays[a].chunk) * size_of(arrays[a].type);
        if (arrays[a].in_place || !arrays[a].defect.empty() || chunk > most_cached ||
            arrays[a].samples * arrays[a].elements() == 0)
            continue;
        const std::size_t dims = arrays[a].shape.size();
        std::uint64_t number = 0;
        read_samples(a, arrays[a].samples - 1, 1, {Shape(dims, 0), Shape(dims, 1)}, &number);
    }
}

/// Leaves out datasets that cannot be arrays: without a dimension, or not of numbers.
void ArrayHeader::add(const std::string& name)
{
    StoredArray array;
    Source source;
    array.name = name;
    std::optional<h5::Dataset> data = hdf5->find_numbers(name);
    if (!data || data->shape().empty()) {
        left_out.push_back(name);
        return;
    }
    array.type = data->type();
    array.samples = data->shape().front();
    array.shape.assign(data->shape().begin() + 1, data->shape().end());
    array.chunk = data->chunk();
    const auto number = [&](const char* own, const char* of_netcdf, double otherwise) {
        const double value =
            data->find_number(own).value_or(data->find_number(of_netcdf).value_or(otherwise));
        if (!std::isfinite(value))
            damaged(str(dataset_name(array), " has the attribute ", own, " = ", value));
        return value;
    };
    array.scale = number("scale", "scale_factor", 1);
    array.offset = number("offset", "add_offset", 0);
    if (array.type == DType::u16 && data->find_text("type") == "bf16")
        array.type = DType::bf16;
    array.in_place = data->is_in_place();
    // What a damaged file may claim, and HDF5 would believe.
    for (std::size_t d = 1; d < array.chunk.size(); ++d)
        if (array.chunk[d] > data->shape()[d])
            array.defect = "has chunks that are larger than its samples";
    if (!array.in_place && array.defect.empty() && !data->is_whole())
        array.defect = "was never written whole";
    if (array.in_place) {
        source.at = data->file_offset();
        if (const Bytes end = source.at + data->count() * size_of(array.type); end > bytes)
            throw UserError({path, "is truncated",
                             str("it has ", bytes, " bytes, its ", dataset_name(array), " ends after ", end),
                             make_arrays_again});
    } else {
        const Bytes chunk = array.chunk.empty() ? 0 : element_count(array.chunk) * size_of(array.type);
        const i64 together = array.chunk.empty() ? 1 : array.chunk.front();
        const i64 fitting = group_bytes / std::max<Bytes>(1, array.sample_bytes());
        source.group = std::clamp<i64>(fitting / together * together, 1, std::max<i64>(1, array.samples));
        // A box of a sample is in the chunks of as many samples as one chunk has.
        data = hdf5->dataset(
            name, std::clamp(std::max(chunk, array.sample_bytes() * together), group_bytes, most_cached));
        source.dataset = std::move(data);
    }
    if (const std::string of = str(array_hashes, "/", name); hdf5->has_dataset(of)) {
        read_hashes(of, array, source);
        array.hashed = true;
    }
    arrays.push_back(std::move(array));
    sources.push_back(std::move(source));
}

void ArrayHeader::read_hashes(const std::string& of, const StoredArray& array, Source& source) const
{
    const h5::Dataset data = hdf5->dataset(of);
    const double block = data.find_number("block_bytes").value_or(0);
    if (block < 4096 || block > static_cast<double>(largest_block) || std::fmod(block, 8) != 0)
        damaged(str(dataset_name(array), " has hashes of blocks of ", block, " bytes"));
    const Bytes all = array.samples * array.sample_bytes();
    source.hashes.block_bytes = static_cast<Bytes>(block);
    if (data.type() != DType::u64 ||
        data.shape() != std::vector<i64>{ceil_div(all, source.hashes.block_bytes)})
        damaged(str("the hashes of its ", dataset_name(array), " do not fit its size"));
    source.hashes.values.resize(static_cast<std::size_t>(data.count()));
    data.read(0, data.count(), DType::u64, source.hashes.values.data());
    if (array.in_place)
        source.checked = std::make_unique<std::atomic<bool>[]>(source.hashes.values.size());
}

} // namespace trivium
