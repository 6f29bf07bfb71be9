#include "io/arrays/array_file.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "io/arrays/array_header.hpp"
#include "io/arrays/convert.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/files/in_child.hpp"
#include "io/files/seal.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace trivium {

namespace {

/// Read at a time: small enough for the cache, in which the numbers are converted.
constexpr Bytes most_at_once = Bytes{256} << 10;
/// Runs of a box with smaller gaps are read together.
constexpr Bytes smallest_gap = Bytes{16} << 10;

std::string place_text(const Shape& shape, i64 index)
{
    std::vector<i64> at(shape.size());
    for (std::size_t d = shape.size(); d-- > 0; index /= shape[d])
        at[d] = index % shape[d];
    std::string text;
    for (const i64 each : at)
        text += str(text.empty() ? "" : ", ", each);
    return "[" + text + "]";
}

} // namespace

bool holds_arrays(const std::string& path)
{
    std::string begin(16, '\0');
    const PlainFile file = PlainFile::open(path, "data file", PlainFile::Links::follow);
    begin.resize(static_cast<std::size_t>(std::min<Bytes>(16, file.size())));
    file.read(0, begin.data(), static_cast<Bytes>(begin.size()));
    return begin.starts_with(str(array_file_kind, "\n")) || begin.starts_with("\x89HDF\r\n\x1a\n");
}

struct ArrayFile::Impl : ArrayHeader {
    std::optional<OccasionalFile> file;

    /// Not from a mapping, which ends the process if the file is truncated.
    void read_bytes(Bytes at, Bytes count, void* to) const
    {
        const std::shared_ptr<const PlainFile> opened = file->open();
        if (const Bytes now = opened->size(); now < at + count)
            damaged(str("now ends after ", now, " bytes: something has truncated it since it was opened"));
        opened->read(at, to, count);
    }

    [[noreturn]] void wrong_hash(const StoredArray& array, Bytes begin, Bytes count) const
    {
        const Bytes width = size_of(array.type);
        const i64 per_sample = std::max<i64>(1, array.elements());
        damaged(str("its ", dataset_name(array), " differs from what was written between sample ",
                    begin / width / per_sample, " and sample ", ((begin + count) / width - 1) / per_sample,
                    " (the hash differs)"));
    }

    /// Verifies the blocks of bytes [begin, begin + count) of an array that were not verified before.
    void verify_blocks(std::size_t a, Bytes begin, Bytes count) const
    {
        const Source& source = sources[a];
        if (!source.checked)
            return;
        const Bytes size = source.hashes.block_bytes, all = arrays[a].samples * arrays[a].sample_bytes();
        std::vector<std::byte> block;
        for (i64 b = begin / size; b * size < begin + count; ++b) {
            std::atomic<bool>& known = source.checked[static_cast<std::size_t>(b)];
            if (known.load(std::memory_order_relaxed))
                continue;
            const Bytes bytes_of_block = std::min(size, all - b * size);
            block.resize(static_cast<std::size_t>(bytes_of_block));
            read_bytes(source.at + b * size, bytes_of_block, block.data());
            if (!source.hashes.fits(b, block.data(), bytes_of_block))
                wrong_hash(arrays[a], b * size, bytes_of_block);
            known.store(true, std::memory_order_relaxed);
            Activity::of_process().advance();
        }
    }

    /// The runs of a box of a sample, those near each other as one span: visit(first element in the sample,
    /// elements of the span, runs). A run is not longer than most_at_once.
    struct Run {
        i64 in_sample, in_box, count;
    };
    template <class Visit>
    void for_each_span(const StoredArray& array, const Box& box, Visit&& visit) const
    {
        const i64 width = size_of(array.type), most = most_at_once / width, gap = smallest_gap / width;
        std::vector<Run> runs;
        const auto flush = [&] {
            if (!runs.empty())
                visit(runs.front().in_sample,
                      runs.back().in_sample + runs.back().count - runs.front().in_sample, runs);
            runs.clear();
        };
        for_each_run(array.shape, box, [&](i64 in_sample, i64 in_box, i64 count) {
            while (count > 0) {
                const i64 piece = std::min(count, most);
                if (!runs.empty() && (in_sample + piece - runs.front().in_sample > most ||
                                      in_sample - runs.back().in_sample - runs.back().count > gap))
                    flush();
                runs.push_back({in_sample, in_box, piece});
                in_sample += piece;
                in_box += piece;
                count -= piece;
            }
        });
        flush();
    }
};

ArrayFile::ArrayFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ArrayFile::ArrayFile(ArrayFile&&) noexcept = default;
ArrayFile& ArrayFile::operator=(ArrayFile&&) noexcept = default;
ArrayFile::~ArrayFile() = default;

ArrayFile ArrayFile::open(const std::string& path, std::shared_ptr<OpenFiles> group)
{
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    impl->bytes = file_size(path, "file of arrays");
    if (impl->bytes == 0)
        throw UserError({path, "is empty", "", make_arrays_again});
    if (!holds_arrays(path))
        throw UserError({path, "is not a file of arrays", "it does not begin like an HDF5 file",
                         "name an HDF5 file with a dataset per array; `trivium data arrays` makes one of "
                         "NumPy files"});
    impl->file.emplace(std::move(group), path, "file of arrays");
    std::string begin(static_cast<std::size_t>(std::string_view(array_file_kind).size()), '\0');
    impl->read_bytes(0, static_cast<Bytes>(begin.size()), begin.data());
    if (begin == array_file_kind)
        check_seal(path, {array_file_kind, array_file_version, make_arrays_again,
                          "make it again with `trivium data arrays`"});
    // The seal finds accidents; other files have none, and may crash HDF5.
    try_in_child(path, [&] {
        impl->read_header();
        impl->try_chunks();
    });
    impl->read_header();
    if (impl->arrays.empty())
        throw UserError({path, "has no arrays",
                         "no dataset outside of groups has numbers and a dimension for the samples",
                         "write one dataset per array, or use `trivium data arrays`"});
    return ArrayFile(std::move(impl));
}

const std::string& ArrayFile::path() const { return impl_->path; }
const std::vector<StoredArray>& ArrayFile::arrays() const { return impl_->arrays; }
const std::vector<std::string>& ArrayFile::left_out() const { return impl_->left_out; }

std::size_t ArrayFile::find(const std::string& name) const
{
    return static_cast<std::size_t>(std::ranges::find(impl_->arrays, name, &StoredArray::name) -
                                    impl_->arrays.begin());
}

void ArrayFile::refuse_number(std::size_t a, i64 sample, i64 index, double number, DType to) const
{
    const StoredArray& array = impl_->arrays[a];
    const std::string what = std::isnan(number)   ? "NaN"
                             : std::isinf(number) ? str(number > 0 ? "" : "minus ", "infinity")
                                                  : str(number, ", which does not fit ", name_of(to));
    throw UserError({impl_->path,
                     str("its dataset '", array.name, "' has ", what, " in sample ", sample, " at ",
                         place_text(array.shape, index)),
                     is_floating(to) ? "a gradient of it would be no number" : "it is read as whole numbers",
                     "correct or leave out such samples; `trivium data verify` lists them"});
}

void ArrayFile::read(std::size_t a, i64 sample, const Box& box, DType to, void* out) const
{
    const Impl& impl = *impl_;
    const StoredArray& array = impl.arrays[a];
    TRV_CHECK(sample >= 0 && sample < array.samples && box.shape.size() == array.shape.size(), impl.path,
              ": sample ", sample, " of ", array.samples);
    const Conversion conversion{array.type, to, array.scale, array.offset};
    const Bytes width = size_of(array.type);
    const auto place_in_box = [out, to](i64 element) {
        return static_cast<std::byte*>(out) + element * size_of(to);
    };
    // Converts elements of the box; `in_sample`: the first.
    const auto take = [&](const void* stored, i64 in_box, i64 count, const auto& in_sample) {
        void* const at = place_in_box(in_box);
        const i64 good =
            stored == at ? first_not_finite(to, at, count) : convert(conversion, stored, count, at);
        if (good < count)
            refuse_number(a, sample, in_sample(good),
                          number_at(array.type, stored, good) * array.scale + array.offset, to);
    };
    const Impl::Source& source = impl.sources[a];
    std::vector<std::byte> buffer;
    if (!array.in_place) {
        const i64 count = element_count(box.shape);
        if (!conversion.copies())
            buffer.resize(static_cast<std::size_t>(count * width));
        void* const stored = conversion.copies() ? out : buffer.data();
        impl.read_samples(a, sample, 1, box, stored);
        take(stored, 0, count, [&](i64 in_box) {
            i64 found = 0;
            for_each_run(array.shape, box, [&](i64 in_sample, i64 first, i64 run) {
                if (in_box >= first && in_box < first + run)
                    found = in_sample + in_box - first;
            });
            return found;
        });
        return;
    }
    impl.for_each_span(array, box, [&](i64 first, i64 count, const std::vector<Impl::Run>& runs) {
        const Bytes begin = sample * array.sample_bytes() + first * width;
        impl.verify_blocks(a, begin, count * width);
        const bool direct = runs.size() == 1 && conversion.copies();
        if (const auto needed = static_cast<std::size_t>(count * width); !direct && buffer.size() < needed)
            buffer.resize(needed);
        std::byte* const stored = direct ? place_in_box(runs.front().in_box) : buffer.data();
        impl.read_bytes(source.at + begin, count * width, stored);
        for (const Impl::Run& run : runs)
            take(stored + (run.in_sample - first) * width, run.in_box, run.count,
                 [&](i64 index) { return run.in_sample + index; });
    });
}

void ArrayFile::will_read(std::size_t a, i64 sample, const Box& box) const
{
    const StoredArray& array = impl_->arrays[a];
    if (!array.in_place)
        return;
    const std::shared_ptr<const PlainFile> file = impl_->file->open();
    const Bytes width = size_of(array.type), begin = impl_->sources[a].at + sample * array.sample_bytes();
    Bytes from = 0, to = 0; // neighbouring spans are one request
    const auto request = [&] {
        if (to > from)
            file->will_read(begin + from, to - from);
    };
    impl_->for_each_span(array, box, [&](i64 first, i64 count, const auto&) {
        if (first * width > to + smallest_gap) {
            request();
            from = first * width;
        }
        to = (first + count) * width;
    });
    request();
}

i64 ArrayFile::pieces(std::size_t a) const
{
    const StoredArray& array = impl_->arrays[a];
    return array.in_place ? ceil_div(array.samples * array.sample_bytes(), impl_->sources[a].piece_bytes())
                          : ceil_div(array.samples, impl_->sources[a].group);
}

void ArrayFile::scan(std::size_t a, const Visit& visit, i64 part, i64 parts) const
{
    const StoredArray& array = impl_->arrays[a];
    const Impl::Source& source = impl_->sources[a];
    if (!array.defect.empty())
        impl_->damaged(str("its ", impl_->dataset_name(array), " ", array.defect));
    const Bytes width = size_of(array.type), all = array.samples * array.sample_bytes();
    std::vector<std::byte> buffer;
    if (array.in_place) {
        const Bytes size = source.piece_bytes();
        for (i64 block = part; block * size < all; block += parts) {
            const Bytes count = std::min(size, all - block * size);
            buffer.resize(static_cast<std::size_t>(count));
            impl_->read_bytes(source.at + block * size, count, buffer.data());
            if (array.hashed && !source.hashes.fits(block, buffer.data(), count))
                impl_->wrong_hash(array, block * size, count);
            visit(block * size / width, count / width, buffer.data());
            Activity::of_process().advance();
        }
        return;
    }
    BlockHasher hasher(source.piece_bytes());
    const Box whole{Shape(array.shape.size(), 0), array.shape};
    for (i64 group = part; group * source.group < array.samples; group += parts) {
        const i64 first = group * source.group, count = std::min(source.group, array.samples - first);
        buffer.resize(static_cast<std::size_t>(count * array.sample_bytes()));
        impl_->read_samples(a, first, count, whole, buffer.data());
        if (array.hashed && parts == 1)
            hasher.add(buffer.data(), static_cast<Bytes>(buffer.size()));
        visit(first * array.elements(), count * array.elements(), buffer.data());
        Activity::of_process().advance();
    }
    if (!array.hashed || parts > 1)
        return;
    const std::vector<u64>& found = hasher.finish();
    const auto [wrong, expected] = std::ranges::mismatch(found, source.hashes.values);
    if (wrong != found.end())
        impl_->wrong_hash(
            array, (wrong - found.begin()) * source.hashes.block_bytes,
            std::min(source.hashes.block_bytes, all - (wrong - found.begin()) * source.hashes.block_bytes));
}

void ArrayFile::verify(std::size_t a, i64 part, i64 parts) const
{
    const StoredArray& array = impl_->arrays[a];
    const auto check = [&](i64 first, i64 count, const void* stored) {
        if (const i64 good = first_not_finite(array.type, stored, count); good < count)
            refuse_number(a, (first + good) / array.elements(), (first + good) % array.elements(),
                          number_at(array.type, stored, good), array.type);
    };
    scan(a, check, part, parts);
}

u64 ArrayFile::hash(std::size_t a) const
{
    const StoredArray& array = impl_->arrays[a];
    const Impl::Source& source = impl_->sources[a];
    if (array.hashed)
        return hash_of_hashes(source.hashes.values);
    // The numbers up to 64 MiB; beyond, as many pieces as that; a few at least.
    const i64 count = pieces(a);
    const Bytes piece = array.samples * array.sample_bytes() / std::max<i64>(1, count);
    const i64 taken = std::min(count, std::clamp<i64>((Bytes{64} << 20) / std::max<Bytes>(1, piece), 8, 256));
    std::vector<u64> hashes;
    for (i64 i = 0; i < taken; ++i) {
        scan(
            a,
            [&](i64, i64 numbers, const void* stored) {
                hashes.push_back(hash_block(stored, numbers * size_of(array.type)));
            },
            spread_index(i, taken, count), count);
    }
    return hash_of_hashes(hashes);
}

} // namespace trivium
