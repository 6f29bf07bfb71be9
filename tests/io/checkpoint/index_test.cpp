// Large indices: the time to open them, and which parts are read.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/files/damaged.hpp"
#include "io/files/hash.hpp"
#include "io/temporary_folder.hpp"

#include <algorithm>
#include <cstring>

using namespace trivium;

namespace {

/// Tensor i has `pieces` rows, each one a piece.
TensorRecord record_of(i64 i, i64 pieces)
{
    TensorRecord record{"param/layers." + std::to_string(i) + ".w", DType::f32, {pieces, 8}, {}};
    for (i64 p = 0; p < pieces; ++p)
        record.pieces.push_back({p, 0, 32 * i, {{p, 0}, {1, 8}}});
    return record;
}

/// Writes only the lists of an index: HDF5 is slow at making virtual datasets.
IndexPlace write_lists(const std::string& path, i64 tensors, i64 pieces)
{
    std::vector<TensorRecord> records;
    for (i64 i = 0; i < tensors; ++i)
        records.push_back(record_of(i, pieces));
    std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    std::vector<u64> begins, words;
    for (const TensorRecord& record : records) {
        begins.push_back(words.size());
        append(words, record);
    }
    IndexPlace place;
    place.tensors = tensors;
    place.words = static_cast<i64>(words.size());
    place.records_at = 8 * tensors;
    place.bytes = place.records_at + 8 * place.words;
    PlainFile file = PlainFile::open_to_write(path);
    BlockWriter writer(file, 0);
    writer.write(reinterpret_cast<const std::byte*>(begins.data()), 8 * tensors);
    writer.write(reinterpret_cast<const std::byte*>(words.data()), 8 * place.words);
    writer.finish();
    place.blocks = writer.hashes();
    return place;
}

} // namespace

TEST_CASE("an index of a million pieces opens quickly, and a tensor is found without reading the others")
{
    const TemporaryFolder folder;
    for (const auto& [tensors, pieces] : {std::pair<i64, i64>{1000, 1000}, {100000, 10}, {1, 1000000}}) {
        const std::string path = folder / ("index-" + std::to_string(tensors));
        const IndexPlace place = write_lists(path, tensors, pieces);
        const Index index = Index::open(path, place, default_block_bytes);
        i64 found = 0;
        for (i64 i = 0; i < tensors; i += std::max<i64>(1, tensors / 7)) {
            const std::optional<i64> at = index.find(record_of(i, 0).name);
            REQUIRE(at);
            CHECK(index.head(*at).pieces == pieces);
            index.visit_pieces(*at, [&](const StoredPiece& piece) {
                found += piece.offset == 32 * i && piece.box.shape == Shape{1, 8} ? 1 : 0;
            });
        }
        CHECK(found == pieces * ceil_div(tensors, std::max<i64>(1, tensors / 7)));
        CHECK_FALSE(index.find("param/none"));
    }
}

TEST_CASE("an index gathered in several rounds has each tensor once, with all pieces")
{
    const TemporaryFolder folder;
    constexpr i64 tensors = 700;
    constexpr int ranks = 3, each = 50; // more than one round
    IndexPlace place;
    run_on_threads(ranks, [&](Comm& world) {
        std::vector<TensorRecord> own;
        for (i64 i = 0; i < tensors; ++i) {
            TensorRecord record = record_of(i, ranks * each);
            std::erase_if(record.pieces, [&](const StoredPiece& piece) {
                return piece.box.offset[0] % ranks != world.rank();
            });
            own.push_back(record);
        }
        const PieceList list = PieceList::gather(world, own, folder.path());
        if (world.rank() == 0) {
            CHECK(list.size() == tensors);
            place = write_index(folder / "index.h5", list);
        }
    });
    CHECK(names(folder.path()) == std::vector<std::string>{"index.h5"});
    Index index = Index::open(folder / "index.h5", place, default_block_bytes);
    index.verify(0, 1);
    REQUIRE(index.size() == tensors);
    for (i64 i = 0; i < tensors; ++i) {
        const auto at = index.find(record_of(i, 0).name);
        REQUIRE(at);
        std::vector<bool> seen(ranks * each);
        index.visit_pieces(*at, [&](const StoredPiece& piece) {
            seen[static_cast<std::size_t>(piece.box.offset[0])] = true;
        });
        REQUIRE(std::count(seen.begin(), seen.end(), true) == ranks * each);
    }
}

TEST_CASE("reading a tensor whose pieces leave a hole, or overlap, throws DamagedCheckpoint")
{
    const TemporaryFolder folder;
    std::vector<float> values(12, 1.5f);
    const std::string path =
        save_checkpoint(*make_self_comm(), folder.path(), {.step = 1},
                        std::vector{whole_tensor("param/w", {3, 4}, DType::f32, values.data())}, 0);
    const std::string manifest_path = path + "/" + manifest_file, index_path = path + "/" + index_file;
    const Manifest good = parse_manifest(get(manifest_path), path);
    const std::string whole = get(index_path);
    const auto read = [&] {
        return message_of<DamagedCheckpoint>([&] {
            std::vector<float> found(12);
            CheckpointReader::open(path).read(whole_tensor("param/w", {3, 4}, DType::f32, found.data()));
        });
    };
    CHECK(read() == "");
    // Changes the last words of the record, offset [0, 0] and shape [3, 4] of the only piece, and corrects
    // all hashes.
    const auto with_rows = [&](i64 begin, i64 rows) {
        std::string index = whole;
        const i64 box[] = {begin, 0, rows, 4};
        std::memcpy(index.data() + good.index.records_at + 8 * (good.index.words - 4), box, sizeof box);
        put(index_path, index);
        Manifest changed = good;
        changed.index.blocks[0] = hash_block(index.data(), static_cast<Bytes>(index.size()));
        put(manifest_path, print_manifest(changed));
    };
    with_rows(0, 3);
    CHECK(read() == "");
    with_rows(1, 2);
    CHECK(says(read(), "step-00000001", "'param/w'", "hole"));
    CHECK(says(message_of<DamagedCheckpoint>([&] { CheckpointReader::open(path).verify(); }), "param/w"));
}

TEST_CASE("invalid records throw DamagedCheckpoint")
{
    std::vector<u64> words;
    append(words, record_of(3, 4));
    const std::vector<u64> good = words;
    CHECK(parse_records(good, "place").at(0).pieces == record_of(3, 4).pieces);
    for (std::size_t i = 0; i < good.size(); ++i)
        for (const u64 wrong : {u64{0}, u64{1}, u64{7}, u64{1} << 20, u64{1} << 40, u64{1} << 62, ~u64{0}}) {
            words = good;
            words[i] = wrong;
            try {
                for (const TensorRecord& record : parse_records(words, "place"))
                    for (const StoredPiece& piece : record.pieces)
                        REQUIRE(element_count(piece.box.shape) >= 0);
            } catch (const DamagedCheckpoint& error) {
                REQUIRE(has(error.what(), "place"));
            }
        }
    for (std::size_t size = 1; size < good.size(); ++size)
        REQUIRE_THROWS_AS(
            parse_records({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, "place"),
            DamagedCheckpoint);
}
