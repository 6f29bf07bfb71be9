// `trivium checkpoint export`: writes the parameters of a checkpoint as a Hugging Face folder, or as a file
// for llama.cpp.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/text/merged_loss.hpp"
#include "io/checkpoint/box.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"
#include "io/files/folders.hpp"
#include "io/gguf/gguf.hpp"
#include "io/hugging_face/adapters.hpp"
#include "io/hugging_face/chat_files.hpp"
#include "io/hugging_face/files.hpp"
#include "io/hugging_face/hugging_face.hpp"
#include "io/hugging_face/merged.hpp"
#include "io/tokens/store_list.hpp"
#include "io/tokens/token_store.hpp"
#include "io/tokens/tokenizer.hpp"

#include <array>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <set>

namespace trivium {

namespace {

struct ExportArguments {
    std::string checkpoint, output, type, shard_size, tokenizer, adapter, data;
    bool average = false;
};

constexpr std::string_view gguf_ending = ".gguf";

/// "5GB", "500MiB", "1000000".
Bytes parse_size(const std::string& text)
{
    constexpr std::array<std::pair<std::string_view, double>, 8> units{{{"", 1},
                                                                        {"KB", 1e3},
                                                                        {"MB", 1e6},
                                                                        {"GB", 1e9},
                                                                        {"TB", 1e12},
                                                                        {"KiB", 0x1p10},
                                                                        {"MiB", 0x1p20},
                                                                        {"GiB", 0x1p30}}};
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    for (const auto& [unit, bytes] : units)
        if (digits > 0 && digits < 10 && text.substr(digits) == unit &&
            std::stoll(text.substr(0, digits)) > 0)
            return static_cast<Bytes>(static_cast<double>(std::stoll(text.substr(0, digits))) * bytes);
    throw UserError({"--shard-size", str("is not a size: '", text, "'"),
                     "a size is a number of bytes, or a number followed by KB, MB, GB, TB, KiB, MiB or GiB",
                     "write for example 5GB"});
}

/// Throws if the checkpoint's parameters are not those of `tensors` and of adapters.
void require_parameters(const CheckpointReader& checkpoint, const RunConfig& run,
                        const std::vector<HuggingFaceTensor>& tensors)
{
    const auto refuse = [&](const std::string& problem) {
        throw UserError({checkpoint.path(), problem, "its config and its tensors belong to different models",
                         "use an unmodified checkpoint of `trivium train`"});
    };
    std::map<std::string, Shape> stored;
    for (const CheckpointReader::Entry& entry : checkpoint.tensors())
        if (entry.name.starts_with("param/"))
            stored[entry.name.substr(6)] = entry.shape;
    std::set<std::string> known; // of which each slice has the name
    const auto require = [&](const std::string& name, const Shape& shape) {
        const auto at = stored.find(name);
        if (at == stored.end() || at->second != shape)
            refuse(str("has no parameter '", name, "' of shape ", print_shape(shape)));
        known.insert(name);
    };
    const TrainedParameters trained = trained_parameters(run);
    for (const ModelParameter& weight : all_parameters(run.model))
        if (trained.has_adapter(weight))
            for (const ModelParameter& part : adapter_of(weight, trained.lora)) {
                Shape shape;
                for (const char dim : part.dims)
                    shape.push_back(dim == rank_dim ? trained.lora.rank : extent_of(run.model, dim));
                require(part.name, shape);
            }
    for (const HuggingFaceTensor& tensor : tensors)
        for (const OurTensor& ours : tensor.ours) {
            if (ours.name == "head.weight" && run.model.tied_embeddings)
                continue; // untied by the export
            require(ours.name, ours.shape);
        }
    for (const auto& [name, shape] : stored)
        if (!known.contains(name))
            refuse(str("has the unknown parameter '", name, "'"));
}

constexpr const char* no_tokenizer = "none"; ///< value of --tokenizer

/// The tokenizer of the run: from --tokenizer, data.tokenizer or the token store. Null with --tokenizer none,
/// or if the checkpoint has no tokenizer.
std::unique_ptr<Tokenizer> tokenizer_of(const CheckpointReader& checkpoint, const DataConfig& data,
                                        const std::string& named)
{
    const std::string& fingerprint = checkpoint.state().tokenizer;
    if (named == no_tokenizer)
        return nullptr;
    if (!named.empty()) {
        auto tokenizer = make_tokenizer(named);
        if (!fingerprint.empty() && tokenizer->fingerprint() != fingerprint)
            throw UserError({named, "is not the tokenizer that the checkpoint was trained with",
                             tokenizer->fingerprint() + " and " + fingerprint,
                             "name the tokenizer of the run"});
        return tokenizer;
    }
    if (fingerprint.empty())
        return nullptr;
    const std::string store = data.train.empty() ? "" : data.train.list[0].path;
    for (const bool of_store : {true, false}) { // only the store knows --eod
        try {
            auto tokenizer = of_store ? TokenStore::open(files_of_store(store).front()).tokenizer()
                                      : make_tokenizer(data.tokenizer);
            if (tokenizer->fingerprint() == fingerprint)
                return tokenizer;
        } catch (const Error&) { // deleted or replaced
        }
    }
    throw UserError({checkpoint.path(), "its tokenizer is missing",
                     str("neither data.tokenizer = \"", data.tokenizer, "\" nor the token store \"",
                         data.train.text(), "\" has the tokenizer of the run (", fingerprint, ")"),
                     "name its file with --tokenizer FILE, or export without one: --tokenizer none"});
}

/// A checkpoint, and what an export of it has.
struct Exported {
    CheckpointReader checkpoint;
    RunConfig config;
    std::unique_ptr<Tokenizer> tokenizer; ///< null: unknown, or not wanted
    ExportedFiles files;
    std::vector<HuggingFaceTensor> tensors;
    ModelConfig model; ///< that is exported; config.model, unless merging unties it
};

/// The one that `generate --chat` uses, for the files of an export; nullopt if there is none, or if these
/// files have it already.
std::optional<ChatTemplate> own_template(const DataConfig& data, const CheckpointReader& checkpoint,
                                         const Tokenizer& tokenizer)
{
    const std::map<std::string, std::string>& kept = checkpoint.state().imported;
    if (data.chat_template.empty() && has_chat_template(kept))
        return {};
    try {
        return chat_template_of(data, kept, tokenizer);
    } catch (const UserError& error) {
        log_warning(str(error.what(), "; the export is made without this chat template"));
        return {};
    }
}

Exported open_exported(const ExportArguments& a)
{
    CheckpointReader checkpoint = CheckpointReader::open(newest_checkpoint(a.checkpoint));
    if (a.average)
        checkpoint.read_averages();
    RunConfig config = parse_config(checkpoint.state().config, checkpoint.path() + " (its config)");
    if (config.model.is_program())
        throw UserError({checkpoint.path(), "is of a program of the user's own",
                         "only transformers are exported to other programs' formats",
                         "`trivium checkpoint` shows and extracts its tensors"});
    if (config.model.layers > static_cast<i64>(checkpoint.tensors().size()))
        throw UserError({checkpoint.path(),
                         str("has fewer tensors than model.layers = ", config.model.layers),
                         "its config belongs to another model", "use another checkpoint"});
    validate(config.model);
    ModelConfig model = without_base(config.model);
    // The head of a tied model has no adapter: merging that of the embedding unties them.
    const bool untied =
        model.tied_embeddings && a.adapter.empty() && checkpoint.has("param/embed." + std::string(lora_a));
    if (untied)
        model.tied_embeddings = false;
    std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(checkpoint, config.data, a.tokenizer);
    ExportedFiles files =
        exported_files(model, a.type == "bf16" ? "bfloat16" : "float32", tokenizer.get(), checkpoint.state());
    if (tokenizer)
        add_chat(files.files, own_template(config.data, checkpoint, *tokenizer), *tokenizer);
    std::vector<HuggingFaceTensor> tensors = hugging_face_tensors(model, *files.architecture);
    require_parameters(checkpoint, config, tensors);
    if (untied)
        log_warning("the exported model is not tied: its embedding has an adapter, which the head has not");
    return {std::move(checkpoint), std::move(config),  std::move(tokenizer),
            std::move(files),      std::move(tensors), std::move(model)};
}

/// `form`: what was written, "LlamaForCausalLM"; `files`: "2 files".
void print_exported(const ExportArguments& a, const Exported& from, const std::string& form,
                    std::size_t tensors, Bytes bytes, const std::string& files, const std::string& tokenizer)
{
    log_progress("");
    fmt::print("{}: {} of step {}\n  parameters {}, {} of {}, {} in {}\n  tokenizer  {}\n", a.output, form,
               from.checkpoint.state().step, format_count(parameter_count(from.config.model)),
               counted(tensors, "tensor"), a.type, format_bytes(bytes), files, tokenizer);
}

std::string describe_tokenizer(const Exported& from, const ExportArguments& a, const char* unknown)
{
    if (from.tokenizer)
        return from.tokenizer->name();
    return a.tokenizer == no_tokenizer ? "none (--tokenizer none)"
                                       : str("unknown, because the checkpoint has none; ", unknown);
}

/// The weights with their adapters in them.
class Merged {
public:
    explicit Merged(const Exported& from)
        : merged_(from.config.model, trained_parameters(from.config), parameters_of(from.checkpoint))
    {
    }
    ReadParameter reader()
    {
        return [this](const std::string& name, i64 first, std::span<float> to) {
            merged_.read(name, first, to);
        };
    }
    /// After all values were read.
    void print_loss(const std::string& type) const
    {
        const MergeLoss loss = merged_.loss();
        if (loss.changed == 0)
            return;
        if (type == "f32")
            fmt::print("  adapters   merged\n");
        else
            fmt::print(
                "  adapters   merged; rounding to bf16 changes the weights by {:.2g} of what the adapters "
                "do (rms), at most {:.2g}, in {}{}\n",
                std::sqrt(loss.lost / loss.changed), loss.worst, loss.weight,
                loss.lost > 0.01 * loss.changed ? "; --type f32 or --adapter keep it" : "");
    }

private:
    MergedParameters merged_;
};

/// adapter_model.safetensors and adapter_config.json.
void export_adapter(const ExportArguments& a)
{
    require_new_folder(a.adapter);
    const Exported from = open_exported(a);
    if (!a.data.empty()) // for the model, which is written next
        open_compared(from.checkpoint, from.config, a.data);
    const TrainedParameters trained = trained_parameters(from.config);
    if (!trained.has_lora())
        throw UserError({from.checkpoint.path(), "has no adapters", "its run had no train.lora",
                         "export it without --adapter"});
    // Where PEFT finds the base is not known; the name of the folder that was imported may help.
    const PeftAdapter adapter = exported_adapter(from.config.model, trained, *from.files.architecture,
                                                 from.config.train.init_from, parameters_of(from.checkpoint));
    std::vector<SafetensorsEntry> entries;
    i64 values = 0;
    for (const PeftTensor& tensor : adapter.tensors) {
        entries.push_back({tensor.name, "F32", tensor.shape});
        values += element_count(tensor.shape);
    }
    make_whole_folder(a.adapter, [&](const std::string& folder) {
        SafetensorsWriter writer(folder, entries, std::numeric_limits<Bytes>::max(),
                                 "adapter_model.safetensors");
        for (std::size_t i = 0; i < adapter.tensors.size(); ++i) {
            writer.write(adapter.tensors[i].values());
            log_progress(str("exporting: tensor ", i + 1, " of ", adapter.tensors.size()));
        }
        writer.close();
        write_file(folder + "/adapter_config.json", adapter.config);
    });
    log_progress("");
    for (const std::string& warning : adapter.warnings)
        log_warning(warning);
    fmt::print("{}: adapters of step {} for {}\n  parameters {}, {} of f32\n", a.adapter,
               from.checkpoint.state().step, from.files.architecture->name, format_count(values),
               counted(entries.size(), "tensor"));
}

void export_folder(const ExportArguments& a)
{
    const Bytes shard_bytes = parse_size(a.shard_size.empty() ? "5GB" : a.shard_size);
    require_new_folder(a.output);
    const Exported from = open_exported(a);
    std::optional<Batches> compared; // before anything is written
    if (!a.data.empty())
        compared.emplace(open_compared(from.checkpoint, from.config, a.data));
    const bool is_bf16 = a.type == "bf16";
    std::vector<SafetensorsEntry> entries;
    for (const HuggingFaceTensor& tensor : from.tensors)
        entries.push_back({tensor.name, is_bf16 ? "BF16" : "F32", tensor.shape});
    i64 shards = 0;
    Bytes bytes = 0, done = 0;
    Merged merged(from);
    make_whole_folder(a.output, [&](const std::string& folder) {
        SafetensorsWriter writer(folder, entries, shard_bytes);
        shards = writer.shards();
        bytes = writer.bytes();
        for (const HuggingFaceTensor& tensor : from.tensors)
            export_values(tensor, merged.reader(), [&](std::span<const float> values) {
                writer.write(values);
                done += static_cast<Bytes>(values.size()) * (is_bf16 ? 2 : 4);
                log_progress(str("exporting: ", format_bytes(done), " of ", format_bytes(bytes)));
            });
        writer.close();
        for (const auto& [name, content] : from.files.files)
            write_file(folder + "/" + name, content);
    });
    std::string tokenizer = describe_tokenizer(from, a, "copy that of the original model into the folder");
    if (from.tokenizer && !from.files.no_tokenizer_json.empty())
        tokenizer += ", without a tokenizer.json (" + from.files.no_tokenizer_json +
                     "): transformers may produce other ids";
    print_exported(a, from, from.files.architecture->name, from.tensors.size(), bytes,
                   counted(shards, "file"), tokenizer);
    merged.print_loss(a.type);
    if (!compared)
        return;
    const MergedLosses losses = merged_losses(from.checkpoint, from.config, *compared, from.model,
                                              Merged(from).reader(), a.type == "bf16");
    fmt::print("  loss       {:.6f} merged, {:.6f} with adapters: {:+.2e}, over {} tokens of {}\n",
               losses.merged, losses.adapters, losses.merged - losses.adapters, format_count(losses.tokens),
               a.data);
}

/// Like a folder, a file must be new: it may be the only copy of another model.
void require_new_file(const std::string& path)
{
    std::error_code error;
    if (std::filesystem::exists(std::filesystem::symlink_status(path, error)))
        throw UserError({path, "exists", "nothing is overwritten",
                         "name a file that does not exist yet, or remove this one"});
}

void export_file(const ExportArguments& a)
{
    if (!a.data.empty())
        throw UserError({"--data", "compares losses of a folder", str(a.output, " is one file"),
                         "leave it out, or export a folder, too"});
    if (!a.shard_size.empty())
        throw UserError({"--shard-size", "is for a folder", str(a.output, " is one file"), "leave it out"});
    require_new_file(a.output);
    const Exported from = open_exported(a);
    const GgufType type = a.type == "f32"    ? GgufType::f32
                          : a.type == "f16"  ? GgufType::f16
                          : a.type == "q8_0" ? GgufType::q8_0
                                             : GgufType::bf16;
    const GgufArchitecture& architecture = gguf_architecture_of(from.model, *from.files.architecture);
    const std::vector<GgufTensor> tensors = gguf_tensors(from.model, architecture, from.tensors, type);
    const GgufKeys keys = gguf_keys(from.model, architecture, type, from.files, from.tokenizer.get(),
                                    from.checkpoint.state(), std::filesystem::path(a.output).stem().string());
    std::vector<GgufTensorInfo> infos;
    for (const GgufTensor& tensor : tensors)
        infos.push_back(tensor.info);
    Bytes bytes = 0;
    Merged merged(from);
    replace_file(a.output, [&](const std::string& temporary) {
        GgufWriter writer(temporary, keys, infos);
        bytes = writer.bytes();
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            log_progress(str("exporting: tensor ", i + 1, " of ", tensors.size()));
            write_values(tensors[i], merged.reader(), writer);
        }
        writer.close();
    });
    print_exported(a, from, str("architecture ", architecture.name), tensors.size(), bytes, "1 file",
                   describe_tokenizer(from, a, "llama.cpp can be given token ids"));
    merged.print_loss(a.type);
}

int export_checkpoint(ExportArguments a)
{
    if (!a.adapter.empty()) {
        if (a.output.empty() && !a.data.empty())
            throw UserError({"--data", "compares losses of a merged model", "only its adapters are exported",
                             "leave it out, or name a new folder for the model, too"});
        ExportArguments alone = a;
        alone.tokenizer = no_tokenizer;
        export_adapter(alone);
        a.adapter.clear();
    } else if (a.output.empty()) {
        throw UserError({"checkpoint export", "has no output", "",
                         "name a new folder for the model, or one for its adapters: --adapter DIR"});
    }
    if (a.output.empty())
        return 0;
    const bool to_file = a.output.ends_with(gguf_ending);
    if (a.type.empty())
        a.type = to_file ? "bf16" : "f32";
    if (!to_file && a.type != "f32" && a.type != "bf16")
        throw UserError({"--type " + a.type, "is for a file for llama.cpp", a.output + " is a folder",
                         "name a file that ends in .gguf, or write --type f32 or bf16"});
    to_file ? export_file(a) : export_folder(a);
    return 0;
}

} // namespace

void add_export_command(Command& checkpoint)
{
    Command command = checkpoint.add(
        "export", "write the parameters as a Hugging Face model, or as a GGUF file for llama.cpp");
    auto a = std::make_shared<ExportArguments>();
    command
        .option("checkpoint", a->checkpoint,
                "a checkpoint, FOLDER/best, or the folder of a run's checkpoints (the newest)",
                {.required = true})
        .option("output", a->output,
                "new folder for config.json and safetensors files; or, if the name ends in .gguf, a new file "
                "for llama.cpp; of a run with adapters the merged model")
        .option("--data", a->data,
                "token store on which the loss of the exported weights is compared with that of the run's, "
                "to see "
                "what merging adapters and rounding do",
                {.type = "FILE"})
        .option("--adapter", a->adapter, "new folder for the adapters alone, in the format of PEFT",
                {.type = "DIR"})
        .option("--type", a->type,
                "type of the values; by default f32 in a folder and bf16 in a file. f16 and q8_0 are for "
                "files; all round to nearest",
                {.words = {"f32", "bf16", "f16", "q8_0"}})
        .option("--shard-size", a->shard_size, "maximum size of a file in a folder; by default 5GB",
                {.type = "SIZE"})
        .option("--tokenizer", a->tokenizer,
                "tokenizer of the run, if its file has moved; none: export without a tokenizer",
                {.type = "FILE"})
        .flag("--average", a->average, "write the averaged weights (train.ema)")
        .footer("docs/hugging-face.md describes the files.");
    command.action([=] { return export_checkpoint(*a); });
}

} // namespace trivium
