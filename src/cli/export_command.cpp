// `trivium checkpoint export`: writes the parameters of a checkpoint as a Hugging Face folder.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "io/checkpoint/box.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"
#include "io/files/folders.hpp"
#include "io/hugging_face/files.hpp"
#include "io/hugging_face/hugging_face.hpp"
#include "io/tokens/store_list.hpp"
#include "io/tokens/token_store.hpp"
#include "io/tokens/tokenizer.hpp"

#include <array>
#include <fmt/format.h>
#include <map>

namespace trivium {

namespace {

struct ExportArguments {
    std::string checkpoint, output, type = "f32", shard_size = "5GB", tokenizer;
};

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

/// Throws if the checkpoint's parameters are not those of `tensors`.
void require_parameters(const CheckpointReader& checkpoint, const std::vector<HuggingFaceTensor>& tensors)
{
    const auto refuse = [&](const std::string& problem) {
        throw UserError({checkpoint.path(), problem, "its config and its tensors belong to different models",
                         "use an unmodified checkpoint of `trivium train`"});
    };
    std::map<std::string, Shape> stored;
    for (const CheckpointReader::Entry& entry : checkpoint.tensors())
        if (entry.name.starts_with("param/"))
            stored[entry.name.substr(6)] = entry.shape;
    for (const HuggingFaceTensor& tensor : tensors)
        for (const OurTensor& ours : tensor.ours) {
            const auto at = stored.find(ours.name);
            if (at == stored.end() || at->second != ours.shape)
                refuse(str("has no parameter '", ours.name, "' of shape ", print_shape(ours.shape)));
            stored.erase(at);
        }
    if (!stored.empty())
        refuse(str("has the unknown parameter '", stored.begin()->first, "'"));
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

std::string describe(const Tokenizer* tokenizer, const ExportArguments& a, const ExportedFiles& files)
{
    if (!tokenizer)
        return a.tokenizer == no_tokenizer ? "none (--tokenizer none)"
                                           : "unknown, because the checkpoint has none; copy "
                                             "that of the original model into the folder";
    return tokenizer->name() + (files.no_tokenizer_json.empty()
                                    ? ""
                                    : ", without a tokenizer.json (" + files.no_tokenizer_json +
                                          "): transformers may produce other ids");
}

int export_checkpoint(const ExportArguments& a)
{
    const Bytes shard_bytes = parse_size(a.shard_size);
    require_new_folder(a.output);
    const CheckpointReader checkpoint = CheckpointReader::open(newest_checkpoint(a.checkpoint));
    const RunConfig config = parse_config(checkpoint.state().config, checkpoint.path() + " (its config)");
    if (config.model.layers > static_cast<i64>(checkpoint.tensors().size()))
        throw UserError({checkpoint.path(),
                         str("has fewer tensors than model.layers = ", config.model.layers),
                         "its config belongs to another model", "use another checkpoint"});
    validate(config.model);
    const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(checkpoint, config.data, a.tokenizer);
    const bool is_bf16 = a.type == "bf16";
    const ExportedFiles files =
        exported_files(config.model, is_bf16 ? "bfloat16" : "float32", tokenizer.get(), checkpoint.state());
    const std::vector<HuggingFaceTensor> tensors = hugging_face_tensors(config.model, *files.architecture);
    require_parameters(checkpoint, tensors);

    std::vector<SafetensorsEntry> entries;
    for (const HuggingFaceTensor& tensor : tensors)
        entries.push_back({tensor.name, is_bf16 ? "BF16" : "F32", tensor.shape});
    i64 shards = 0;
    Bytes bytes = 0, done = 0;
    make_whole_folder(a.output, [&](const std::string& folder) {
        SafetensorsWriter writer(folder, entries, shard_bytes);
        shards = writer.shards();
        bytes = writer.bytes();
        for (const HuggingFaceTensor& tensor : tensors)
            export_values(tensor, checkpoint, [&](std::span<const float> values) {
                writer.write(values);
                done += static_cast<Bytes>(values.size()) * (is_bf16 ? 2 : 4);
                log_progress(str("exporting: ", format_bytes(done), " of ", format_bytes(bytes)));
            });
        writer.close();
        for (const auto& [name, content] : files.files)
            write_file(folder + "/" + name, content);
    });
    log_progress("");
    fmt::print("{}: {} of step {}\n  parameters {}, {} of {}, {} in {}\n  tokenizer  {}\n", a.output,
               files.architecture->name, checkpoint.state().step, format_count(parameter_count(config.model)),
               counted(tensors.size(), "tensor"), a.type, format_bytes(bytes), counted(shards, "file"),
               describe(tokenizer.get(), a, files));
    return 0;
}

} // namespace

void add_export_command(Command& checkpoint)
{
    Command command = checkpoint.add("export", "write the parameters as a Hugging Face model");
    auto a = std::make_shared<ExportArguments>();
    command
        .option("checkpoint", a->checkpoint,
                "a checkpoint, or the folder of a run's checkpoints (the newest)", {.required = true})
        .option("output", a->output, "new folder for config.json and safetensors files", {.required = true})
        .option("--type", a->type, "type of the values; bf16 rounds to nearest even",
                {.show_default = true, .words = {"f32", "bf16"}})
        .option("--shard-size", a->shard_size, "maximum size of a file",
                {.show_default = true, .type = "SIZE"})
        .option("--tokenizer", a->tokenizer,
                "tokenizer of the run, if its file has moved; none: export without a tokenizer",
                {.type = "FILE"})
        .footer("docs/hugging-face.md describes the files.");
    command.action([=] { return export_checkpoint(*a); });
}

} // namespace trivium
