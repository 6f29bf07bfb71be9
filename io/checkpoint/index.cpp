#include "io/checkpoint/index.hpp"

#include "base/check.hpp"
#include "io/checkpoint/box.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/shard.hpp"
#include "io/files/damaged.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/files/hdf5.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <map>

namespace trivium {

namespace {

constexpr i64 pieces_in_round = 1 << 16;
constexpr i64 words_at_once = 1 << 16;

/// Adds one rank's pieces of a tensor to those of other ranks.
void merge(std::map<std::string, TensorRecord>& records, TensorRecord&& part)
{
    const auto [at, is_new] = records.try_emplace(part.name, part);
    if (is_new)
        return;
    TensorRecord& record = at->second;
    TRV_CHECK(record.type == part.type && record.shape == part.shape, "tensor '", record.name, "' is ",
              name_of(record.type), " ", print_shape(record.shape), " on one rank, ", name_of(part.type), " ",
              print_shape(part.shape), " on another");
    record.pieces.insert(record.pieces.end(), part.pieces.begin(), part.pieces.end());
}

void require_tiling(const TensorRecord& record)
{
    std::vector<Box> boxes;
    for (const StoredPiece& piece : record.pieces) {
        TRV_CHECK(is_inside(piece.box, record.shape), "tensor '", record.name, "' of shape ",
                  print_shape(record.shape), " has a piece ", print_box(piece.box));
        boxes.push_back(piece.box);
    }
    const std::string fault = tiling_fault(record.shape, boxes);
    TRV_CHECK(fault.empty(), "tensor '", record.name, "' ", fault);
}

} // namespace

PieceList PieceList::gather(Comm& world, const std::vector<TensorRecord>& own, const std::string& folder)
{
    const auto in_round = [](const TensorRecord& record, i64 rounds) {
        return static_cast<i64>(hash_bytes(record.name) % static_cast<u64>(rounds));
    };
    i64 own_pieces = 0, all_pieces = 0;
    for (const TensorRecord& record : own)
        own_pieces +=
            std::max<i64>(1, static_cast<i64>(record.pieces.size())); // a record without pieces counts
    for (const i64 each : gather_records(world, own_pieces))
        all_pieces += each;
    const i64 rounds = 1 + all_pieces / pieces_in_round;
    PieceList list;
    succeed_together(world, [&] {
        if (world.rank() == 0)
            list.file_.emplace(PlainFile::temporary(folder));
    });
    for (i64 round = 0; round < rounds; ++round) {
        std::vector<u64> words;
        for (const TensorRecord& record : own)
            if (in_round(record, rounds) == round)
                append(words, record);
        const std::vector<std::vector<u64>> parts = gather_records_to_first(world, words);
        succeed_together(world, [&] {
            if (world.rank() != 0)
                return;
            std::map<std::string, TensorRecord> records;
            for (const std::vector<u64>& part : parts)
                for (TensorRecord& record : parse_records(part, "the pieces of a rank"))
                    merge(records, std::move(record));
            for (const auto& [name, record] : records) {
                require_tiling(record);
                list.add(record);
            }
        });
    }
    std::ranges::sort(list.entries_, [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return list;
}

void PieceList::add(const TensorRecord& record)
{
    std::vector<u64> words;
    append(words, record);
    const auto count = static_cast<i64>(words.size());
    file_->write(words_ * 8, words.data(), count * 8);
    entries_.push_back({record.name, words_, count, hash_block(words.data(), count * 8)});
    words_ += count;
}

void PieceList::visit(const std::function<void(const TensorRecord&)>& call) const
{
    for (const Entry& entry : entries_) {
        std::vector<u64> words(static_cast<std::size_t>(entry.count));
        file_->read(entry.begin * 8, words.data(), entry.count * 8);
        if (hash_block(words.data(), entry.count * 8) != entry.hash)
            throw IoError({file_->path(), "does not contain the bytes that were written",
                           "the disk of checkpoint.dir was full, or it is failing",
                           "free some space or use another disk, then start again"});
        call(parse_records(words, file_->path()).at(0));
    }
}

namespace {

/// Writes the lists and the virtual datasets. Datasets are closed at the end, so that the file can be closed.
void fill_index(h5::File& file, const PieceList& pieces, IndexPlace& place)
{
    h5::Dataset tensors = file.create_dataset(
        "index/tensors", DType::u64, {std::max<i64>(1, place.tensors)}); // an empty dataset has no offset
    h5::Dataset records = file.create_dataset("index/records", DType::u64, {std::max<i64>(1, place.words)});
    place.tensors_at = tensors.file_offset();
    place.records_at = records.file_offset();
    std::vector<u64> begins, words;
    i64 written = 0;
    const auto flush = [&] {
        records.write(written, static_cast<i64>(words.size()), DType::u64, words.data());
        written += static_cast<i64>(words.size());
        words.clear();
    };
    pieces.visit([&](const TensorRecord& record) {
        begins.push_back(static_cast<u64>(written) + words.size());
        append(words, record);
        if (static_cast<i64>(words.size()) >= words_at_once)
            flush();
        std::vector<h5::VirtualSource> sources;
        for (const StoredPiece& piece : record.pieces)
            sources.push_back({shard_file(piece.shard), dataset_name(record.name, piece.number), piece.box});
        file.create_virtual(record.name, record.type, record.shape, sources);
    });
    flush();
    tensors.write(0, place.tensors, DType::u64, begins.data());
}

} // namespace

IndexPlace write_index(const std::string& path, const PieceList& pieces)
{
    IndexPlace place;
    place.tensors = pieces.size();
    place.words = pieces.words();
    h5::File file = h5::File::create(path);
    file.set("format", str(checkpoint_kind, " index"));
    file.set("version", checkpoint_version);
    fill_index(file, pieces, place);
    file.close();
    sync_path(path);
    const PlainFile written = PlainFile::open(path, "index");
    place.bytes = written.size();
    std::vector<std::byte> block(static_cast<std::size_t>(default_block_bytes));
    for (Bytes at = 0; at < place.bytes; at += default_block_bytes) {
        const Bytes size = std::min(default_block_bytes, place.bytes - at);
        written.read(at, block.data(), size);
        place.blocks.push_back(hash_block(block.data(), size));
    }
    return place;
}

Index::Index(BlockReader file, const IndexPlace& place, std::string path)
    : file_(std::make_unique<BlockReader>(std::move(file))), place_(place), path_(std::move(path))
{
}

Index Index::open(const std::string& path, const IndexPlace& place, Bytes block_bytes)
{
    return {BlockReader(open_stored(path, place.bytes), 0, place.bytes, place.blocks, block_bytes), place,
            path};
}

i64 Index::begin_of(i64 tensor) const
{
    u64 begin = 0;
    file_->read(place_.tensors_at + tensor * 8, &begin, 8);
    if (begin >= static_cast<u64>(place_.words))
        throw DamagedCheckpoint(path_, str("tensor ", tensor, " begins after the last"));
    return static_cast<i64>(begin);
}

void Index::read_words(i64 begin, i64 count, u64* to) const
{
    file_->read(place_.records_at + begin * 8, to, count * 8);
}

TensorHead Index::head(i64 tensor) const
{
    return read_head([&](i64 begin, i64 count, u64* to) { read_words(begin, count, to); }, begin_of(tensor),
                     place_.words, path_);
}

std::optional<i64> Index::find(const std::string& name) const
{
    i64 from = 0, to = size();
    while (from < to) {
        const i64 middle = from + (to - from) / 2;
        const int order = head(middle).name.compare(name);
        if (order == 0)
            return middle;
        (order < 0 ? from : to) = order < 0 ? middle + 1 : middle;
    }
    return std::nullopt;
}

void Index::visit_pieces(i64 tensor, const std::function<void(const StoredPiece&)>& call) const
{
    const TensorHead h = head(tensor);
    const i64 each = words_of_piece(static_cast<i64>(h.shape.size())), at_once = words_at_once / each;
    std::vector<u64> words;
    for (i64 done = 0; done < h.pieces; done += at_once) {
        const i64 count = std::min(at_once, h.pieces - done);
        words.resize(static_cast<std::size_t>(count * each));
        read_words(begin_of(tensor) + h.words + done * each, count * each, words.data());
        for (i64 i = 0; i < count; ++i)
            call(parse_piece(words.data() + i * each, h, path_));
    }
}

} // namespace trivium
