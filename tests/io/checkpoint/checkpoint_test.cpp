#include "base/check.hpp"
#include "base/log.hpp"
#include "catch.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/config_file.hpp"
#include "io/find_resume.hpp"
#include "io/temporary_folder.hpp"

#include <chrono>
#include <csignal>
#include <numeric>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace trivium;

namespace {

/// Several tensors with values that depend on `base`.
struct Model {
    explicit Model(float base = 0) : wq(6 * 4), norm(4), exact(24)
    {
        std::iota(wq.begin(), wq.end(), base);
        std::iota(norm.begin(), norm.end(), base + 100);
        for (std::size_t i = 0; i < exact.size(); ++i)
            exact[i] = 0.1 * double(i) + double(base);
    }
    std::vector<TensorPiece> views()
    {
        return {whole_tensor("param/blocks.0.wq", {6, 4}, DType::f32, wq.data()),
                whole_tensor("param/norm", {4}, DType::f32, norm.data()),
                whole_tensor("adam_m/blocks.0.wq", {2, 3, 4}, DType::f64, exact.data()),
                whole_tensor("param/scalar", {}, DType::f32, norm.data())};
    }
    bool operator==(const Model&) const = default;
    std::vector<float> wq, norm;
    std::vector<double> exact;
};

RunState state_at(i64 step)
{
    return {step,
            step - 1,
            step * 8,
            step * 1024,
            7,
            to_toml(RunConfig{}),
            "0.1.0 (test)",
            "bytes",
            "data 1",
            1,
            "generic CPU core",
            "0123456789abcdef"};
}

std::string save(const std::string& dir, i64 step, i64 keep = 0)
{
    Model model(static_cast<float>(step));
    const auto views = model.views();
    return save_checkpoint(*make_self_comm(), dir, state_at(step), views, keep);
}

/// The checkpoint from which a run would resume.
std::optional<std::string> find(const CheckpointConfig& config)
{
    return find_resume(*make_self_comm(), config);
}

void load(const std::string& path)
{
    Model model;
    const CheckpointReader reader = CheckpointReader::open(path);
    reader.check();
    for (const TensorPiece& view : model.views())
        reader.read(view);
}

std::string checkpoint_error(const std::string& path)
{
    return message_of<UserError>([&] { load(path); });
}

/// A changed space character in JSON is harmless.
bool only_spaces_differ(std::string a, std::string b)
{
    const auto without = [](std::string& text) {
        std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; });
    };
    without(a);
    without(b);
    return a == b;
}

void flip(const std::string& path, std::size_t at)
{
    std::string content = get(path);
    content[at] = static_cast<char>(content[at] ^ 1);
    put(path, content);
}

} // namespace

TEST_CASE("a checkpoint restores tensors and run state, bit for bit")
{
    const TemporaryFolder folder;
    const std::string path = save(folder / "ckpt", 100);
    CHECK(path == folder / "ckpt/step-00000100");
    CHECK(names(folder / "ckpt") == std::vector<std::string>{"latest", "step-00000100"});
    CHECK(names(path) == std::vector<std::string>{"index.h5", "manifest.json", "shard-00000.h5"});
    CHECK(get(folder / "ckpt/latest") == "step-00000100\n");
    const CheckpointReader reader = CheckpointReader::open(path);
    CHECK(reader.state() == state_at(100));
    CHECK(reader.bytes() == i64(std::filesystem::file_size(path + "/index.h5") +
                                std::filesystem::file_size(path + "/shard-00000.h5")));
    CHECK(reader.version() == 1);
    CHECK(reader.shards() == 1);
    REQUIRE(reader.tensors().size() == 4);
    CHECK(reader.tensors()[0].name == "adam_m/blocks.0.wq");
    CHECK(reader.tensors()[0].type == DType::f64);
    CHECK(reader.tensors()[1].shape == std::vector<i64>{6, 4});
    CHECK(reader.has("param/norm"));
    CHECK_FALSE(reader.has("param/none"));
    Model loaded;
    for (const TensorPiece& view : loaded.views())
        if (!view.whole.empty())
            reader.read(view);
    CHECK(loaded == Model(100));
    float scalar = 0;
    reader.read(whole_tensor("param/scalar", {}, DType::f32, &scalar));
    CHECK(scalar == 200);
}

TEST_CASE("any range of a tensor can be read, and types are converted")
{
    const TemporaryFolder folder;
    const CheckpointReader reader = CheckpointReader::open(save(folder.path(), 3));
    const Model model(3);
    for (i64 begin = 0; begin <= 24; ++begin)
        for (i64 count = 0; begin + count <= 24; ++count) {
            std::vector<double> exact(std::size_t(count) + 1, -1);
            std::vector<float> narrow(std::size_t(count) + 1, -1);
            reader.read("adam_m/blocks.0.wq", begin, count, DType::f64, exact.data());
            reader.read("adam_m/blocks.0.wq", begin, count, DType::f32, narrow.data());
            for (i64 i = 0; i < count; ++i) {
                REQUIRE(exact[std::size_t(i)] == model.exact[std::size_t(begin + i)]);
                REQUIRE(narrow[std::size_t(i)] == float(model.exact[std::size_t(begin + i)]));
            }
            REQUIRE(exact.back() == -1); // nothing past the range
        }
}

TEST_CASE("old checkpoints are removed; the new one and other files stay")
{
    const TemporaryFolder folder;
    put(folder / "notes.txt", "mine");
    std::filesystem::create_directories(folder / ".tmp-step-00000001"); // left by a killed run
    for (const i64 step : {10, 20, 30, 40})
        save(folder.path(), step, 2);
    CHECK(list_checkpoints(folder.path()) == std::vector<std::string>{"step-00000040", "step-00000030"});
    CHECK(names(folder.path()) ==
          std::vector<std::string>{"latest", "notes.txt", "step-00000030", "step-00000040"});
    save(folder.path(), 40, 2); // the same step again
    CHECK(list_checkpoints(folder.path()).size() == 2);
    save(folder.path(), 5, 1); // after a roll-back, the checkpoint just written stays
    CHECK(list_checkpoints(folder.path()) == std::vector<std::string>{"step-00000005"});
    save(folder.path(), 123456789, 0);
    CHECK(list_checkpoints(folder.path()).front() == "step-123456789");
    CHECK(list_checkpoints(folder / "none").empty());
}

TEST_CASE("the error for a checkpoint of another model names the tensor")
{
    const TemporaryFolder folder;
    const CheckpointReader reader = CheckpointReader::open(save(folder.path(), 1));
    std::vector<float> data(100);
    const auto of = [&](const std::string& name, const std::vector<i64>& shape) {
        return message_of<UserError>(
            [&] { reader.read(whole_tensor(name, shape, DType::f32, data.data())); });
    };
    CHECK(says(of("param/blocks.1.wq", {6, 4}), "step-00000001", "no tensor 'param/blocks.1.wq'",
               "'param/blocks.0.wq'"));
    CHECK(says(of("param/blocks.0.wq", {4, 6}), "step-00000001", "shape [6, 4]", "needs [4, 6]",
               "another model"));
    CHECK(says(of("param/blocks.0.wq", {24}), "needs [24]"));
}

TEST_CASE("damage anywhere in a checkpoint is an error")
{
    const TemporaryFolder folder;
    const std::string path = save(folder.path(), 1);
    for (const std::string name : {"index.h5", "shard-00000.h5"}) {
        const std::string file = path + "/" + name, whole = get(file);
        for (const std::size_t size :
             {std::size_t{0}, std::size_t{7}, whole.size() / 3, whole.size() / 2, whole.size() - 1}) {
            put(file, whole.substr(0, size));
            CHECK(says(checkpoint_error(path), "step-00000001", name, "truncated"));
        }
        for (std::size_t at = 0; at < whole.size(); at += 97) {
            put(file, whole);
            flip(file, at);
            CHECK(says(checkpoint_error(path), "step-00000001", name, "hash"));
            CHECK(says(message_of<UserError>([&] { CheckpointReader::open(path).verify(); }), name, "hash"));
        }
        put(file, whole);
        std::filesystem::remove(file);
        CHECK(says(checkpoint_error(path), name));
        put(file, whole);
    }
    CHECK(checkpoint_error(path) == "");
    const std::string manifest = path + "/manifest.json", whole = get(manifest);
    for (std::size_t at = 0; at < whole.size(); ++at)
        for (const int bit : {1, 2, 16}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ bit);
            put(manifest, damaged);
            const std::string message = checkpoint_error(path);
            INFO(at << ": " << message);
            CHECK((message.empty() ? only_spaces_differ(damaged, whole) : says(message, "step-00000001")));
        }
    for (const std::string& text :
         {std::string(), whole.substr(0, 30), std::string("[]"), std::string("{}"),
          std::string("{\"format\":\"trivium checkpoint\",\"version\":1,\"step\":1,\"files\":[]}")}) {
        put(manifest, text);
        CHECK(says(checkpoint_error(path), "step-00000001", "manifest"));
    }
    std::filesystem::remove(manifest);
    CHECK(says(checkpoint_error(path), "not a complete checkpoint"));
    CHECK(says(checkpoint_error(folder / "step-00000002"), "no such checkpoint"));
}

TEST_CASE("a run resumes from the newest undamaged checkpoint")
{
    set_log_level(LogLevel::quiet);
    const TemporaryFolder folder;
    const std::string dir = folder / "c";
    CheckpointConfig config;
    config.dir = dir;
    CHECK_FALSE(find(config)); // no folder yet
    save(dir, 9);
    save(dir, 10);
    save(dir, 100000000);
    CHECK(find(config) == dir + "/step-100000000");
    flip(dir + "/step-100000000/index.h5", 2000);
    CHECK(find(config) == dir + "/step-00000010");
    std::filesystem::remove(dir + "/step-00000010/manifest.json");
    CHECK(find(config) == dir + "/step-00000009");
    config.resume = dir + "/step-00000009";
    CHECK(find(config) == config.resume);
    config.resume = dir;
    CHECK(find(config) == dir + "/step-00000009");
    config.resume = dir + "/step-00000010";
    CHECK(says(message_of<UserError>([&] { find(config); }), "step-00000010"));
    config.resume = "/nowhere/at/all";
    CHECK(says(message_of<UserError>([&] { find(config); }), "/nowhere/at/all", "no such checkpoint"));
    config.resume = "auto";
    flip(dir + "/step-00000009/index.h5", 2000);
    CHECK(says(message_of<UserError>([&] { find(config); }), "every checkpoint in it is bad", "never"));
    config.resume = "never";
    CHECK_FALSE(find(config));
    set_log_level(LogLevel::info);
}

TEST_CASE("a failed save leaves older checkpoints unchanged")
{
    const TemporaryFolder folder;
    put(folder / "file", "x");
    CHECK(says(message_of<UserError>([&] { save(folder / "file/c", 1); }), "file/c"));
    save(folder.path(), 1);
    // The same tensor twice: detected when everything else is written.
    Model model;
    std::vector<TensorPiece> views = model.views();
    views.push_back(views[0]);
    CHECK(has(message_of<InternalError>(
                  [&] { save_checkpoint(*make_self_comm(), folder.path(), state_at(2), views, 1); }),
              "param/blocks.0.wq"));
    CHECK(names(folder.path()) == std::vector<std::string>{"file", "latest", "step-00000001"});
    CHECK(get(folder / "latest") == "step-00000001\n");
}

TEST_CASE("after a kill during a save, the newest checkpoint is undamaged")
{
    set_log_level(LogLevel::quiet);
    const TemporaryFolder folder;
    CheckpointConfig config;
    config.dir = folder / "c";
    std::mt19937 draw(3);
    const auto begin = std::chrono::steady_clock::now();
    i64 last = save(config.dir, 1) == config.dir + "/step-00000001" ? 1 : 0;
    const double one_save =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    int killed_inside = 0;
    for (int round = 0; round < 25 || ((last == 1 || killed_inside == 0) && round < 500);
         ++round) { // also on a slow machine
        const pid_t child = ::fork();
        if (child == 0) {
            try {
                for (i64 step = last + 1;; ++step)
                    save(config.dir, step, 1);
            } catch (...) {
                ::_exit(1);
            }
        }
        ::usleep(static_cast<useconds_t>(2000 + one_save * static_cast<double>(draw() % 400) /
                                                    100)); // as long as several saves
        ::kill(child, SIGKILL);
        int status = 0;
        ::waitpid(child, &status, 0);
        REQUIRE(WIFSIGNALED(status)); // no save has failed
        for (const std::string& name : names(config.dir))
            killed_inside += name.starts_with(".tmp-") || name.starts_with(".old-");
        const std::optional<std::string> path = find(config);
        REQUIRE(path);
        REQUIRE(*path == config.dir + "/" + list_checkpoints(config.dir).front());
        const CheckpointReader reader = CheckpointReader::open(*path);
        Model loaded;
        for (const TensorPiece& piece : loaded.views())
            if (!piece.whole.empty())
                reader.read(piece);
        REQUIRE(reader.state().step >= last);
        last = reader.state().step;
        REQUIRE(loaded == Model(static_cast<float>(last)));
    }
    CHECK(last > 1);
    CHECK(killed_inside > 0); // otherwise the test has no effect
    set_log_level(LogLevel::info);
}

TEST_CASE("superseded checkpoints are kept, however often a run starts again")
{
    set_log_level(LogLevel::quiet);
    const TemporaryFolder folder;
    save(folder.path(), 1);
    save(folder.path(), 4);
    supersede_checkpoints(folder.path(), 2);
    CHECK(get(folder / "latest") == "step-00000001\n");
    save(folder.path(), 4);
    supersede_checkpoints(folder.path(), 2);
    CHECK(names(folder.path()) == std::vector<std::string>{".superseded-step-00000004",
                                                           ".superseded-step-00000004.2", "latest",
                                                           "step-00000001"});
    supersede_checkpoints(folder.path(), 0);
    CHECK(list_checkpoints(folder.path()).empty());
    CHECK_FALSE(std::filesystem::exists(folder / "latest"));
    for (const char* aside :
         {".superseded-step-00000004", ".superseded-step-00000004.2", ".superseded-step-00000001"})
        CHECK(checkpoint_error(folder / aside) == "");
    set_log_level(LogLevel::info);
}

TEST_CASE("saves of the same state are byte-identical at any time")
{
    const TemporaryFolder folder;
    const std::string a = save(folder / "a", 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100)); // HDF5's time stamps have seconds
    const std::string b = save(folder / "b", 3);
    for (const char* file : {"/manifest.json", "/index.h5", "/shard-00000.h5"})
        CHECK(get(a + file) == get(b + file));
}
