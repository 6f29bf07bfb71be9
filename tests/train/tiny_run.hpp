#pragma once
// Tiny runs of the Trainer, its ranks threads of this process.
#include "config/run_config.hpp"
#include "io/checkpoint/checkpoint.hpp"

#include <map>
#include <string>
#include <vector>

namespace trivium::tiny {

/// A way to spread a run over ranks.
struct Layout {
    i64 data = 1, pipeline = 1, tensor = 1;
    i64 zero = 0;
    ScheduleKind schedule = ScheduleKind::one_f_one_b;
    bool sequence = true;
    i64 micro_batch = 1; ///< of a data rank

    i64 ranks() const { return data * pipeline * tensor; }
    std::string text() const;
};

/// 1 to 8 ranks: every axis alone and with others, both stages of ZeRO, both schedules. Five heads, seven
/// blocks, 13 feed-forward columns and 261 words do not divide over most of them.
const std::vector<Layout>& layouts();

/// One of four models: both families, tied embeddings and not.
struct Model {
    Family family = Family::llama;
    bool tied = false;
};
Model model_of(int number);

/// A folder with a token store for tiny models. Checkpoints and logs go below it.
class Ground {
public:
    explicit Ground(std::string folder);
    /// Of eight steps of twelve sequences, into FOLDER/NAME and FOLDER/NAME-log.
    RunConfig config(const Model& model, Precision precision, const Layout& layout,
                     const std::string& name) const;
    std::string path(const std::string& name) const { return folder_ + "/" + name; }

private:
    std::string folder_;
};

/// Trains on threads; returns the losses that metrics.jsonl then has from step `from` on. Throws what the
/// Trainer throws.
std::vector<double> train(const RunConfig& config, i64 from = 1);

/// A step that changes no parameter and no moment, and is counted: what the run saves after it is what it
/// restored.
RunConfig standing_still(RunConfig config);

/// What a checkpoint holds: each tensor's bytes, by name.
struct Content {
    RunState state;
    std::map<std::string, std::vector<std::byte>> tensors;
};
Content content(const std::string& checkpoint);

/// The first tensor that is not the same to the bit, and where; "" where all are.
std::string difference(const Content& got, const Content& want);

} // namespace trivium::tiny
