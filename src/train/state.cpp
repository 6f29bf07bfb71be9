#include "train/state.hpp"

#include "base/check.hpp"
#include "io/config_file.hpp"
#include "runtime/dtypes.hpp"
#include "runtime/initialise.hpp"

#include <algorithm>

namespace trivium {

namespace {

std::string saved_name(const Value& value)
{
    if (value.role == Role::parameter)
        return "param/" + value.name;
    std::string name = value.name; // "adam_m.NAME"
    name[name.find('.')] = '/';
    return name;
}

/// A checkpoint with parameters that this model lacks is one of another model.
void refuse_strangers(const CheckpointReader& checkpoint, const std::vector<std::string>& known)
{
    for (const CheckpointReader::Entry& entry : checkpoint.tensors())
        if (entry.name.starts_with("param/") && std::find(known.begin(), known.end(), entry.name) == known.end())
            throw UserError({checkpoint.path(), str("holds '", entry.name, "', which this model has not"),
                             "it is a checkpoint of another model",
                             "use the [model] table that it was trained with (it is in the checkpoint), or another checkpoint"});
}

} // namespace

std::vector<TensorPiece> saved_tensors(const Program& program, const Arena& arena)
{
    std::vector<TensorPiece> pieces;
    for (const Value& value : program.graph.values) {
        if (value.role != Role::parameter && value.role != Role::state)
            continue;
        pieces.push_back(whole_tensor(saved_name(value), value.type.shape, value.type.dtype == DType::f64 ? StoredType::f64 : StoredType::f32,
                                      arena.at(kept_buffer(program.schedule, value.name).offset)));
    }
    return pieces;
}

void restore(const CheckpointReader& checkpoint, const std::vector<TensorPiece>& tensors)
{
    std::vector<std::string> names;
    for (const TensorPiece& tensor : tensors)
        names.push_back(tensor.name);
    refuse_strangers(checkpoint, names);
    for (const TensorPiece& tensor : tensors)
        checkpoint.read(tensor);
}

void restore_parameters(const CheckpointReader& checkpoint, const Program& program, const Arena& arena)
{
    std::vector<std::string> names;
    for (const ValueId id : program.graph.with_role(Role::parameter))
        names.push_back(saved_name(program.graph[id]));
    refuse_strangers(checkpoint, names);
    std::vector<float> piece;
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& value = program.graph[id];
        TensorPiece tensor = whole_tensor(saved_name(value), value.type.shape, StoredType::f32,
                                          arena.at(kept_buffer(program.schedule, value.name).offset));
        if (value.type.dtype != DType::bf16) {
            tensor.type = value.type.dtype == DType::f64 ? StoredType::f64 : StoredType::f32;
            checkpoint.read(tensor);
            continue;
        }
        const auto entry = std::find_if(checkpoint.tensors().begin(), checkpoint.tensors().end(),
                                        [&](const CheckpointReader::Entry& e) { return e.name == tensor.name; });
        if (entry == checkpoint.tensors().end() || entry->shape != tensor.whole) {
            checkpoint.read(tensor); // says what is wrong
            continue;
        }
        constexpr i64 at_once = i64{1} << 20;
        auto* to = static_cast<bf16*>(tensor.data);
        for (i64 begin = 0; begin < tensor.count(); begin += at_once) {
            const i64 count = std::min(at_once, tensor.count() - begin);
            piece.resize(static_cast<std::size_t>(count));
            checkpoint.read(tensor.name, begin, count, StoredType::f32, piece.data());
            std::copy(piece.begin(), piece.end(), to + begin);
        }
    }
}

void require_same_model(const CheckpointReader& checkpoint, const RunConfig& config)
{
    const RunConfig saved = parse_config(checkpoint.state().config, checkpoint.path() + " (its config)");
    const ModelConfig &a = saved.model, &b = config.model;
    const auto require = [&](const char* key, const auto& theirs, const auto& ours) {
        if (theirs != ours)
            throw UserError({checkpoint.path(), str("was trained with model.", key, " = ", theirs, ", the config has ", ours),
                             "it is a checkpoint of another model", str("set model.", key, " as it was, or use another checkpoint")});
    };
    require("family", name_of(a.family), name_of(b.family));
    require("heads", a.heads, b.heads);
    require("kv_heads", a.kv_heads, b.kv_heads);
    require("tied_embeddings", a.tied_embeddings, b.tied_embeddings);
    require("norm_eps", a.norm_eps, b.norm_eps);
    require("rope_theta", a.rope_theta, b.rope_theta);
    const auto scaling = [](const RopeScaling& s) {
        return str("[", s.factor, ", ", s.low_freq_factor, ", ", s.high_freq_factor, ", ", s.original_seq, "]");
    };
    require("rope_scaling", scaling(a.rope_scaling), scaling(b.rope_scaling));
}

void require_same_tokenizer(const CheckpointReader& checkpoint, const std::string& tokenizer, const std::string& place)
{
    if (checkpoint.state().tokenizer != tokenizer)
        throw UserError({place, "has another tokenizer than " + checkpoint.path() + " was trained with",
                         tokenizer + " and " + checkpoint.state().tokenizer, "use the tokenizer of the model"});
}

void require_tokenizer(const DataConfig& data, const TokenStore& store)
{
    if (data.tokenizer == DataConfig{}.tokenizer) // not given: the store brings its own
        return;
    if (const std::string wanted = make_tokenizer(data.tokenizer)->fingerprint(); wanted != store.fingerprint())
        throw UserError({store.path(), "was not made with data.tokenizer = " + data.tokenizer, store.fingerprint() + " and " + wanted,
                         "tokenize the text again, or name the tokenizer that made the store"});
}

CheckpointReader open_checkpoint(const std::string& path, const CheckpointConfig& config)
{
    CheckpointConfig wanted = config;
    if (!path.empty())
        wanted.resume = path;
    else if (wanted.resume == "never")
        wanted.resume = "auto";
    const std::optional<std::string> found = find_resume(wanted);
    if (!found)
        throw UserError({config.dir, "holds no checkpoint", "no run has saved there yet",
                         "train first, or name one with --checkpoint"});
    return CheckpointReader::open(*found);
}

} // namespace trivium
