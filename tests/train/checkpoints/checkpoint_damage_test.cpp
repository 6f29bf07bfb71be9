// Checkpoints that were truncated, changed, mixed up or replaced: an error, or the run resumes from an older
// one. Never a crash, a hang, or tensors other than those that were saved.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/find_resume.hpp"
#include "io/temporary_folder.hpp"
#include "io/tiled_model.hpp"
#include "runtime/device.hpp"
#include "soak_settings.hpp"
#include "train/damage.hpp"
#include "train/guarded.hpp"
#include "train/tiny_run.hpp"

#include <cstdio>
#include <random>

using namespace trivium;
using namespace trivium::damage;
namespace fs = std::filesystem;

namespace {

const bool whole_campaign = soak::whole();

/// A folder with two good checkpoints, of steps 1 and 2, and next to it a checkpoint of the same tensors with
/// other values.
struct Victim {
    std::string name, dir, other;
    std::string newest() const { return dir + "/step-00000002"; }
    std::string older() const { return dir + "/step-00000001"; }
    tiny::Content newest_content{}, older_content{};
};

/// Values are functions of the index; for the other checkpoint, with the bits of the first row inverted.
void save_columns(const std::string& dir, i64 step, bool other)
{
    const Tiling& tiling = tilings()[2]; // 3 ranks
    run_on_threads(3, [&](Comm& world) {
        RankTensors own(tiling, world.rank());
        own.add({"param/large", {300, 50}, DType::f32}, {{100 * world.rank(), 0}, {100, 50}}, DType::f32,
                true);
        own.fill();
        for (const TensorPiece& piece : own.pieces)
            if (auto* byte = static_cast<unsigned char*>(piece.data); other && piece.count() > 0)
                *byte = static_cast<unsigned char>(~*byte);
        RunState state;
        state.step = step;
        state.samples = 3 * step + (other ? 1 : 0);
        state.config = std::string(static_cast<std::size_t>(500 + step), '#');
        save_checkpoint(world, dir, state, own.pieces, 0);
    });
}

/// Three: saved by a run of one rank, by one of three ranks, and tensors sharded by columns.
class Victims {
public:
    Victims() : ground_(folder_.path())
    {
        if (!computes_on_device()) // threads of one process do not share a device
            train("3 ranks", tiny::layouts()[3]);
        train("1 rank", tiny::layouts()[0]);
        Victim columns{"columns of 3 ranks", folder_ / "columns", folder_ / "other-columns/step-00000002"};
        for (const i64 step : {1, 2}) {
            save_columns(columns.dir, step, false);
            save_columns(folder_ / "other-columns", step, true);
        }
        add(columns);
    }

    std::vector<Victim> all;
    const tiny::Ground& ground() const { return ground_; }

private:
    void add(Victim victim)
    {
        victim.newest_content = tiny::content(victim.newest());
        victim.older_content = tiny::content(victim.older());
        all.push_back(std::move(victim));
    }
    void train(const std::string& name, const tiny::Layout& layout)
    {
        RunConfig config = ground_.config({Family::gpt2, true}, Precision::f32, layout, name);
        config.model.layers = 1;
        config.train.steps = 2;
        config.checkpoint.every = 1;
        tiny::train(config);
        Victim victim{name, config.checkpoint.dir, ground_.path("other " + name) + "/step-00000002"};
        config.train.seed = 1;
        config.checkpoint.dir = ground_.path("other " + name);
        config.log.dir += "-other";
        tiny::train(config);
        add(victim);
    }

    TemporaryFolder folder_;
    tiny::Ground ground_;
};

Victims& victims()
{
    static Victims all;
    return all;
}

/// The result of reading a checkpoint: "" for the saved tensors, "wrong: …" for anything else, or the message
/// of the error.
std::string reading(const std::string& path, const tiny::Content& saved)
{
    try {
        const tiny::Content found = tiny::content(path);
        if (!(found.state == saved.state))
            return "wrong: the state";
        const std::string problem = tiny::difference(found, saved);
        return problem.empty() ? "" : "wrong: " + problem;
    } catch (const InternalError& error) {
        return std::string("wrong: ") + error.what();
    } catch (const Error& error) {
        return has(error.what(), "remedy: ") && has(error.what(), fs::path(path).filename())
                   ? error.what()
                   : std::string("wrong: the message: ") + error.what();
    }
}

std::string verifying(const std::string& path)
{
    return message_of<Error>([&] { CheckpointReader::open(path).verify(); });
}

/// "" if a run that searches for a checkpoint gets a correct one.
std::string resuming(const Victim& victim)
{
    CheckpointConfig config;
    config.dir = victim.dir;
    const std::optional<std::string> path = find_resume(*make_self_comm(), config);
    if (const std::string aside = victim.dir + "/.bad-step-00000002"; fs::exists(fs::symlink_status(aside)))
        fs::rename(aside, victim.newest()); // back in its place, for the next damage
    if (!path)
        return "wrong: none";
    if (*path == victim.older())
        return reading(*path, victim.older_content);
    return reading(*path, victim.newest_content); // every byte of it was verified
}

/// For a bad checkpoint: reading gives an error or the saved tensors, and verify reports it as bad.
void check_bad(const Victim& victim, bool with_resume)
{
    const std::string read = reading(victim.newest(), victim.newest_content);
    CHECK_FALSE(read.starts_with("wrong"));
    const std::string verified = verifying(victim.newest());
    CHECK((verified != "" && !verified.starts_with("other: ")));
    if (with_resume)
        CHECK(resuming(victim) == "");
}

} // namespace

TEST_CASE("the checkpoints are good before the damage")
{
    for (const Victim& victim : victims().all) {
        CHECK(reading(victim.newest(), victim.newest_content) == "");
        CHECK(reading(victim.older(), victim.older_content) == "");
        CHECK(reading(victim.newest(), victim.older_content).starts_with("wrong"));
        CHECK(verifying(victim.newest()) == "");
        CHECK(verifying(victim.other) == "");
        CHECK(files_of(victim.newest()).size() >= 3);
    }
}

TEST_CASE("a file that ends early is an error")
{
    std::size_t cuts = 0;
    for (const Victim& victim : victims().all)
        for (const std::string& file : files_of(victim.newest())) {
            const std::string path = victim.newest() + "/" + file, content = get(path);
            std::vector<std::size_t> sizes{0, 1, content.size() - 1};
            for (std::size_t size = 4096; size < content.size(); size += 4096)
                sizes.push_back(size);
            for (const std::size_t size : sizes) {
                INFO(victim.name << ": " << file << " cut to " << size << " of " << content.size());
                fs::resize_file(path, size);
                const std::string read = reading(victim.newest(), victim.newest_content);
                CHECK((read != "" && !read.starts_with("wrong")));
                check_bad(victim, true);
                put(path, content);
                ++cuts;
            }
        }
    for (const Victim& victim : victims().all)
        CHECK(verifying(victim.newest()) == "");
    CHECK(cuts > 50);
}

TEST_CASE("a flipped bit is detected, wherever it is")
{
    std::mt19937_64 random(soak::seed());
    const std::size_t flips = whole_campaign ? 10000 : contracts_on ? 60 : 600;
    const soak::Budget budget(2);
    std::size_t flipped = 0, unread = 0;
    std::map<std::string, std::size_t> by_file;
    while (flipped < flips || (!whole_campaign && budget.left())) {
        const Victim& victim = victims().all[random() % victims().all.size()];
        const std::vector<std::string> files = files_of(victim.newest());
        std::string file = files[random() % files.size()]; // each file alike,
        if (flipped % 2 == 0) {                            // or each byte
            std::size_t at = random() % bytes_of(victim.newest());
            for (const std::string& each : files) {
                const std::size_t size = fs::file_size(victim.newest() + "/" + each);
                file = each;
                if (at < size)
                    break;
                at -= size;
            }
        }
        const std::string path = victim.newest() + "/" + file;
        const std::size_t at = random() % fs::file_size(path);
        const int bit = static_cast<int>(random() % 8);
        INFO(victim.name << ": bit " << bit << " of byte " << at << " of " << fs::file_size(path) << " of "
                         << file);
        flip(path, at, bit);
        check_bad(victim, flipped % 4 == 0);
        unread += reading(victim.newest(), victim.newest_content) == "";
        flip(path, at, bit);
        ++by_file[file];
        ++flipped;
    }
    for (const Victim& victim : victims().all)
        CHECK(verifying(victim.newest()) == "");
    std::printf("%zu bits flipped, %zu without any effect on what is read;", flipped, unread);
    for (const auto& [file, count] : by_file)
        std::printf(" %s %zu", file.c_str(), count);
    std::printf("\n");
}

TEST_CASE("files that are replaced by other files")
{
    for (const Victim& victim : victims().all) {
        const TemporaryFolder folder;
        std::size_t harmful = 0, seen = 0;
        const std::size_t one_in = contracts_on && !whole_campaign ? 3 : 1; // sanitizers take their time
        const auto fresh = [&] {
            fs::remove_all(folder / "c");
            fs::copy(victim.dir, folder / "c", fs::copy_options::recursive);
            Victim copy = victim;
            copy.dir = folder / "c";
            return copy;
        };
        const Victim& layout =
            &victim == &victims().all.back() ? victims().all.front() : victims().all.back();
        for (const Damage& damage : damages(fresh().newest())) {
            if (seen++ % one_in != 0)
                continue;
            const Victim copy = fresh();
            INFO(victim.name << ": " << damage.what);
            damage.make({copy.newest(), copy.older(), victim.other, layout.newest()});
            const bool harmless =
                damage.harmless ||
                same_files(copy.newest(), victim.newest()); // two steps may have the same index
            const std::string read = guarded([&] { return reading(copy.newest(), copy.newest_content); });
            INFO("reading: " << read);
            CHECK_FALSE((read.starts_with("wrong") || read.starts_with("signal") ||
                         read.starts_with("hung") || read.starts_with("took") || read.starts_with("threw")));
            const std::string verified = guarded([&] { return verifying(copy.newest()); });
            INFO("verify: " << verified);
            CHECK((verified == "" || has(verified, "remedy: ")));
            if (!harmless) {
                CHECK(read != "");
                CHECK(verified != "");
            }
            const std::string resumed = guarded([&] { return resuming(copy); });
            CHECK(resumed == "");
            harmful += !harmless;
        }
        CHECK(harmful > 12 / one_in * files_of(victim.newest()).size());
    }
}

TEST_CASE("a run resumes from the older checkpoint if the newest is bad")
{
    if (computes_on_device())
        return;
    const Victim& victim = victims().all[0]; // saved by 3 ranks
    const TemporaryFolder folder;
    std::mt19937_64 random(soak::seed());
    const std::vector<std::string> files = files_of(victim.newest());
    const soak::Budget budget(2);
    const std::size_t runs = whole_campaign ? 300 : contracts_on ? 6 : 24;
    std::size_t done = 0, fell_back = 0;
    for (; done < runs || (!whole_campaign && budget.left()); ++done) {
        fs::remove_all(folder / "c");
        fs::copy(victim.dir, folder / "c", fs::copy_options::recursive);
        const std::string file = files[done % files.size()], path = folder / ("c/step-00000002/" + file);
        const std::size_t size = fs::file_size(path), at = random() % size;
        const bool cut = done % 5 == 4;
        INFO((cut ? "cut" : "flipped") << " at byte " << at << " of " << size << " of " << file);
        if (cut)
            fs::resize_file(path, at);
        else
            flip(path, at, static_cast<int>(random() % 8));
        const tiny::Layout& layout = tiny::layouts()[done % 2 ? 0 : 3];
        RunConfig config = tiny::standing_still(
            victims().ground().config({Family::gpt2, true}, Precision::f32, layout, "unused"));
        config.model.layers = 1;
        config.checkpoint.dir = folder / "c";
        config.log.dir = folder / "log";
        REQUIRE_NOTHROW(tiny::train(config));
        const std::string newest = list_checkpoints(folder / "c").front();
        const tiny::Content content = tiny::content(folder / ("c/" + newest));
        const bool older = content.state.step == 2;
        fell_back += older;
        CHECK(tiny::difference(content, older ? victim.older_content : victim.newest_content) == "");
        CHECK(content.state.samples == (older ? 24 : 36));
        CHECK(fs::exists(folder / "c/.bad-step-00000002") == older);
        fs::remove_all(folder / "log");
    }
    CHECK(fell_back * 2 > done);
    std::printf("%zu of %zu runs went on from the older checkpoint\n", fell_back, done);
}
