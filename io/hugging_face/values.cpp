// Converts values of tensors between our layout and theirs.
#include "io/hugging_face/hugging_face.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

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

std::string stored_name(const OurTensor& tensor) { return "param/" + tensor.name; }

i64 columns_of(const HuggingFaceTensor& tensor)
{
    i64 columns = 0;
    for (const OurTensor& ours : tensor.ours)
        columns += ours.columns;
    return columns;
}

/// Concatenates our tensors along the columns, a bounded number of rows at a time.
void export_side_by_side(const HuggingFaceTensor& tensor, const CheckpointReader& from,
                         const std::function<void(std::span<const float>)>& sink)
{
    const i64 rows = tensor.ours[0].rows, columns = columns_of(tensor),
              band = std::max<i64>(1, at_once / columns);
    std::vector<float> theirs, part;
    for (i64 first = 0; first < rows; first += band) {
        const i64 count = std::min(band, rows - first);
        theirs.resize(static_cast<std::size_t>(count * columns));
        i64 column = 0;
        for (const OurTensor& ours : tensor.ours) {
            part.resize(static_cast<std::size_t>(count * ours.columns));
            from.read(stored_name(ours), first * ours.columns, count * ours.columns, DType::f32, part.data());
            for (i64 row = 0; row < count; ++row)
                std::copy_n(part.begin() + row * ours.columns, ours.columns,
                            theirs.begin() + row * columns + column);
            column += ours.columns;
        }
        sink(theirs);
    }
}

} // namespace

void export_values(const HuggingFaceTensor& tensor, const CheckpointReader& from,
                   const std::function<void(std::span<const float>)>& sink)
{
    const OurTensor& ours = tensor.ours[0];
    const i64 count = ours.rows * ours.columns;
    std::vector<float> chunk;
    if (tensor.ours.size() > 1)
        return export_side_by_side(tensor, from, sink);
    std::vector<float> whole(static_cast<std::size_t>(tensor.transposed ? count : 0));
    if (tensor.transposed)
        from.read(stored_name(ours), 0, count, DType::f32, whole.data());
    for (i64 first = 0; first < count; first += at_once) {
        chunk.resize(static_cast<std::size_t>(std::min(at_once, count - first)));
        if (tensor.transposed)
            copy_transposed(whole, ours.rows, ours.columns, first, chunk);
        else
            from.read(stored_name(ours), first, static_cast<i64>(chunk.size()), DType::f32, chunk.data());
        sink(chunk);
    }
}

ValueSource imported_values(const HuggingFaceTensor& tensor, std::size_t part, const SafetensorsReader& from)
{
    const SafetensorsEntry* entry = from.find(tensor.name);
    TRV_CHECK(entry && entry->shape == tensor.shape, "no tensor ", tensor.name, " of this shape");
    const OurTensor ours = tensor.ours[part];
    const i64 count = ours.rows * ours.columns;
    if (tensor.transposed)
        return [=, &from, whole = std::vector<float>()](i64 first, std::span<float> to) mutable {
            if (whole.empty()) {
                whole.resize(static_cast<std::size_t>(count));
                from.read(*entry, i64{0}, std::span(whole));
            }
            copy_transposed(whole, ours.columns, ours.rows, first, to);
            if (first + static_cast<i64>(to.size()) == count)
                whole = std::vector<float>();
        };
    if (tensor.ours.size() == 1)
        return [=, &from](i64 first, std::span<float> to) { from.read(*entry, first, to); };
    const i64 columns = columns_of(tensor);
    i64 column = 0;
    for (std::size_t i = 0; i < part; ++i)
        column += tensor.ours[i].columns;
    return [=, &from](i64 first, std::span<float> to) {
        const i64 last = first + static_cast<i64>(to.size()), band = std::max<i64>(1, at_once / columns);
        std::vector<float> rows;
        while (first < last) { // read whole rows of their tensor and copy our columns
            const i64 row = first / ours.columns,
                      count_of_rows = std::min(band, ceil_div(last, ours.columns) - row);
            rows.resize(static_cast<std::size_t>(count_of_rows * columns));
            from.read(*entry, row * columns, std::span(rows));
            for (i64 i = row; i < row + count_of_rows; ++i) {
                const i64 begin = std::max(first, i * ours.columns),
                          end = std::min(last, (i + 1) * ours.columns);
                std::copy_n(rows.begin() + (i - row) * columns + column + begin - i * ours.columns,
                            end - begin, to.begin() + (begin - last) + static_cast<i64>(to.size()));
                first = end;
            }
        }
    };
}

} // namespace trivium
