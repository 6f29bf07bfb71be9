#include "io/arrays/array_writer.hpp"

#include "base/check.hpp"
#include "io/arrays/array_file.hpp"
#include "io/arrays/block_hashes.hpp"
#include "io/files/hdf5.hpp"
#include "io/files/seal.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace trivium {

namespace {

/// Largest chunk that HDF5 can have, less a margin.
constexpr Bytes most_in_chunk = (Bytes{4} << 30) - (Bytes{1} << 20);
/// Upper bound of HDF5's metadata of a file, and of each array in it.
constexpr Bytes metadata = 4096, metadata_of_array = 2048;

Bytes bytes_of(const NewArray& array)
{
    return array.samples * element_count(array.shape) * size_of(array.type);
}

/// At most 2^20 blocks.
Bytes block_bytes_for(const NewArray& array)
{
    Bytes block = array_block;
    while (bytes_of(array) > block << 20)
        block *= 2;
    return block;
}

/// As HDF5 stores it.
DType stored_type(DType type) { return type == DType::bf16 ? DType::u16 : type; }

void require_names(const std::string& path, const std::vector<NewArray>& arrays)
{
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const std::string& name = arrays[i].name;
        if (name.empty() || name == "." || name == array_hashes || name.find('/') != std::string::npos)
            throw UserError({path, str("cannot have an array called '", name, "'"),
                             "its name is that of a dataset outside of groups", "choose another name"});
        for (std::size_t before = 0; before < i; ++before)
            if (arrays[before].name == name)
                throw UserError({path, str("would have two arrays called '", name, "'"), "",
                                 "name each once; several files of one array: NAME=a.npy,b.npy"});
    }
}

} // namespace

struct ArrayWriter::Impl {
    struct Target {
        NewArray array;
        BlockHasher hasher;
        std::optional<h5::Dataset> data, hashes;
        i64 written = 0; ///< samples
    };

    std::string path;
    bool sealed = true; ///< without chunks, the numbers are one range of the file
    std::optional<h5::File> file;
    std::vector<Target> targets;
};

ArrayWriter::ArrayWriter(const std::string& path, std::vector<NewArray> arrays, i64 chunk)
    : impl_(std::make_unique<Impl>())
{
    Impl& w = *impl_;
    require_names(path, arrays);
    w.path = path;
    w.sealed = chunk == 0;
    if (w.sealed)
        w.file = h5::File::create(
            path, {.reserved = seal_bytes,
                   .metadata = metadata + metadata_of_array * static_cast<Bytes>(arrays.size())});
    else
        w.file = h5::File::create(path);
    for (NewArray& array : arrays) {
        const Bytes block = block_bytes_for(array);
        Impl::Target target{std::move(array), BlockHasher(block), {}, {}};
        target.hashes = w.file->create_dataset(str(array_hashes, "/", target.array.name), DType::u64,
                                               {ceil_div(bytes_of(target.array), block)});
        target.hashes->set("block_bytes", std::vector<i64>{block});
        w.targets.push_back(std::move(target));
    }
    for (Impl::Target& target : w.targets) { // after the hashes: nothing else is between the numbers
        const NewArray& a = target.array;
        Shape whole{a.samples};
        whole.insert(whole.end(), a.shape.begin(), a.shape.end());
        Shape chunks;
        if (chunk > 0) {
            chunks = whole;
            chunks[0] = std::min(chunk, a.samples);
            if (const Bytes bytes = element_count(chunks) * size_of(a.type); bytes > most_in_chunk)
                throw UserError({path,
                                 str("cannot have chunks of ", format_bytes(bytes), " in '", a.name, "'"),
                                 "HDF5 has chunks of less than 4 GiB", "choose fewer samples per chunk"});
        }
        target.data = w.file->create_dataset(a.name, stored_type(a.type), whole, chunks);
        if (a.type == DType::bf16)
            target.data->set("type", std::string("bf16"));
        if (a.scale != 1)
            target.data->set("scale", a.scale);
        if (a.offset != 0)
            target.data->set("offset", a.offset);
    }
}

ArrayWriter::~ArrayWriter() = default;

void ArrayWriter::append(std::size_t array, i64 samples, const void* numbers)
{
    Impl::Target& target = impl_->targets[array];
    const NewArray& a = target.array;
    TRV_CHECK(target.written + samples <= a.samples, a.name, " has only ", a.samples, " samples");
    Box box{{target.written}, {samples}};
    box.offset.resize(a.shape.size() + 1, 0);
    box.shape.insert(box.shape.end(), a.shape.begin(), a.shape.end());
    target.data->write(box, numbers);
    target.hasher.add(numbers, samples * element_count(a.shape) * size_of(a.type));
    target.written += samples;
}

void ArrayWriter::finish()
{
    Impl& w = *impl_;
    Bytes begin = 0, end = 0; // of the numbers
    for (Impl::Target& target : w.targets) {
        TRV_CHECK(target.written == target.array.samples, target.array.name, " lacks samples");
        const std::vector<u64>& hashes = target.hasher.finish();
        target.hashes->write(0, static_cast<i64>(hashes.size()), DType::u64, hashes.data());
        if (w.sealed && bytes_of(target.array) > 0) {
            const Bytes at = target.data->file_offset();
            begin = begin == 0 ? at : std::min(begin, at);
            end = std::max(end, at + bytes_of(target.array));
        }
        target.data.reset();
        target.hashes.reset();
    }
    w.file->close();
    if (w.sealed)
        seal_file(w.path, array_file_kind, array_file_version, std::max(begin, seal_bytes), end - begin);
}

} // namespace trivium
