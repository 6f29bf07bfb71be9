#include "train/state.hpp"

#include "base/check.hpp"
#include "io/config_file.hpp"
#include "runtime/dtypes.hpp"
#include "runtime/initialise.hpp"

#include <algorithm>
#include <sstream>

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
void refuse_strangers(const CheckpointReader& checkpoint, const Program& program)
{
    std::set<std::string> known;
    for (const ValueId id : program.sharded.with_role(Role::parameter))
        known.insert(saved_name(program.sharded[id]));
    for (const CheckpointReader::Entry& entry : checkpoint.tensors())
        if (entry.name.starts_with("param/") && known.count(entry.name) == 0)
            throw UserError({checkpoint.path(), str("holds '", entry.name, "', which this model has not"),
                             "it is a checkpoint of another model",
                             "use the [model] table that it was trained with (it is in the checkpoint), or another checkpoint"});
}

/// This rank's part of a value.
SavedTensor part_of(const Program& program, ValueId id, const Arena& arena)
{
    const Value& value = program.graph[id];
    TensorPiece piece;
    piece.name = saved_name(value);
    piece.whole = whole_shape(value);
    piece.box = box_of(program.graph, id);
    piece.type = value.type.dtype == DType::f64 ? StoredType::f64 : StoredType::f32;
    return {std::move(piece), HostWindow(arena, kept_buffer(program.schedule, value.name).offset, value.type.bytes())};
}

/// Of the ranks that hold the same part, the first along each axis saves it.
bool is_first_holder(const Graph& graph, const Value& value)
{
    for (std::size_t a = 0; a < graph.at.size(); ++a) {
        const std::string& axis = graph.mesh.axes[a].name;
        const bool cuts = axis == "pipeline" || std::any_of(value.sharding.dims.begin(), value.sharding.dims.end(), [&](const DimSharding& dim) {
                              return std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end();
                          });
        if (!cuts && graph.at[a] != 0)
            return false;
    }
    return true;
}

void read(const CheckpointReader& checkpoint, SavedTensor& tensor)
{
    tensor.piece.data = tensor.window.data();
    checkpoint.read(tensor.piece);
    tensor.window.push();
    tensor.release();
}

} // namespace

void SavedTensor::pull()
{
    window.pull();
    piece.data = window.data();
}

void SavedTensor::release()
{
    window.release();
    piece.data = nullptr;
}

std::vector<SavedTensor> saved_tensors(const Program& program, const Arena& arena, const std::set<std::string>& of_earlier_stages)
{
    std::vector<SavedTensor> tensors;
    for (const Role role : {Role::parameter, Role::state})
        for (const ValueId id : program.graph.with_role(role)) {
            tensors.push_back(part_of(program, id, arena));
            TensorPiece& piece = tensors.back().piece;
            piece.save = is_first_holder(program.graph, program.graph[id]) && of_earlier_stages.count(piece.name) == 0;
        }
    return tensors;
}

std::set<std::string> names_of_earlier_stages(const Program& program, const Grid& grid)
{
    std::string own;
    for (const Role role : {Role::parameter, Role::state})
        for (const ValueId id : program.graph.with_role(role))
            own += saved_name(program.graph[id]) + "\n";
    Comm& stages = grid.along("pipeline");
    const std::vector<std::string> all = gather_texts(stages, own);
    std::set<std::string> names;
    for (int stage = 0; stage < stages.rank(); ++stage) {
        std::istringstream lines(all[static_cast<std::size_t>(stage)]);
        for (std::string line; std::getline(lines, line);)
            names.insert(line);
    }
    return names;
}

void restore(const CheckpointReader& checkpoint, const Program& program, std::vector<SavedTensor>& tensors)
{
    refuse_strangers(checkpoint, program);
    for (SavedTensor& tensor : tensors)
        read(checkpoint, tensor);
}

void restore_parameters(const CheckpointReader& checkpoint, const Program& program, const Arena& arena)
{
    refuse_strangers(checkpoint, program);
    std::vector<float> rows;
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        SavedTensor tensor = part_of(program, id, arena);
        if (program.graph[id].type.dtype != DType::bf16) {
            read(checkpoint, tensor);
            continue;
        }
        // A bounded number of f32 values at a time: slabs of the first dimension.
        const TensorPiece& piece = tensor.piece;
        auto* to = reinterpret_cast<bf16*>(tensor.window.data());
        const i64 row = piece.count() / piece.box.shape[0], at_once = std::max<i64>(1, (i64{1} << 20) / row);
        for (i64 begin = 0; begin < piece.box.shape[0]; begin += at_once) {
            TensorPiece slab = piece;
            slab.box.offset[0] += begin;
            slab.box.shape[0] = std::min(at_once, piece.box.shape[0] - begin);
            rows.resize(static_cast<std::size_t>(slab.count()));
            slab.data = rows.data();
            checkpoint.read(slab);
            std::copy(rows.begin(), rows.end(), to + begin * row);
        }
        tensor.window.push();
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
    const std::string& theirs = checkpoint.state().tokenizer; // empty: imported, of a tokenizer that Trivium does not read
    if (!theirs.empty() && theirs != tokenizer)
        throw UserError({place, "has another tokenizer than " + checkpoint.path() + " was trained with",
                         tokenizer + " and " + theirs, "use the tokenizer of the model"});
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
    wanted.resume = path.empty() ? config.dir : path;
    if (path.empty() && list_checkpoints(config.dir).empty())
        throw UserError({config.dir, "holds no checkpoint", "no run has saved there yet",
                         "train first, or name one with --checkpoint"});
    return CheckpointReader::open(*restore_newest(*make_self_comm(), wanted, [](const CheckpointReader&) {}));
}

} // namespace trivium
