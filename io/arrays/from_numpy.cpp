#include "io/arrays/from_numpy.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/arrays/array_writer.hpp"
#include "io/arrays/convert.hpp"
#include "io/arrays/numpy.hpp"
#include "io/files/files.hpp"
#include "ir/type.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

namespace trivium {

namespace {

constexpr Bytes read_at_once = Bytes{4} << 20;

struct Part {
    PlainFile file;
    Bytes begin = 0; ///< of the first sample
    i64 samples = 0;
    bool big_endian = false;
};

struct Input {
    NewArray array;
    std::vector<Part> parts;

    Bytes sample_bytes() const { return element_count(array.shape) * size_of(array.type); }
};

[[noreturn]] void refuse(const std::string& path, const std::string& problem, const std::string& reason,
                         const std::string& remedy)
{
    throw UserError({path, problem, reason, remedy});
}

/// The type of the numbers; of bf16, which NumPy lacks, the two bytes are integers or of no type.
NumpyType type_of(const std::string& path, const NumpyHeader& header, bool bf16)
{
    if (bf16 && (header.type == "<u2" || header.type == "<V2" || header.type == "|V2"))
        return {DType::bf16, false};
    const std::optional<NumpyType> type = numpy_type(header.type);
    if (bf16 || !type)
        refuse(path, bf16 ? "does not have the bits of bf16" : "does not have plain numbers",
               header.type.empty() ? "its NumPy header describes no simple type"
                                   : str("its NumPy header says '", header.type, "'"),
               header.type.ends_with("V2") ? "if it is bf16, add --bf16 NAME"
               : bf16                      ? "save array.view(numpy.uint16), or leave out --bf16"
                                           : "save it with a type such as float32, float16 or int16");
    return *type;
}

void add_part(Input& input, const std::string& path, bool bf16)
{
    PlainFile file = PlainFile::open(path, "NumPy file", PlainFile::Links::follow);
    const NumpyHeader header = parse_numpy_header(source_of(file));
    const NumpyType type = type_of(path, header, bf16);
    if (header.fortran)
        refuse(path, "is in Fortran's order", "its NumPy header does not say 'fortran_order': False",
               "save numpy.ascontiguousarray(array)");
    if (!header.shape || header.shape->empty())
        refuse(path, "has no dimension for the samples", str("its shape is ", header.extents),
               "save an array whose first dimension is that of the samples");
    const Shape shape(header.shape->begin() + 1, header.shape->end());
    double bytes = static_cast<double>(size_of(type.type));
    for (const i64 extent : *header.shape)
        bytes *= static_cast<double>(extent);
    const Bytes behind = file.size() - header.begin;
    if (bytes != static_cast<double>(behind))
        refuse(path, bytes > static_cast<double>(behind) ? "is truncated" : "is longer than its header says",
               str("the header says ", header.extents, " of ", name_of(type.type), ", behind it are ", behind,
                   " bytes"),
               "copy it again whole, or save it again");
    if (bytes == 0)
        refuse(path, "has no samples", str("its shape is ", header.extents), "leave it out");
    if (!input.parts.empty() && (type.type != input.array.type || shape != input.array.shape))
        refuse(path, str("is not like ", input.parts.front().file.path()),
               str("its samples are ", to_string(TensorType{type.type, shape}), ", those of the other file ",
                   to_string(TensorType{input.array.type, input.array.shape})),
               "all files of an array have one type and one shape but for the samples");
    input.array.type = type.type;
    input.array.shape = shape;
    input.array.samples += header.shape->front();
    input.parts.push_back({std::move(file), header.begin, header.shape->front(), type.big_endian});
}

std::vector<Input> open_inputs(const NumpyJob& job)
{
    std::vector<Input> inputs;
    for (const NumpyArray& array : job.arrays) {
        Input input{{array.name, DType::f32, 0, {}, array.scale, array.offset}, {}};
        for (const std::string& path : array.files)
            add_part(input, path, array.bf16);
        inputs.push_back(std::move(input));
        const NewArray &first = inputs.front().array, &last = inputs.back().array;
        if (last.samples != first.samples)
            refuse(inputs.back().parts.front().file.path(),
                   str("the array '", last.name, "' has ", counted(last.samples, "sample")),
                   str("'", first.name, "' has ", first.samples), "give all arrays the same samples");
    }
    TRV_CHECK(!inputs.empty(), "no array");
    return inputs;
}

/// Which samples are held out: `held` of `all`, evenly spread.
struct HeldOut {
    i64 all = 0, held = 0;

    bool operator()(i64 sample) const { return before(sample + 1) > before(sample); }
    /// Held out before `sample`.
    i64 before(i64 sample) const
    {
        __extension__ using Wide = __int128;
        return static_cast<i64>((Wide{sample} * held + all / 2) / all);
    }
};

void swap_bytes(std::byte* numbers, i64 count, Bytes width)
{
    for (i64 i = 0; i < count; ++i)
        std::reverse(numbers + i * width, numbers + (i + 1) * width);
}

/// Copies all samples; `writers`: of the samples that are kept, and of those that are held out.
void copy_samples(const NumpyJob& job, const std::vector<Input>& inputs, const HeldOut& held,
                  ArrayWriter& kept, ArrayWriter* valid)
{
    Bytes done = 0, total = 0;
    for (const Input& input : inputs)
        total += input.array.samples * input.sample_bytes();
    std::vector<std::byte> buffer;
    for (std::size_t a = 0; a < inputs.size(); ++a) {
        const Input& input = inputs[a];
        const Bytes sample = input.sample_bytes(), width = size_of(input.array.type);
        const i64 at_once = std::max<i64>(1, read_at_once / sample), elements = sample / width;
        i64 global = 0; // sample of the array
        for (const Part& part : input.parts)
            for (i64 first = 0; first < part.samples; first += at_once) {
                const i64 count = std::min(at_once, part.samples - first);
                buffer.resize(static_cast<std::size_t>(count * sample));
                part.file.read(part.begin + first * sample, buffer.data(), count * sample);
                if (part.big_endian)
                    swap_bytes(buffer.data(), count * elements, width);
                if (const i64 good = first_not_finite(input.array.type, buffer.data(), count * elements);
                    good < count * elements)
                    refuse(part.file.path(),
                           str("has ",
                               std::isnan(number_at(input.array.type, buffer.data(), good)) ? "NaN"
                                                                                            : "an infinity",
                               " in its sample ", first + good / elements),
                           "training cannot use it", "correct or leave out such samples");
                for (i64 i = 0; i < count;) { // runs of samples for one file
                    const bool out = held.held > 0 && held(global + i);
                    i64 end = i + 1;
                    while (end < count && (held.held > 0 && held(global + end)) == out)
                        ++end;
                    (out ? *valid : kept).append(a, end - i, buffer.data() + i * sample);
                    i = end;
                }
                global += count;
                done += count * sample;
                if (job.on_progress)
                    job.on_progress(done, total);
            }
    }
}

} // namespace

std::vector<ArraySummary> write_arrays(const NumpyJob& job)
{
    const std::vector<Input> inputs = open_inputs(job);
    const i64 all = inputs.front().array.samples;
    HeldOut held{all, 0};
    if (!job.valid.empty()) {
        if (all < 2)
            refuse(job.valid, "would leave no sample for training", "the arrays have one sample",
                   "leave out --valid");
        held.held = std::clamp<i64>(std::llround(job.valid_fraction * static_cast<double>(all)), 1, all - 1);
    }
    const auto arrays = [&](i64 samples) {
        std::vector<NewArray> list;
        for (const Input& input : inputs) {
            list.push_back(input.array);
            list.back().samples = samples;
        }
        return list;
    };
    replace_file(job.output, [&](const std::string& output) {
        ArrayWriter kept(output, arrays(all - held.held), job.chunk);
        if (job.valid.empty()) {
            copy_samples(job, inputs, held, kept, nullptr);
        } else {
            replace_file(job.valid, [&](const std::string& valid_output) {
                ArrayWriter valid(valid_output, arrays(held.held), job.chunk);
                copy_samples(job, inputs, held, kept, &valid);
                valid.finish();
            });
        }
        kept.finish();
    });
    std::vector<ArraySummary> written{{job.output, all - held.held}};
    if (!job.valid.empty())
        written.push_back({job.valid, held.held});
    return written;
}

} // namespace trivium
