#pragma once
// Tiny runs of the Trainer, with ranks as threads of this process.
#include "config/run_config.hpp"
#include "io/checkpoint/checkpoint.hpp"

#include <map>
#include <string>
#include <vector>

namespace trivium::tiny {

/// A grid for a run.
struct Layout {
    i64 data = 1, pipeline = 1, tensor = 1;
    i64 zero = 0;
    std::string schedule = "1f1b";
    bool sequence = true;
    i64 micro_batch = 1; ///< of a data rank

    i64 shard = 0;
    std::vector<std::string> order = {}; ///< parallel.order
    i64 ranks() const { return data * pipeline * tensor; }
    std::string text() const;
};

/// 1 to 8 ranks: every axis alone and with others, all stages of ZeRO, also in groups, both schedules. Five
/// heads, seven blocks, 13 feed-forward columns and 261 tokens do not divide evenly over most of them. Six
/// data ranks share biases of 5 x 2 x 4 and 5 x 4.
const std::vector<Layout>& layouts();

/// One of four models: both families, with and without tied embeddings.
struct Model {
    Family family = Family::llama;
    bool tied = false;
};
Model model_of(int number);

/// A folder with a token store for tiny models, for checkpoints and for logs.
class Ground {
public:
    explicit Ground(std::string folder);
    /// Eight steps of twelve sequences, with output in FOLDER/NAME and FOLDER/NAME-log.
    RunConfig config(const Model& model, Precision precision, const Layout& layout,
                     const std::string& name) const;
    std::string path(const std::string& name) const { return folder_ + "/" + name; }

private:
    std::string folder_;
};

/// Trains on threads; returns the losses in metrics.jsonl from step `from` on. Errors as Trainer.
std::vector<double> train(const RunConfig& config, i64 from = 1);

/// A step that counts but changes no parameter and no moment, so the run saves what it restored.
RunConfig standing_still(RunConfig config);

/// The content of a checkpoint: each tensor's bytes, by name.
struct Content {
    RunState state;
    std::map<std::string, std::vector<std::byte>> tensors;
};
Content content(const std::string& checkpoint);

/// The first tensor with a different bit, and its place; "" if there is none.
std::string difference(const Content& got, const Content& want);

} // namespace trivium::tiny
