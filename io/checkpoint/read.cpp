#include "base/check.hpp"
#include "io/checkpoint/box.hpp"
#include "io/checkpoint/source.hpp"
#include "io/files/damaged.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

namespace {

/// Copies elements and converts their type.
template <class From, class To>
void convert(const std::byte* from, i64 count, std::byte* to)
{
    for (i64 i = 0; i < count; ++i) {
        From value;
        std::memcpy(&value, from + i * static_cast<i64>(sizeof(From)), sizeof(From));
        const To converted = static_cast<To>(value);
        std::memcpy(to + i * static_cast<i64>(sizeof(To)), &converted, sizeof(To));
    }
}

/// Reads elements that are contiguous in the file into contiguous memory.
void read_run(const CheckpointSource::Place& from, i64 first, i64 count, DType stored, DType type,
              std::byte* to)
{
    const Bytes begin = from.offset + first * size_of(stored);
    if (stored == type)
        return from.file->read(begin, to, count * size_of(stored));
    std::byte part[std::size_t{1} << 13];
    const auto at_once = static_cast<i64>(sizeof part) / size_of(stored);
    for (i64 done = 0; done < count; done += at_once) {
        const i64 some = std::min(at_once, count - done);
        from.file->read(begin + done * size_of(stored), part, some * size_of(stored));
        if (stored == DType::f32)
            convert<float, double>(part, some, to + done * 8);
        else
            convert<double, float>(part, some, to + done * 4);
    }
}

/// Flattened index of the element at `at` in an array of this shape that begins at `origin`.
i64 index_of(const Shape& at, const Shape& origin, const Shape& shape)
{
    i64 index = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
        index = index * shape[d] + at[d] - origin[d];
    return index;
}

/// Copies `common`, the intersection of the box `stored` (in the file) and the box `target` (in memory at
/// `to`).
void read_common(const CheckpointSource::Place& from, const Box& stored, const Box& common, DType stored_type,
                 const Box& target, DType type, std::byte* to)
{
    // A run covers the trailing dimensions that are complete in both boxes, and the dimension before them.
    std::size_t inner = common.shape.size();
    i64 run = 1;
    while (inner > 0) {
        --inner;
        run *= common.shape[inner];
        if (common.shape[inner] != stored.shape[inner] || common.shape[inner] != target.shape[inner])
            break;
    }
    Shape at = common.offset;
    for (i64 runs = element_count(common.shape) / run; runs > 0; --runs) {
        read_run(from, index_of(at, stored.offset, stored.shape), run, stored_type, type,
                 to + index_of(at, target.offset, target.shape) * size_of(type));
        for (std::size_t d = inner; d-- > 0;) {
            if (++at[d] < common.offset[d] + common.shape[d])
                break;
            at[d] = common.offset[d];
        }
    }
}

} // namespace

struct CheckpointReader::Impl {
    i64 find(const std::string& name) const
    {
        if (const std::optional<i64> found = source.find(name))
            return *found;
        std::vector<std::string> names;
        for (i64 i = 0; i < source.tensors(); ++i)
            names.push_back(source.head(i).name);
        const std::string near = nearest_word(name, names);
        throw UserError(
            {path, str("has no tensor '", name, "'"),
             near.empty() ? str("it has ", names.size(), " others: a checkpoint of another model")
                          : str("the nearest is '", near, "'; a checkpoint of another model?"),
             "use the [model] that the checkpoint was made with (`trivium checkpoint show` prints it)"});
    }

    void read(i64 tensor, const Box& target, DType type, std::byte* to)
    {
        const TensorHead head = source.head(tensor);
        i64 missing = element_count(target.shape);
        source.visit_pieces(tensor, [&](const StoredPiece& piece) {
            if (const std::optional<Box> common = intersection(piece.box, target)) {
                read_common(source.locate(head, piece), piece.box, *common, head.type, target, type, to);
                missing -= element_count(common->shape);
            }
        });
        if (missing != 0)
            throw DamagedCheckpoint(path, str("tensor '", head.name, "' has a hole, or pieces that overlap"));
    }

    std::string path;
    CheckpointSource source;
};

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

CheckpointReader CheckpointReader::open(const std::string& path)
{
    return CheckpointReader(std::unique_ptr<Impl>(new Impl{path, open_source(path)}));
}

const std::string& CheckpointReader::path() const { return impl_->path; }
const RunState& CheckpointReader::state() const { return impl_->source.state(); }
bool CheckpointReader::has(const std::string& name) const { return impl_->source.find(name).has_value(); }
i64 CheckpointReader::version() const { return checkpoint_version; }
Bytes CheckpointReader::bytes() const { return impl_->source.bytes(); }
i64 CheckpointReader::shards() const { return impl_->source.shards(); }
void CheckpointReader::check(i64 part, i64 parts) const { impl_->source.check(part, parts); }

std::vector<CheckpointReader::Entry> CheckpointReader::tensors() const
{
    std::vector<Entry> entries;
    for (i64 i = 0; i < impl_->source.tensors(); ++i) {
        const TensorHead head = impl_->source.head(i);
        entries.push_back({head.name, head.shape, head.type, head.pieces});
    }
    return entries;
}

void CheckpointReader::read(const TensorPiece& into) const
{
    const i64 tensor = impl_->find(into.name);
    const Shape shape = impl_->source.head(tensor).shape;
    if (shape != into.whole)
        throw UserError(
            {impl_->path,
             str("tensor '", into.name, "' has shape ", print_shape(shape), ", the model needs ",
                 print_shape(into.whole)),
             "it is a checkpoint of another model",
             "use the [model] that the checkpoint was made with (`trivium checkpoint show` prints it)"});
    TRV_CHECK(is_inside(into.box, into.whole), "tensor '", into.name, "' of shape ", print_shape(into.whole),
              " has no ", print_box(into.box));
    impl_->read(tensor, into.box, into.type, static_cast<std::byte*>(into.data));
}

void CheckpointReader::read(const std::string& name, i64 begin, i64 count, DType type, void* data) const
{
    const i64 tensor = impl_->find(name);
    const Shape shape = impl_->source.head(tensor).shape;
    TRV_CHECK(begin >= 0 && count >= 0 && count <= element_count(shape) &&
                  begin <= element_count(shape) - count,
              "tensor '", name, "': ", begin, " + ", count, " of ", element_count(shape));
    auto* to = static_cast<std::byte*>(data);
    for (const Box& box : boxes_of_range(shape, begin, count)) {
        impl_->read(tensor, box, type, to);
        to += element_count(box.shape) * size_of(type);
    }
}

void CheckpointReader::verify(i64 part, i64 parts) const
{
    check(part, parts);
    impl_->source.verify(part, parts);
}

} // namespace trivium
