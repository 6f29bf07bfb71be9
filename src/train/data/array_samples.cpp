#include "train/data/array_samples.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/arrays/convert.hpp"
#include "io/files/hash.hpp"
#include "io/tokens/store_list.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

namespace {

TensorType type_of(const StoredArray& array) { return {array.type, array.shape}; }

/// "'x' (f32[4,8]), 'y' (i16[])".
std::string list_of(const std::vector<StoredArray>& arrays)
{
    std::string text;
    for (const StoredArray& array : arrays)
        text += str(text.empty() ? "" : ", ", "'", array.name, "' (", to_string(type_of(array)), ")");
    return text;
}

/// UserError unless `array` can be the input of that name and type.
void require_input(const std::string& path, const StoredArray& array, const TensorType& input)
{
    const auto refuse = [&](const std::string& problem, const std::string& remedy) {
        throw UserError(
            {path, str("its dataset '", array.name, "' has samples of ", to_string(type_of(array)), problem),
             str("the graph's input '", array.name, "' is ", to_string(input), " per sample"), remedy});
    };
    if (!array.defect.empty())
        throw UserError({path, str("its dataset '", array.name, "' ", array.defect),
                         "the program that wrote it stopped before its end, or the file is damaged",
                         "write the file again"});
    if (array.shape != input.shape)
        refuse(", which is another shape",
               "change the shape of the input or of the data; the first dimension of "
               "the dataset is that of the samples");
    if (!is_convertible(array.type, input.dtype))
        refuse(", which are no integers", "make the input a floating-point one, or store integers");
    if (input.dtype == DType::i32 && (array.scale != 1 || array.offset != 0))
        refuse(str(" with scale ", array.scale, " and offset ", array.offset),
               "make the input a floating-point one, or remove these attributes");
}

} // namespace

ArraySamples::ArraySamples(const std::string& name, const std::map<std::string, TensorType>& inputs)
    : path_(name)
{
    for (const auto& [input, type] : inputs)
        arrays_.push_back({input, type});
    const auto group = std::make_shared<OpenFiles>();
    for (const std::string& path : files_of_store(name))
        add(ArrayFile::open(path, group), inputs);
    std::vector<u64> hashes;
    const auto add_text = [&](const std::string& text) { hashes.push_back(hash_bytes(text)); };
    for (const File& file : files_)
        for (std::size_t i = 0; i < arrays_.size(); ++i) {
            const StoredArray& array = file.file.arrays()[file.places[i]];
            add_text(str(array.name, " ", array.samples, " ", to_string(type_of(array)), " ", array.scale,
                         " ", array.offset));
            hashes.push_back(file.file.hash(file.places[i]));
        }
    content_ = str(samples(), " samples, ", hex(hash_of_hashes(hashes)));
}

void ArraySamples::add(ArrayFile file, const std::map<std::string, TensorType>& inputs)
{
    const std::vector<StoredArray>& stored = file.arrays();
    std::vector<std::size_t> places;
    for (const auto& [name, type] : inputs) {
        places.push_back(file.find(name));
        if (std::ranges::find(file.left_out(), name) != file.left_out().end())
            throw UserError(
                {file.path(), str("its dataset '", name, "' has no samples of a type that is read"),
                 "an array has f16, f32, f64, i8 to i64 or u8 to u64, and a dimension for the samples",
                 "store it as such numbers; complex ones as two, for example"});
        if (places.back() == stored.size())
            throw UserError({file.path(), str("has no dataset '", name, "'"),
                             str("the graph has an input of that name; the file has ", list_of(stored)),
                             "give dataset and input one name; arrays are made with `trivium data arrays "
                             "NAME=FILE.npy`"});
        require_input(file.path(), stored[places.back()], type);
        const StoredArray &array = stored[places.back()], &first = stored[places.front()];
        if (array.samples != first.samples)
            throw UserError(
                {file.path(), str("its dataset '", array.name, "' has ", counted(array.samples, "sample")),
                 str("'", first.name, "' has ", first.samples),
                 "the first dimension is that of the samples, of the same extent in all datasets"});
    }
    const i64 samples = stored[places.empty() ? 0 : places.front()].samples;
    if (samples == 0)
        throw UserError({file.path(), "has no samples", "the first dimension of its datasets is 0",
                         "name a file with samples"});
    begins_.push_back(begins_.back() + samples);
    files_.push_back({std::move(file), std::move(places)});
}

std::pair<const ArraySamples::File*, i64> ArraySamples::find(i64 sample) const
{
    TRV_CHECK(sample >= 0 && sample < samples(), path_, ": sample ", sample, " of ", samples());
    const auto file =
        static_cast<std::size_t>(std::ranges::upper_bound(begins_, sample) - begins_.begin()) - 1;
    return {&files_[file], sample - begins_[file]};
}

void ArraySamples::read(std::size_t array, i64 sample, const Box& box, void* to) const
{
    const auto [file, own] = find(sample);
    file->file.read(file->places[array], own, box, arrays_[array].type.dtype, to);
}

void ArraySamples::pad(std::size_t array, const Box& box, void* to) const
{
    std::memset(to, 0,
                static_cast<std::size_t>(element_count(box.shape) * size_of(arrays_[array].type.dtype)));
}

void ArraySamples::will_read(std::size_t array, i64 sample, const Box& box) const
{
    const auto [file, own] = find(sample);
    file->file.will_read(file->places[array], own, box);
}

std::string ArraySamples::content() const { return content_; }

std::string ArraySamples::facts() const
{
    return str(counted(static_cast<i64>(files_.size()), "file"), ", ", content_);
}

Bytes ArraySamples::stored_bytes() const
{
    Bytes bytes = 0;
    for (const File& file : files_)
        for (const std::size_t place : file.places)
            bytes += file.file.arrays()[place].samples * file.file.arrays()[place].sample_bytes();
    return bytes;
}

void ArraySamples::verify(i64 part, i64 parts) const
{
    for (const File& file : files_)
        for (const std::size_t place : file.places)
            file.file.verify(place, part, parts);
}

} // namespace trivium
