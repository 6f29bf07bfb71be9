// What tests of the care for a run share.
#pragma once

#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "train/life_cycle_run.hpp"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace trivium;

using Tensors = std::map<std::string, std::vector<double>>;

inline Tensors tensors_of(const std::string& checkpoint)
{
    const CheckpointReader reader = CheckpointReader::open(checkpoint);
    Tensors all;
    for (const auto& entry : reader.tensors()) {
        std::vector<double>& values = all[entry.name];
        values.resize(static_cast<std::size_t>(element_count(entry.shape)));
        reader.read(entry.name, 0, static_cast<i64>(values.size()), DType::f64, values.data());
    }
    return all;
}

inline RunState state_of(const std::string& checkpoint) { return CheckpointReader::open(checkpoint).state(); }

/// Runs with a validation set.
struct Watched : Run {
    static std::vector<std::string> keys(const std::string& name, const std::vector<std::string>& more)
    {
        std::vector<std::string> all{"data.valid=valid.h5", "checkpoint.dir=" + name,
                                     "log.dir=" + name + "-log", "checkpoint.async=false",
                                     "train.eval_batches=4"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    Outcome run(const std::string& name, const std::vector<std::string>& more) const
    {
        return train(keys(name, more));
    }
    std::string at(const std::string& name, i64 step) const
    {
        return folder / (name + "/" + checkpoint_name(step));
    }
    nlohmann::json list(const std::string& name) const
    {
        return nlohmann::json::parse(run_program({"checkpoint", "list", name, "--json"}, folder.path()).out);
    }
    /// The step that list() marks; -1: none.
    i64 marked(const std::string& name) const
    {
        i64 best = -1;
        for (const auto& row : list(name))
            if (row.at("best").get<bool>()) {
                REQUIRE(best == -1);
                best = row.at("step").get<i64>();
            }
        return best;
    }
    /// Lowest valid_loss in the metrics: its step.
    i64 lowest(const std::string& name, const std::string& key = "valid_loss") const
    {
        i64 best = 0;
        double least = INFINITY;
        for (const MetricsRecord& record : metrics(name + "-log"))
            if (record.has(key) && record.value(key) < least) {
                least = record.value(key);
                best = record.step;
            }
        return best;
    }
};

/// Learns quickly, and is spoiled by a rising rate.
inline const std::vector<std::string> rising{
    "train.steps=14",    "train.eval_every=1", "train.eval_batches=4", "train.warmup=14",
    "train.lr=1.2",      "train.min_lr=0",     "checkpoint.every=3",   "checkpoint.best=valid",
    "checkpoint.keep=2", "train.grad_clip=0"};

inline std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more)
{
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
}
