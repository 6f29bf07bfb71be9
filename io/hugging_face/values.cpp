// Converts values of tensors between our layout and theirs.
#include "io/hugging_face/hugging_face.hpp"

#include "base/check.hpp"
#include "io/hugging_face/mxfp4.hpp"

#include <algorithm>
#include <map>

namespace trivium {

ReadParameter parameters_of(const CheckpointReader& checkpoint)
{
    return [&checkpoint](const std::string& name, i64 first, std::span<float> to) {
        checkpoint.read("param/" + name, first, static_cast<i64>(to.size()), DType::f32, to.data());
    };
}

std::vector<ColumnRun> runs_of(const HuggingFaceTensor& tensor)
{
    std::vector<ColumnRun> runs;
    i64 theirs = 0;
    for (i64 group = 0; group < tensor.groups; ++group)
        for (std::size_t part = 0; part < tensor.ours.size(); ++part) {
            const i64 count = tensor.ours[part].columns / tensor.groups, first = group * count,
                      stay = count - tensor.moved;
            runs.push_back({part, first + tensor.moved, theirs, stay});
            if (tensor.moved > 0)
                runs.push_back({part, first, theirs + stay, tensor.moved});
            theirs += count;
        }
    return runs;
}

namespace {

constexpr i64 at_once = i64{1} << 20; ///< values in a buffer

/// Fills `to` with values of the transpose of source [rows, columns], from flattened index `first`.
void copy_transposed(std::span<const float> source, i64 rows, i64 columns, i64 first, std::span<float> to)
{
    const i64 end = first + static_cast<i64>(to.size());
    for (i64 i = 0; i < rows; ++i) // to has source[i, j] at j * rows + i
        for (i64 j = first <= i ? 0 : ceil_div(first - i, rows); j * rows + i < end; ++j)
            to[static_cast<std::size_t>(j * rows + i - first)] =
                source[static_cast<std::size_t>(i * columns + j)];
}

void export_transposed(const HuggingFaceTensor& tensor, const ReadParameter& from,
                       const std::function<void(std::span<const float>)>& sink)
{
    std::vector<std::vector<float>> wholes;
    for (const OurTensor& ours : tensor.ours) {
        wholes.emplace_back(static_cast<std::size_t>(ours.count()));
        from(ours.name, ours.first, wholes.back());
    }
    std::vector<float> chunk;
    for (const ColumnRun& run : runs_of(tensor)) {
        const i64 rows = tensor.ours[run.part].rows, end = (run.column + run.count) * rows;
        for (i64 first = run.column * rows; first < end; first += at_once) {
            chunk.resize(static_cast<std::size_t>(std::min(at_once, end - first)));
            copy_transposed(wholes[run.part], rows, tensor.ours[run.part].columns, first, chunk);
            sink(chunk);
        }
    }
}

/// A bounded number of rows at a time.
void export_side_by_side(const HuggingFaceTensor& tensor, const ReadParameter& from,
                         const std::function<void(std::span<const float>)>& sink)
{
    const i64 rows = tensor.ours[0].rows, columns = tensor.shape.back(),
              band = std::max<i64>(1, at_once / columns);
    const std::vector<ColumnRun> runs = runs_of(tensor);
    std::vector<std::vector<float>> parts(tensor.ours.size());
    std::vector<float> theirs;
    for (i64 first = 0; first < rows; first += band) {
        const i64 count = std::min(band, rows - first);
        theirs.resize(static_cast<std::size_t>(count * columns));
        for (std::size_t part = 0; part < parts.size(); ++part) {
            const OurTensor& ours = tensor.ours[part];
            parts[part].resize(static_cast<std::size_t>(count * ours.columns));
            from(ours.name, ours.first + first * ours.columns, parts[part]);
        }
        for (const ColumnRun& run : runs)
            for (i64 row = 0; row < count; ++row)
                std::copy_n(parts[run.part].begin() + row * tensor.ours[run.part].columns + run.column,
                            run.count, theirs.begin() + row * columns + run.theirs);
        sink(theirs);
    }
}

/// The transpose of tensor.ours[part], which is some rows of theirs.
std::vector<float> read_rows(const SafetensorsEntry& entry, const HuggingFaceTensor& tensor, std::size_t part,
                             const SafetensorsReader& from)
{
    const OurTensor& ours = tensor.ours[part];
    std::vector<float> whole(static_cast<std::size_t>(ours.count()));
    for (const ColumnRun& run : runs_of(tensor))
        if (run.part == part)
            from.read(entry, run.theirs * ours.rows,
                      std::span(whole).subspan(static_cast<std::size_t>(run.column * ours.rows),
                                               static_cast<std::size_t>(run.count * ours.rows)));
    return whole;
}

} // namespace

void export_values(const HuggingFaceTensor& tensor, const ReadParameter& from,
                   const std::function<void(std::span<const float>)>& sink)
{
    if (tensor.transposed)
        export_transposed(tensor, from, sink);
    else
        export_side_by_side(tensor, from, sink);
}

ValueSource imported_values(const HuggingFaceTensor& tensor, std::size_t part, const SafetensorsReader& from)
{
    if (tensor.mxfp4)
        return mxfp4_values(tensor, part, from);
    const SafetensorsEntry* entry = from.find(tensor.name);
    TRV_CHECK(entry && entry->shape == tensor.shape, "no tensor ", tensor.name, " of this shape");
    const OurTensor ours = tensor.ours[part];
    if (tensor.transposed)
        return [=, &from, whole = std::vector<float>()](i64 first, std::span<float> to) mutable {
            if (whole.empty())
                whole = read_rows(*entry, tensor, part, from);
            copy_transposed(whole, ours.columns, ours.rows, first, to);
            if (first + static_cast<i64>(to.size()) == ours.count())
                whole = std::vector<float>();
        };
    if (tensor.ours.size() == 1)
        return [=, &from](i64 first, std::span<float> to) { from.read(*entry, first, to); };
    const i64 columns = tensor.shape.back();
    std::vector<ColumnRun> runs = runs_of(tensor);
    std::erase_if(runs, [&](const ColumnRun& run) { return run.part != part; });
    return [=, &from](i64 first, std::span<float> to) {
        const i64 last = first + static_cast<i64>(to.size()), band = std::max<i64>(1, at_once / columns);
        std::vector<float> rows;
        for (i64 row = first / ours.columns; row * ours.columns < last; row += band) { // whole rows of theirs
            const i64 here = std::min(band, ceil_div(last, ours.columns) - row);
            rows.resize(static_cast<std::size_t>(here * columns));
            from.read(*entry, row * columns, std::span(rows));
            for (i64 i = row; i < row + here; ++i)
                for (const ColumnRun& run : runs) {
                    const i64 start = i * ours.columns + run.column, begin = std::max(first, start),
                              end = std::min(last, start + run.count);
                    if (begin < end)
                        std::copy_n(rows.begin() + (i - row) * columns + run.theirs + begin - start,
                                    end - begin, to.begin() + (begin - first));
                }
        }
    };
}

const ImportedParameter::Slice& ImportedParameter::slice_of(i64 index) const
{
    const i64 each = element_count(shape) / static_cast<i64>(slices.size());
    return slices[static_cast<std::size_t>(index / each)];
}

void ImportedParameter::read(i64 first, std::span<float> to) const
{
    const i64 each = element_count(shape) / static_cast<i64>(slices.size());
    while (!to.empty()) {
        const i64 within = first % each, count = std::min(each - within, static_cast<i64>(to.size()));
        slice_of(first).values(within, to.first(static_cast<std::size_t>(count)));
        to = to.subspan(static_cast<std::size_t>(count));
        first += count;
    }
}

std::vector<ImportedParameter> imported_parameters(const HuggingFaceModel& model)
{
    std::vector<ImportedParameter> all;
    std::map<std::string, std::size_t> places;
    for (const HuggingFaceTensor& tensor : model.tensors)
        for (std::size_t part = 0; part < tensor.ours.size(); ++part) {
            const OurTensor& ours = tensor.ours[part];
            const auto [at, is_new] = places.emplace(ours.name, all.size());
            if (is_new)
                all.push_back({ours.name, ours.shape, {}});
            all[at->second].slices.push_back({tensor.name, imported_values(tensor, part, model.files)});
        }
    return all;
}

} // namespace trivium
