// `trivium checkpoint import`: converts a Hugging Face folder to a checkpoint and a config.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/config_file.hpp"
#include "io/files/config_value.hpp"
#include "io/files/files.hpp"
#include "io/files/folders.hpp"
#include "io/hugging_face/adapters.hpp"
#include "io/hugging_face/chat_files.hpp"
#include "io/hugging_face/files.hpp"
#include "io/hugging_face/hugging_face.hpp"
#include "io/tokens/store_list.hpp"
#include "io/tokens/tokenizer.hpp"
#include "io/tokens/tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <optional>

namespace trivium {

namespace {

namespace fs = std::filesystem;

struct ImportArguments {
    std::string folder, output, build, adapter;
    std::vector<std::string> overrides;
};

/// The tokenizer of a Hugging Face folder.
struct FoundTokenizer {
    std::string path;                            ///< empty: none
    std::string file;                            ///< its name in the folder; empty: "bytes"
    std::string problem = "the folder has none"; ///< why there is none
};

FoundTokenizer find_tokenizer(const std::string& folder, const ModelConfig& model)
{
    FoundTokenizer found;
    for (const char* file : {"tokenizer.json", "tokenizer.model"}) {
        const std::string path = file_in_folder(folder, file);
        if (path.empty())
            continue;
        try {
            const std::string text = read_file(path, file, max_tokenizer_bytes);
            if (is_bytes_json(text))
                return {"bytes", "", ""};
            // An export of ours: its stores have the fingerprint of the SentencePiece model.
            if (const std::string source = file_in_folder(folder, "tokenizer.model");
                looks_like_tokenizer_json(text) && !source.empty() &&
                is_converted_json(text, read_file(source, "tokenizer.model", max_tokenizer_bytes)))
                continue;
            const i64 vocab = make_tokenizer(path)->vocab_size();
            if (vocab <= model.vocab)
                return {path, file, ""};
            found.problem = str(file, " has ", vocab, " tokens, the model ", model.vocab);
        } catch (const UserError& error) {
            found.problem = error.what();
        }
    }
    return found;
}

/// The config of the imported model, with the overrides.
RunConfig config_of(const ModelConfig& model, const std::string& tokenizer, const ImportArguments& a)
{
    for (const std::string& change : a.overrides)
        if (!change.starts_with("model.") && !change.starts_with("data."))
            throw UserError({str("override '", change, "'"), "is not a key of [model] or [data]",
                             "only these two can be set here", "pass it to `trivium train`"});
    RunConfig config;
    config.model = model;
    if (!tokenizer.empty())
        config.data.tokenizer = tokenizer;
    config = parse_config(to_toml(config), a.folder, a.overrides);
    resolve_and_validate(config);
    ModelConfig with_seq = config.model;
    if (model.positions == Positions::rotary) // rotary positions have no fixed length; learned ones do
        with_seq.seq = model.seq;
    RunConfig changed, original;
    changed.model = with_seq;
    original.model = model;
    if (to_toml(changed) != to_toml(original))
        throw UserError({"overrides", "would change the model",
                         str("the weights and config.json determine all of [model]",
                             model.positions == Positions::rotary ? " except seq" : ""),
                         "remove them"});
    return config;
}

/// model.toml. A run of it begins with the imported weights, and keeps its files below `folder`, apart from
/// those of other models. Paths are absolute, so that the current folder does not matter.
std::string model_toml(RunConfig config, const std::string& folder)
{
    std::vector<std::string*> paths{&config.data.tokenizer};
    for (DataSource& source : config.data.train.list)
        paths.push_back(&source.path);
    for (ValidationStore& store : config.data.valid.list)
        paths.push_back(&store.path);
    for (std::string* named : paths)
        if (std::error_code ignored;
            *named != "bytes" && (fs::exists(*named, ignored) || fs::exists(*named + ".idx", ignored) ||
                                  names_several_files(*named)))
            *named = fs::absolute(*named).lexically_normal().string();
    const auto path = [&](const std::string& name) { return print_value(folder + name); };
    const std::string lora = config.train.lora.rank > 0 ? "\nlora = " + print_value(config.train.lora) : "";
    return str(to_toml(config, {"model", "data"}), "\n[train]\ninit_from = ", path(""), lora,
               "\n\n[checkpoint]\ndir = ", path("/checkpoints"), "\n\n[log]\ndir = ", path("/logs"), "\n");
}

void require_finite(std::span<const float> values, i64 first, const ImportedParameter& of,
                    const std::string& place)
{
    const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
    if (bad != values.end())
        throw UserError({place,
                         str("the tensor '", of.slice_of(first + (bad - values.begin())).theirs,
                             "' has values that are not finite"),
                         str("value ", first + (bad - values.begin()), " of ", of.name, " is ",
                             std::isnan(*bad) ? "NaN" : "infinite", ": training would begin with it"),
                         "get the model again from where it came from, or an earlier checkpoint of it"});
}

/// The model's tensors in f32, as pieces of a checkpoint that are read when written. `place`: its folder.
/// \pre all arguments outlive the pieces
std::vector<TensorPiece> pieces_of(const HuggingFaceModel& source, const std::string& place, Bytes& done)
{
    const Bytes all = parameter_count(source.model) * 4;
    std::vector<TensorPiece> pieces;
    for (ImportedParameter& parameter : imported_parameters(source)) {
        pieces.push_back(whole_tensor("param/" + parameter.name, parameter.shape, DType::f32, nullptr));
        pieces.back().fetch = [&done, &place, all,
                               parameter = std::move(parameter)](Bytes begin, std::span<std::byte> to) {
            const std::span<float> floats(reinterpret_cast<float*>(to.data()), to.size() / 4);
            parameter.read(begin / 4, floats);
            require_finite(floats, begin / 4, parameter, place);
            done += static_cast<Bytes>(to.size());
            log_progress(str("importing: ", format_bytes(done), " of ", format_bytes(all)));
        };
    }
    return pieces;
}

/// Adds the values of an adapter to the pieces of its base, or replaces them.
void add_adapter(std::vector<TensorPiece>& pieces, ImportedAdapter& adapter, const RunConfig& config)
{
    std::map<std::string, Shape> shapes;
    for (const ModelParameter& weight : all_parameters(config.model)) {
        std::vector<ModelParameter> all = adapter_of(weight, adapter.lora);
        all.push_back(weight);
        for (const ModelParameter& part : all)
            for (Shape& shape = shapes[part.name]; const char dim : part.dims)
                shape.push_back(dim == rank_dim ? adapter.lora.rank : extent_of(config.model, dim));
    }
    for (auto& [name, values] : adapter.values) {
        std::erase_if(pieces, [&](const TensorPiece& piece) { return piece.name == "param/" + name; });
        TRV_CHECK(element_count(shapes.at(name)) == std::ssize(values), name, " has ", values.size(),
                  " values");
        const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
        if (bad != values.end())
            throw UserError({"the adapter", str("has a value of ", name, " that is not finite"), "",
                             "get it again from where it came from"});
        pieces.push_back(whole_tensor("param/" + name, shapes.at(name), DType::f32, values.data()));
    }
}

/// A checkpoint with an adapter of PEFT's.
int import_onto_checkpoint(const ImportArguments& a)
{
    const CheckpointReader base = CheckpointReader::open(newest_checkpoint(a.folder));
    RunConfig config = parse_config(base.state().config, base.path() + " (its config)", a.overrides);
    if (config.model.is_program() || config.train.lora.rank > 0)
        throw UserError(
            {base.path(),
             config.model.is_program() ? "is of a program of the user's own" : "has adapters already", "",
             "name an imported model, or a checkpoint of a run without train.lora"});
    resolve(config.model);
    validate(config.model);
    const Architecture& architecture =
        *exported_files(config.model, "float32", nullptr, base.state()).architecture;
    ImportedAdapter adapter = imported_adapter(a.adapter, config.model, architecture, parameters_of(base));
    config.train.lora = adapter.lora;
    RunState state = base.state();
    state.step = state.updates = state.samples = state.tokens = 0;
    state.config = to_toml(config);
    state.build = a.build;
    std::vector<TensorPiece> pieces;
    for (const CheckpointReader::Entry& entry : base.tensors()) {
        if (!entry.name.starts_with("param/"))
            continue;
        pieces.push_back(whole_tensor(entry.name, entry.shape, DType::f32, nullptr));
        pieces.back().fetch = [&base, name = entry.name](Bytes begin, std::span<std::byte> to) {
            base.read(name, begin / 4, static_cast<i64>(to.size()) / 4, DType::f32, to.data());
        };
    }
    add_adapter(pieces, adapter, config);
    const std::string home = (fs::absolute(a.output) / ".").lexically_normal().parent_path().string();
    make_whole_folder(a.output, [&](const std::string& folder) {
        save_checkpoint(*make_self_comm(), folder, state, pieces, 0);
        write_file(folder + "/model.toml", model_toml(config, home));
    });
    const std::string file = (fs::path(a.output) / "model.toml").lexically_normal().string();
    fmt::print(
        "{}: {} with the adapters of {}\n  config     {}\n  train it   trivium train {} data.train=…\n",
        a.output, base.path(), a.adapter, file, file);
    return 0;
}

int import_model(const ImportArguments& a)
{
    require_new_folder(a.output);
    if (!a.adapter.empty() && file_in_folder(a.folder, "config.json").empty())
        return import_onto_checkpoint(a);
    const HuggingFaceModel source = open_hugging_face(a.folder);
    const FoundTokenizer tokenizer = find_tokenizer(a.folder, source.model);
    const std::string home = (fs::absolute(a.output) / ".").lexically_normal().parent_path().string();
    const std::string own = tokenizer.file.empty() ? tokenizer.path : home + "/" + tokenizer.file;
    RunConfig config = config_of(source.model, own, a);
    const std::vector<ImportedParameter> parameters = imported_parameters(source);
    std::optional<ImportedAdapter> adapter;
    if (!a.adapter.empty()) {
        adapter = imported_adapter(a.adapter, config.model, *source.architecture,
                                   [&](const std::string& name, i64 first, std::span<float> to) {
                                       const auto at =
                                           std::ranges::find(parameters, name, &ImportedParameter::name);
                                       TRV_CHECK(at != parameters.end(), "no parameter ", name);
                                       at->read(first, to);
                                   });
        config.train.lora = adapter->lora;
    }

    RunState state;
    state.seed = config.train.seed;
    state.config = to_toml(config);
    state.build = a.build;
    const bool named = std::ranges::any_of(
        a.overrides, [](const std::string& text) { return text.starts_with("data.tokenizer="); });
    if (named || !own.empty())
        state.tokenizer = make_tokenizer(named ? config.data.tokenizer : tokenizer.path)->fingerprint();
    state.imported = read_imported_files(a.folder);
    if (!tokenizer.path.empty())
        state.imported_tokenizer = make_tokenizer(tokenizer.path)->fingerprint();
    const bool own_template = !tokenizer.file.empty() && has_chat_template(state.imported);
    make_whole_folder(a.output, [&](const std::string& folder) {
        Bytes done = 0;
        std::vector<TensorPiece> pieces = pieces_of(source, a.folder, done);
        if (adapter)
            add_adapter(pieces, *adapter, config);
        save_checkpoint(*make_self_comm(), folder, state, pieces, 0);
        if (!tokenizer.file.empty())
            write_file(folder + "/" + tokenizer.file, make_tokenizer(tokenizer.path)->model());
        if (own_template) // so that `data tokenize` finds it next to the tokenizer
            for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"})
                if (const auto file = state.imported.find(name); file != state.imported.end())
                    write_file(folder + "/" + name, file->second);
        write_file(folder + "/model.toml", model_toml(config, home));
    });
    log_progress("");
    const std::string file = (fs::path(a.output) / "model.toml").lexically_normal().string();
    fmt::print("{}: {} parameters, {} of {}, {}\n  tokenizer  {}\n  config     {}\n  train it   "
               "trivium train {} data.train=…\n",
               a.output, format_count(parameter_count(source.model)),
               counted(source.tensors.size(), "tensor"), source.architecture->name,
               format_bytes(source.files.bytes()),
               named         ? config.data.tokenizer
               : own.empty() ? "none usable: " + tokenizer.problem
                             : fs::path(own).filename().string(),
               file, file);
    if (!source.balance_loss.empty())
        fmt::print("  experts    {} is not applied: set train.balance_loss, by its own formula\n",
                   source.balance_loss);
    return 0;
}

} // namespace

void add_import_command(Command& checkpoint, const std::string& build)
{
    Command command = checkpoint.add("import", "make a checkpoint from a Hugging Face model");
    auto a = std::make_shared<ImportArguments>();
    a->build = build;
    command.option("folder", a->folder, "folder with config.json and safetensors files", {.required = true})
        .option("output", a->output, "new folder for the checkpoint and model.toml", {.required = true})
        .option("--adapter", a->adapter,
                "folder of PEFT's with an adapter of this model; the folder of the model may then be a "
                "checkpoint",
                {.type = "DIR"})
        .option("overrides", a->overrides, "keys of [model] and [data] for model.toml, e.g. model.seq=2048",
                {.type = "key=value"})
        .footer("docs/hugging-face.md lists the supported models and the next steps.");
    command.action([=] { return import_model(*a); });
}

} // namespace trivium
