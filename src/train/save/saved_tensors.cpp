#include "train/save/saved_tensors.hpp"

#include "base/check.hpp"
#include "config/trained_parameters.hpp"
#include "io/checkpoint/values.hpp"
#include "runtime/initialise.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace trivium {

namespace {

/// That of the parameter whose state has the name `name`.
std::string parameter_of(const std::string& name)
{
    return std::string(parameter_prefix) + name.substr(name.find('/') + 1);
}

/// A checkpoint with parameters that this model lacks belongs to another model.
void require_parameters_of_model(const CheckpointReader& checkpoint,
                                 const std::vector<CheckpointReader::Entry>& entries, const Program& program)
{
    std::set<std::string> known;
    for (const ValueId id : program.sharded->with_role(Role::parameter))
        known.insert("param/" + (*program.sharded)[id].name);
    for (const CheckpointReader::Entry& entry : entries)
        if (entry.name.starts_with("param/") && known.count(entry.name) == 0 && is_of_adapter(entry.name))
            throw UserError({checkpoint.path(),
                             str("contains '", entry.name, "', an adapter that the config does not have"),
                             "its run had train.lora",
                             "set train.lora to that of the checkpoint's config, or merge the adapters: "
                             "`trivium checkpoint export`, then `import`"});
        else if (entry.name.starts_with("param/") && known.count(entry.name) == 0)
            throw UserError({checkpoint.path(),
                             str("contains '", entry.name, "', which this model does not have"),
                             "it is a checkpoint of another model",
                             "use the [model] table with which it was trained (it is in the checkpoint), or "
                             "another checkpoint"});
}

/// What a run trains and its optimizer decide about the tensors of its checkpoints.
void require_states(const CheckpointReader& checkpoint, const std::vector<CheckpointReader::Entry>& entries,
                    const std::vector<SavedTensor>& tensors)
{
    std::set<std::string> saved;
    for (const CheckpointReader::Entry& entry : entries)
        saved.insert(entry.name);
    for (const SavedTensor& tensor : tensors) {
        const std::string& name = tensor.piece.name;
        if (saved.count(name) || tensor.is_average)
            continue;
        const std::string start = "start a run from its weights: train.init_from=" + checkpoint.path() +
                                  ", with another checkpoint.dir";
        const std::string parameter = name.substr(name.find('/') + 1);
        if (name.starts_with("param/"))
            throw UserError({checkpoint.path(), str("does not contain '", name, "', which this run trains"),
                             is_of_adapter(parameter) ? "its run had no such adapter (train.lora)"
                                                      : "it is a checkpoint of another model",
                             is_of_adapter(parameter)
                                 ? "set train.lora to that of the checkpoint's config, or " + start
                                 : start});
        const bool was_frozen = std::ranges::none_of(saved, [&](const std::string& other) {
            return other.ends_with("/" + parameter) && !other.starts_with("param/") &&
                   !other.starts_with(average_prefix);
        });
        throw UserError(
            {checkpoint.path(), str("does not contain '", name, "', a state of this run's optimizer"),
             was_frozen ? str("'", parameter, "' was frozen when it was saved (train.freeze, train.lora)")
                        : str("it was saved with another train.optimizer, or by a version that updated '",
                              parameter, "' by another one"),
             str(was_frozen ? "freeze it again" : "set train.optimizer to that of the checkpoint's config",
                 ", or ", start)});
    }
}

/// The whole shard of a value on this rank.
TensorPiece piece_of(const Value& value, const std::string& name, Box box)
{
    return {name, whole_shape(value), std::move(box), saved_type(value), nullptr, true, {}};
}

/// bf16: a bounded number of f32 values at a time, slabs of the first dimension.
void read_rounded(const CheckpointReader& checkpoint, SavedTensor& tensor, const TensorPiece& piece)
{
    const i64 rows = piece.box.shape.empty() ? 1 : piece.box.shape[0];
    if (piece.count() == 0)
        return;
    std::vector<float> values;
    auto* to = reinterpret_cast<bf16*>(tensor.window.data());
    const i64 row = piece.count() / rows, at_once = std::max<i64>(1, (i64{1} << 20) / row);
    for (i64 begin = 0; begin < rows; begin += at_once) {
        TensorPiece slab = piece;
        if (!slab.box.shape.empty()) {
            slab.box.offset[0] += begin;
            slab.box.shape[0] = std::min(at_once, rows - begin);
        }
        values.resize(static_cast<std::size_t>(slab.count()));
        slab.data = values.data();
        checkpoint.read(slab);
        require_finite(checkpoint, slab);
        std::copy(values.begin(), values.end(), to + begin * row);
    }
}

/// An average that the checkpoint lacks begins with the parameter.
void read(const CheckpointReader& checkpoint, SavedTensor& tensor)
{
    TensorPiece piece = tensor.piece;
    if (tensor.is_average && !checkpoint.has(piece.name))
        piece.name = parameter_of(piece.name);
    if (tensor.held == tensor.piece.type) {
        piece.data = tensor.window.data();
        checkpoint.read(piece);
        require_finite(checkpoint, piece);
    } else {
        read_rounded(checkpoint, tensor, piece);
    }
    tensor.window.push();
    tensor.window.release();
}

/// bf16 values as f32.
void widen(const std::byte* from, Bytes begin, std::span<std::byte> to)
{
    constexpr auto wide = static_cast<Bytes>(sizeof(float));
    const auto* values = reinterpret_cast<const bf16*>(from) + begin / wide;
    for (std::size_t i = 0; i < to.size() / sizeof(float); ++i) {
        const auto value = static_cast<float>(values[i]);
        std::memcpy(to.data() + i * sizeof(float), &value, sizeof(float));
    }
}

} // namespace

TensorPiece SavedTensor::written_piece(std::byte* data)
{
    TensorPiece part = piece;
    if (!part.box.shape.empty()) {
        part.box.offset[0] += rows.begin;
        part.box.shape[0] = rows.size;
    }
    part.save = rows.size > 0;
    part.data = data;
    if (data != nullptr || !part.save)
        return part;
    if (held == piece.type)
        part.data = own_rows();
    else
        part.fetch = [from = own_rows()](Bytes begin, std::span<std::byte> to) { widen(from, begin, to); };
    return part;
}

std::byte* SavedTensor::own_rows()
{
    return window.data() + rows.begin * (row_bytes / size_of(piece.type) * size_of(held));
}

void SavedTensor::copy_written(std::byte* to)
{
    if (written() == 0)
        return;
    window.pull();
    const auto size = static_cast<std::size_t>(written());
    if (held == piece.type)
        std::memcpy(to, own_rows(), size);
    else
        widen(own_rows(), 0, {to, size});
    window.release();
}

std::vector<SavedTensor> saved_tensors(const Compiled& compiled, const Arenas& arenas)
{
    const Program& train = compiled.programs[train_program];
    std::vector<SavedTensor> tensors;
    for (const SavedValue& saved : saved_values(train, compiled.at, compiled.holders)) {
        const Value& value = train.graph[saved.value];
        tensors.push_back({piece_of(value, saved.name, saved.box),
                           kept_window(train.schedule, value.name, arenas), value.type.dtype, saved.rows,
                           saved.row_bytes, saved.is_average});
    }
    return tensors;
}

void restore(const CheckpointReader& checkpoint, const Program& program, std::vector<SavedTensor>& tensors)
{
    const std::vector<CheckpointReader::Entry> entries = checkpoint.tensors();
    require_parameters_of_model(checkpoint, entries, program);
    if (std::all_of(entries.begin(), entries.end(),
                    [](const CheckpointReader::Entry& entry) { return entry.name.starts_with("param/"); }))
        throw UserError(
            {checkpoint.path(), "contains only weights, so no run can resume from it", "it was imported",
             "start a run from it: train.init_from=" + checkpoint.path() + ", with another checkpoint.dir"});
    require_states(checkpoint, entries, tensors);
    for (SavedTensor& tensor : tensors)
        read(checkpoint, tensor);
}

void begin_averages(std::vector<SavedTensor>& tensors)
{
    for (SavedTensor& average : tensors) {
        if (!average.is_average)
            continue;
        const std::string name = parameter_of(average.piece.name);
        const auto parameter =
            std::ranges::find_if(tensors, [&](const SavedTensor& each) { return each.piece.name == name; });
        TRV_CHECK(parameter != tensors.end() && parameter->piece.box == average.piece.box &&
                      parameter->piece.type == average.piece.type,
                  name, " has other shards than its average");
        parameter->window.pull();
        std::memcpy(average.window.data(), parameter->window.data(),
                    static_cast<std::size_t>(average.piece.bytes()));
        average.window.push();
        average.window.release();
        parameter->window.release();
    }
}

bool restore_parameters(const CheckpointReader& checkpoint, const Program& program, const Arenas& arenas,
                        bool begins)
{
    const std::vector<CheckpointReader::Entry> entries = checkpoint.tensors();
    require_parameters_of_model(checkpoint, entries, program);
    const bool has_some = std::ranges::any_of(
        entries, [](const CheckpointReader::Entry& entry) { return is_of_adapter(entry.name); });
    bool lacks_all = false;
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& value = program.graph[id];
        const bool is_new = is_of_adapter(value.name) && !checkpoint.has("param/" + value.name);
        if (is_new && begins)
            continue;
        if (is_new && !has_some) {
            HostWindow window = kept_window(program.schedule, value.name, arenas);
            std::memset(window.data(), 0, static_cast<std::size_t>(value.type.bytes()));
            window.push();
            lacks_all = true;
            continue;
        }
        SavedTensor tensor{piece_of(value, "param/" + value.name, box_of(program.graph, value)),
                           kept_window(program.schedule, value.name, arenas),
                           value.type.dtype,
                           {},
                           0};
        read(checkpoint, tensor);
    }
    return lacks_all;
}

} // namespace trivium
