#include "train/save/saved_tensors.hpp"

#include "base/check.hpp"
#include "io/checkpoint/values.hpp"
#include "runtime/initialise.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace trivium {

namespace {

constexpr std::string_view averages = "ema/";

/// A checkpoint with parameters that this model lacks belongs to another model.
void require_parameters_of_model(const CheckpointReader& checkpoint,
                                 const std::vector<CheckpointReader::Entry>& entries, const Program& program)
{
    std::set<std::string> known;
    for (const ValueId id : program.sharded->with_role(Role::parameter))
        known.insert("param/" + (*program.sharded)[id].name);
    for (const CheckpointReader::Entry& entry : entries)
        if (entry.name.starts_with("param/") && known.count(entry.name) == 0)
            throw UserError({checkpoint.path(),
                             str("contains '", entry.name, "', which this model does not have"),
                             "it is a checkpoint of another model",
                             "use the [model] table with which it was trained (it is in the checkpoint), or "
                             "another checkpoint"});
}

/// Each optimizer keeps other states, so a checkpoint of another one lacks some.
void require_states(const CheckpointReader& checkpoint, const std::vector<CheckpointReader::Entry>& entries,
                    const std::vector<SavedTensor>& tensors)
{
    std::set<std::string> saved;
    for (const CheckpointReader::Entry& entry : entries)
        saved.insert(entry.name);
    for (const SavedTensor& tensor : tensors)
        if (const std::string& name = tensor.piece.name;
            !name.starts_with("param/") && !name.starts_with(averages) && !saved.count(name))
            throw UserError(
                {checkpoint.path(), str("does not contain '", name, "', a state of this run's optimizer"),
                 "it was saved with another train.optimizer",
                 "set train.optimizer to that of the checkpoint's config, or start a run from its "
                 "weights: train.init_from=" +
                     checkpoint.path() + ", with another checkpoint.dir"});
}

/// The whole shard of a value on this rank.
TensorPiece piece_of(const Value& value, const std::string& name, Box box)
{
    return {name,
            whole_shape(value),
            std::move(box),
            value.type.dtype == DType::f64 ? DType::f64 : DType::f32,
            nullptr,
            true,
            {}};
}

/// An average that the checkpoint lacks begins with the parameter.
void read(const CheckpointReader& checkpoint, SavedTensor& tensor)
{
    TensorPiece piece = tensor.piece;
    if (piece.name.starts_with(averages) && !checkpoint.has(piece.name))
        piece.name.replace(0, averages.size(), "param/");
    piece.data = tensor.window.data();
    checkpoint.read(piece);
    require_finite(checkpoint, piece);
    tensor.window.push();
    tensor.window.release();
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
    part.data = data != nullptr || !part.save ? data : window.data() + rows.begin * row_bytes;
    return part;
}

void SavedTensor::copy_written(std::byte* to)
{
    if (written() == 0)
        return;
    window.pull();
    std::memcpy(to, window.data() + rows.begin * row_bytes, static_cast<std::size_t>(written()));
    window.release();
}

std::vector<SavedTensor> saved_tensors(const Compiled& compiled, const Arenas& arenas)
{
    const Program& train = compiled.programs[train_program];
    std::vector<SavedTensor> tensors;
    for (const SavedValue& saved : saved_values(train, compiled.at, compiled.holders)) {
        const Value& value = train.graph[saved.value];
        tensors.push_back({piece_of(value, saved.name, saved.box),
                           kept_window(train.schedule, value.name, arenas), saved.rows, saved.row_bytes});
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
        if (!average.piece.name.starts_with(averages))
            continue;
        const std::string name = "param/" + average.piece.name.substr(averages.size());
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

void restore_parameters(const CheckpointReader& checkpoint, const Program& program, const Arenas& arenas)
{
    require_parameters_of_model(checkpoint, checkpoint.tensors(), program);
    std::vector<float> rows;
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& value = program.graph[id];
        SavedTensor tensor{piece_of(value, "param/" + value.name, box_of(program.graph, value)),
                           kept_window(program.schedule, value.name, arenas),
                           {},
                           0};
        if (value.type.dtype != DType::bf16) {
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
            require_finite(checkpoint, slab);
            std::copy(rows.begin(), rows.end(), to + begin * row);
        }
        tensor.window.push();
    }
}

} // namespace trivium
