// `trivium data arrays`.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/text_arguments.hpp"
#include "io/arrays/from_numpy.hpp"
#include "io/files/files.hpp"
#include "io/tokens/store_list.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>

namespace trivium {

namespace {

struct ArraysOptions {
    NumpyJob job;
    std::vector<std::string> inputs, scales, offsets, bf16;
    double valid_fraction = 0.05;
    bool force = false;
};

struct Named {
    std::string name, value;
};

/// NAME=VALUE.
Named split(const std::string& argument, const char* what)
{
    const std::size_t equals = argument.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == argument.size())
        throw UserError({argument, str("is not ", what),
                         "the array's name comes before the =", "such as x=fields.npy or x=0.01"});
    return {argument.substr(0, equals), argument.substr(equals + 1)};
}

/// The files in "a.npy,b.npy", "part-*.npy" or a folder.
std::vector<std::string> files_in(const std::string& list)
{
    std::vector<std::string> files;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.size(), list.find(',', begin));
        if (end > begin)
            for (std::string& file : files_of_store(list.substr(begin, end - begin)))
                files.push_back(std::move(file));
        begin = end + 1;
    }
    return files;
}

NumpyArray& array_named(std::vector<NumpyArray>& arrays, const std::string& name, const char* option)
{
    const auto found = std::ranges::find(arrays, name, &NumpyArray::name);
    if (found == arrays.end())
        throw UserError({option, str("is about '", name, "', but no array of this command has that name"), "",
                         "name an array that is given as NAME=FILE.npy"});
    return *found;
}

double number_in(const Named& named, const char* option)
{
    double number = 0;
    const char* const end = named.value.data() + named.value.size();
    const auto [at, error] = std::from_chars(named.value.data(), end, number);
    if (error != std::errc() || at != end || !std::isfinite(number))
        throw UserError({option, str("has '", named.value, "' for '", named.name, "'"),
                         "that is not a number", "such as x=0.01"});
    return number;
}

NumpyJob job_of(const ArraysOptions& options)
{
    NumpyJob job = options.job;
    for (const std::string& input : options.inputs) {
        const Named named = split(input, "NAME=FILE.npy");
        job.arrays.push_back({named.name, files_in(named.value)});
    }
    for (const std::string& scale : options.scales) {
        const Named named = split(scale, "NAME=NUMBER");
        array_named(job.arrays, named.name, "--scale").scale = number_in(named, "--scale");
    }
    for (const std::string& offset : options.offsets) {
        const Named named = split(offset, "NAME=NUMBER");
        array_named(job.arrays, named.name, "--offset").offset = number_in(named, "--offset");
    }
    for (const std::string& name : options.bf16)
        array_named(job.arrays, name, "--bf16").bf16 = true;
    if (!job.valid.empty() && !(options.valid_fraction > 0 && options.valid_fraction < 1))
        throw UserError({"--valid-fraction", str("must be between 0 and 1, is ", options.valid_fraction), "",
                         "0.05 is usual"});
    job.valid_fraction = options.valid_fraction;
    std::vector<std::string> others;
    for (const NumpyArray& array : job.arrays)
        others.insert(others.end(), array.files.begin(), array.files.end());
    for (const std::string& output : {job.output, job.valid}) {
        if (output.empty())
            continue;
        require_own_place(output, others);
        require_free(output, options.force);
        others.push_back(output);
    }
    return job;
}

void run_arrays(const ArraysOptions& options)
{
    NumpyJob job = job_of(options);
    TextProgress progress;
    job.on_progress = [&](Bytes done, Bytes total) { progress.show(done, total); };
    const std::vector<ArraySummary> written = write_arrays(job);
    log_progress("");
    for (const ArraySummary& file : written)
        std::cout << file.path << ": " << counted(static_cast<i64>(job.arrays.size()), "array") << ", "
                  << counted_in_groups(file.samples, "sample") << ", " << format_bytes(file_size(file.path))
                  << "\n";
    log_info(str("done in ", format_seconds(progress.seconds())));
}

} // namespace

void add_data_arrays(Command& data)
{
    auto options = std::make_shared<ArraysOptions>();
    Command command = data.add("arrays", "write NumPy files as arrays for the training of graphs (HDF5)");
    command
        .option(
            "input", options->inputs,
            "an input of the graph, and its .npy file, whose first dimension is that of the samples; several "
            "files follow each other: x=a.npy,b.npy or x='part-*.npy'",
            {.required = true, .type = "NAME=FILE.npy…"})
        .option("-o,--output", options->job.output, "file to write", {.required = true, .type = "FILE.h5"})
        .option("--chunks", options->job.chunk,
                "compress with gzip, in chunks of this many samples (default: neither, which reads fastest)",
                {.from = 1, .to = 1e9, .type = "N"})
        .option("--scale", options->scales,
                "value = stored number * scale + offset, for floating-point inputs",
                {.list = true, .type = "NAME=S,…"})
        .option("--offset", options->offsets, "see --scale", {.list = true, .type = "NAME=O,…"})
        .option("--bf16", options->bf16, "arrays whose uint16 are the bits of bf16",
                {.list = true, .type = "NAME,…"})
        .option("--valid", options->job.valid, "hold samples out into this second file", {.type = "FILE.h5"})
        .option("--valid-fraction", options->valid_fraction,
                "fraction of the samples that is held out, evenly spread",
                {.show_default = true, .needs = "--valid"});
    command.flag("--force", options->force, "replace existing files");
    command.action([options] { return on_first_rank([&] { return run_arrays(*options), 0; }); });
}

} // namespace trivium
