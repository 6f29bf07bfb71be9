#include "io/checkpoint.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "io/files.hpp"
#include "io/hash.hpp"
#include "io/hdf5.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr const char* kind = "trivium checkpoint";
constexpr i64 version = 1;
constexpr std::string_view prefix = "step-";
constexpr const char* state_name = "state.h5";
constexpr const char* manifest_name = "manifest.json";

h5::Type type_of(StoredType type) { return type == StoredType::f32 ? h5::Type::f32 : h5::Type::f64; }

std::string print_shape(const std::vector<i64>& shape)
{
    std::string text = "[";
    for (const i64 extent : shape)
        text += str(text.size() > 1 ? ", " : "", extent);
    return text + "]";
}

bool is_checkpoint_name(const std::string& name)
{
    return name.starts_with(prefix) && name.size() > prefix.size() &&
           name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

void remove_all(const std::string& path)
{
    std::error_code error;
    fs::remove_all(path, error);
    if (error)
        throw IoError({path, "cannot be removed", error.message(), "remove it by hand"});
}

void rename(const std::string& from, const std::string& to)
{
    if (std::rename(from.c_str(), to.c_str()) != 0)
        throw_errno(to, "make");
}

void write_state(const std::string& path, const RunState& state, std::span<const TensorView> tensors)
{
    h5::File file = h5::File::create(path);
    file.set("format", std::string(kind));
    file.set("version", version);
    file.set("step", state.step);
    file.set("updates", state.updates);
    file.set("samples", state.samples);
    file.set("tokens", state.tokens);
    file.set("seed", state.seed);
    file.set("build", state.build);
    file.set("tokenizer", state.tokenizer);
    file.write_bytes("config", state.config); // may be longer than an attribute may
    for (const TensorView& tensor : tensors)
        file.create_dataset(tensor.name, type_of(tensor.type), tensor.shape).write(0, tensor.count(), type_of(tensor.type), tensor.data);
    file.close();
}

RunState read_state(const h5::File& file)
{
    RunState state;
    state.step = file.get_integer("step");
    state.updates = file.get_integer("updates");
    state.samples = file.get_integer("samples");
    state.tokens = file.get_integer("tokens");
    state.seed = file.get_integer("seed");
    state.build = file.get_string("build");
    state.tokenizer = file.get_string("tokenizer");
    state.config = file.read_bytes("config");
    return state;
}

std::string manifest_of(const std::string& folder, i64 step)
{
    const std::string path = folder + "/" + state_name;
    nlohmann::ordered_json manifest;
    manifest["format"] = kind;
    manifest["version"] = version;
    manifest["step"] = step;
    manifest["files"] = {{{"name", state_name}, {"bytes", file_size(path)}, {"xxh64", hex(hash_file(path))}}};
    return manifest.dump(2) + "\n";
}

/// Removes all but the newest `keep`. `newest` is the one just written: it stays whatever its step.
void prune(const std::string& dir, const std::string& newest, i64 keep)
{
    if (keep <= 0)
        return;
    i64 kept = 1;
    for (const std::string& name : list_checkpoints(dir)) {
        if (name == newest || ++kept <= keep)
            continue;
        // Renamed first: a folder that is half removed must not look like a checkpoint.
        const std::string doomed = str(dir, "/.old-", name);
        rename(str(dir, "/", name), doomed);
        remove_all(doomed);
    }
}

void remove_leftovers(const std::string& dir)
{
    std::vector<std::string> leftovers;
    for (const auto& entry : fs::directory_iterator(dir)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(".tmp-step-") || name.starts_with(".old-step-"))
            leftovers.push_back(entry.path().string());
    }
    for (const std::string& path : leftovers)
        remove_all(path);
}

/// The newest good checkpoint of `dir`; warns about each bad one, throws where all that exist are bad.
std::optional<std::string> newest_good(const std::string& dir)
{
    std::string first_problem;
    for (const std::string& name : list_checkpoints(dir)) {
        const std::string path = dir + "/" + name;
        try {
            CheckpointReader::open(path);
            return path;
        } catch (const Error& error) {
            if (first_problem.empty())
                first_problem = error.what();
            log_warning(str("this checkpoint is not used: ", error.what()));
        }
    }
    if (!first_problem.empty())
        throw UserError({dir, "every checkpoint in it is bad", first_problem,
                         "restore one from a copy, or start anew with checkpoint.resume=never"});
    return std::nullopt;
}

} // namespace

i64 TensorView::count() const
{
    i64 elements = 1;
    for (const i64 extent : shape)
        elements *= extent;
    return elements;
}

std::string checkpoint_name(i64 step)
{
    char digits[32];
    std::snprintf(digits, sizeof digits, "%08lld", static_cast<long long>(step));
    return str(prefix, digits);
}

std::string save_checkpoint(const std::string& dir, const RunState& state, std::span<const TensorView> tensors, i64 keep)
{
    const std::string name = checkpoint_name(state.step), path = dir + "/" + name, temporary = dir + "/.tmp-" + name;
    make_folders(dir);
    remove_leftovers(dir);
    make_folders(temporary);
    try {
        const std::string file = temporary + "/" + state_name;
        write_state(file, state, tensors);
        sync_path(file);
        write_file(temporary + "/" + manifest_name, manifest_of(temporary, state.step));
        sync_path(temporary);
        const std::string old = dir + "/.old-" + name;
        if (fs::exists(path)) // the same step again, after a restart
            rename(path, old);
        rename(temporary, path);
        sync_path(dir);
        remove_all(old);
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(temporary, ignored);
        throw;
    }
    write_file(dir + "/latest", name + "\n");
    prune(dir, name, keep);
    return path;
}

void supersede_checkpoints(const std::string& dir, i64 step)
{
    for (const std::string& name : list_checkpoints(dir)) {
        if (std::stoll(name.substr(std::string(prefix).size())) <= step)
            continue;
        const std::string aside = dir + "/.superseded-" + name;
        remove_all(aside);
        rename(dir + "/" + name, aside);
        log_warning(str(dir, "/", name, " is later than step ", step, ", where this run begins: moved aside to ", aside));
    }
}

void probe_folder(const std::string& dir)
{
    make_folders(dir);
    const std::string probe = dir + "/.probe";
    write_file(probe, "");
    remove_all(probe);
}

std::vector<std::string> list_checkpoints(const std::string& dir)
{
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator at(dir, error);
    if (error && error != std::errc::no_such_file_or_directory)
        throw IoError({dir, "cannot list this folder of checkpoints", error.message(), "check the path and its permissions"});
    for (; !error && at != fs::directory_iterator(); at.increment(error))
        if (is_checkpoint_name(at->path().filename().string()) && at->is_directory(error))
            names.push_back(at->path().filename().string());
    // By number: a step may have more digits than others.
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
        return a.size() != b.size() ? a.size() > b.size() : a > b;
    });
    return names;
}

struct CheckpointReader::Impl {
    [[noreturn]] void damaged(const std::string& problem) const
    {
        throw UserError({path, problem, "this checkpoint is damaged or incomplete",
                         "use another one (checkpoint.resume), or restore it from a copy"});
    }

    /// Sizes and hashes of the files, as the manifest has them.
    void verify_manifest(bool check_hash)
    {
        const std::string text = read_file(path + "/" + manifest_name, "checkpoint manifest");
        const auto manifest = nlohmann::json::parse(text, nullptr, false);
        try {
            if (manifest.at("format") != kind)
                damaged("its manifest is of another kind");
            if (manifest.at("version") != version)
                throw UserError({path, str("is a checkpoint of version ", manifest.at("version").dump()), str("this program reads version ", version),
                                 "use the program that wrote it"});
            bool has_state = false;
            for (const auto& entry : manifest.at("files")) {
                const auto name = entry.at("name").get<std::string>();
                const std::string place = path + "/" + name;
                has_state |= name == state_name;
                const auto wanted = entry.at("bytes").get<i64>();
                const Bytes found = file_size(place, "checkpoint file");
                bytes += found;
                if (found != wanted)
                    damaged(str(name, " has ", found, " bytes, ", wanted, " were written", found < wanted ? " (truncated)" : ""));
                if (check_hash && hex(hash_file(place)) != entry.at("xxh64").get<std::string>())
                    damaged(str(name, " has not the bytes that were written (its hash differs)"));
            }
            if (!has_state)
                damaged(str("its manifest does not list ", state_name));
        } catch (const nlohmann::json::exception& error) {
            damaged(str("its manifest cannot be read: ", error.what()));
        }
    }

    void read_index()
    {
        file = h5::File::open(path + "/" + state_name);
        state = read_state(file);
        for (const std::string& name : file.dataset_names()) {
            if (name == "config")
                continue;
            const h5::Dataset data = file.dataset(name);
            if (data.type() != h5::Type::f32 && data.type() != h5::Type::f64)
                damaged(str("tensor ", name, " has type ", h5::name_of(data.type())));
            index[name] = entries.size();
            entries.push_back({name, data.shape(), data.type() == h5::Type::f32 ? StoredType::f32 : StoredType::f64});
        }
    }

    const Entry& find(const std::string& name) const
    {
        const auto found = index.find(name);
        if (found != index.end())
            return entries[found->second];
        std::vector<std::string> names;
        for (const Entry& entry : entries)
            names.push_back(entry.name);
        const std::string near = nearest_word(name, names);
        throw UserError({path, str("has no tensor '", name, "'"),
                         near.empty() ? str("it has ", entries.size(), " others: a checkpoint of another model")
                                      : str("the nearest is '", near, "'; a checkpoint of another model?"),
                         "use the [model] that the checkpoint was made with (`trivium checkpoint show` prints it)"});
    }

    std::string path;
    h5::File file;
    RunState state;
    std::vector<Entry> entries;
    std::map<std::string, std::size_t> index;
    Bytes bytes = 0;
};

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

CheckpointReader CheckpointReader::open(const std::string& path, bool check_hash)
{
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    if (!fs::is_directory(path))
        throw UserError({path, "there is no such checkpoint", "a checkpoint is a folder like step-00000100", "check the path"});
    if (!fs::exists(path + "/" + manifest_name))
        throw UserError({path, "is no complete checkpoint", str("it has no ", manifest_name), "name a folder like step-00000100 of checkpoint.dir"});
    impl->verify_manifest(check_hash);
    try {
        impl->read_index();
    } catch (const IoError& error) { // HDF5 could not make sense of it
        impl->damaged(error.what());
    }
    return CheckpointReader(std::move(impl));
}

const std::string& CheckpointReader::path() const { return impl_->path; }
const RunState& CheckpointReader::state() const { return impl_->state; }
const std::vector<CheckpointReader::Entry>& CheckpointReader::tensors() const { return impl_->entries; }
bool CheckpointReader::has(const std::string& name) const { return impl_->index.contains(name); }
Bytes CheckpointReader::bytes() const { return impl_->bytes; }

void CheckpointReader::read(const TensorView& into) const
{
    const Entry& entry = impl_->find(into.name);
    if (entry.shape != into.shape)
        throw UserError({impl_->path, str("tensor '", into.name, "' has shape ", print_shape(entry.shape), ", the model wants ", print_shape(into.shape)),
                         "it is a checkpoint of another model",
                         "use the [model] that the checkpoint was made with (`trivium checkpoint show` prints it)"});
    read(into.name, 0, into.count(), into.type, into.data);
}

void CheckpointReader::read(const std::string& name, i64 begin, i64 count, StoredType type, void* data) const
{
    impl_->find(name);
    impl_->file.dataset(name).read(begin, count, type_of(type), data);
}

std::optional<std::string> find_resume(const CheckpointConfig& config)
{
    if (config.resume == "never")
        return std::nullopt;
    if (config.resume == "auto")
        return newest_good(config.dir);
    const std::string& path = config.resume;
    if (fs::is_directory(path) && !fs::exists(path + "/" + manifest_name) && !list_checkpoints(path).empty())
        return newest_good(path);
    CheckpointReader::open(path); // says what is wrong with it
    return path;
}

} // namespace trivium
