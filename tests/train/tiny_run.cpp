#include "train/tiny_run.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/words.hpp"
#include "io/metrics/metrics.hpp"
#include "io/tokens/token_store.hpp"
#include "kernels/runtime.hpp"
#include "train/trainer.hpp"

#include <cstring>

namespace trivium::tiny {

namespace {

constexpr i64 words = 261, steps = 8;

/// Shared by all Trainers of this process, because Kokkos starts only once.
void start()
{
    static const kernels::Runtime runtime(1);
    set_log_level(LogLevel::quiet);
}

} // namespace

std::string Layout::text() const
{
    return str("data ", data, " x pipeline ", pipeline, " x tensor ", tensor, ", zero ", zero,
               shard > 0 ? str(" in groups of ", shard) : "",
               order.empty() ? "" : ", order " + joined_words(order, " "), ", ", schedule,
               sequence ? ", sequence" : "", ", microbatches of ", micro_batch);
}

const std::vector<Layout>& layouts()
{
    const std::string gpipe = "gpipe", alternating = "1f1b";
    static const std::vector<Layout> all{{1, 1, 1, 0, alternating, true, 12},
                                         {6, 1, 1, 3, alternating, true, 2},
                                         {1, 1, 2, 0, alternating, true, 4},
                                         {3, 1, 1, 1, alternating, true, 2},
                                         {1, 3, 1, 0, alternating, true, 1},
                                         {1, 2, 2, 0, gpipe, false, 6},
                                         {1, 1, 5, 0, alternating, true, 12},
                                         {1, 5, 1, 0, gpipe, true, 2},
                                         {3, 2, 1, 2, gpipe, true, 2},
                                         {2, 1, 3, 1, alternating, true, 6},
                                         {2, 2, 2, 3, alternating, true, 2},
                                         {4, 1, 2, 3, gpipe, false, 3, 2, {"tensor", "pipeline", "data"}}};
    return all;
}

Model model_of(int number) { return {number % 2 == 0 ? Family::llama : Family::gpt2, number / 2 % 2 == 1}; }

Ground::Ground(std::string folder) : folder_(std::move(folder))
{
    start();
    TokenStoreWriter store(folder_ + "/train.h5", *make_tokenizer("bytes"));
    std::vector<i32> ids(2000);
    unsigned random = 1;
    for (i32& id : ids) {
        random = random * 1664525u + 1013904223u;
        id = static_cast<i32>((random >> 16) % 97 *
                              ((random >> 8) % 3)); // some tokens are frequent, some never occur
    }
    store.add(ids, static_cast<Bytes>(ids.size()));
    store.finish();
}

RunConfig Ground::config(const Model& model, Precision precision, const Layout& layout,
                         const std::string& name) const
{
    RunConfig c;
    set_family(c.model, model.family);
    c.model.tied_embeddings = model.tied;
    c.model.layers = 5;
    c.model.heads = 10;
    c.model.kv_heads = 5;
    c.model.dim = 40;
    c.model.ffn_dim = 13;
    c.model.vocab = words;
    c.model.seq = 7;
    c.data.train = folder_ + "/train.h5";
    c.train.steps = steps;
    c.train.global_batch = 12;
    c.train.micro_batch = layout.micro_batch;
    c.train.lr = 3e-3;
    c.train.warmup = 2;
    c.train.precision = precision;
    c.parallel.data = layout.data;
    c.parallel.pipeline = layout.pipeline;
    c.parallel.tensor = layout.tensor;
    c.parallel.zero = layout.zero;
    c.parallel.shard = layout.shard;
    c.parallel.order = layout.order;
    c.parallel.schedule = layout.schedule;
    c.parallel.sequence = layout.sequence;
    c.parallel.threads = 1;
    c.checkpoint.dir = folder_ + "/" + name;
    c.checkpoint.keep = 0;
    c.log.dir = folder_ + "/" + name + "-log";
    return c;
}

std::vector<double> train(const RunConfig& config, i64 from)
{
    RunConfig resolved = config;
    resolve_and_validate(resolved);
    const RunSignals signals;
    run_on_threads(static_cast<int>(rank_count(resolved.parallel)), [&](Comm& world) {
        std::optional<LaunchLog> launches;
        const int status = Trainer(resolved, "test", world, {launches, signals}).run();
        TRV_CHECK(status == 0, "a run ended with ", status);
    });
    std::vector<double> losses;
    for (const MetricsRecord& record : read_metrics(config.log.dir))
        if (record.step >= from)
            losses.push_back(record.value("loss"));
    return losses;
}

RunConfig standing_still(RunConfig config)
{
    // Gradients times 0, which enter the moments with the factor 1 - beta, and no step along them. In f32
    // this beta is 1, so that only x = 1 x + 0 remains.
    config.train.beta1 = config.train.beta2 = config.train.momentum = 1 - 0x1p-53;
    config.train.grad_clip = 1e-300;
    config.train.lr = config.train.min_lr = 0;
    config.train.stop_after = 1;
    return config;
}

Content content(const std::string& checkpoint)
{
    const CheckpointReader reader = CheckpointReader::open(checkpoint);
    Content all{reader.state(), {}};
    for (const CheckpointReader::Entry& entry : reader.tensors()) {
        std::vector<std::byte>& bytes = all.tensors[entry.name];
        bytes.resize(static_cast<std::size_t>(element_count(entry.shape) * size_of(entry.type)));
        reader.read(whole_tensor(entry.name, entry.shape, entry.type, bytes.data()));
    }
    return all;
}

std::string difference(const Content& got, const Content& want)
{
    for (const auto& [name, bytes] : want.tensors) {
        const auto found = got.tensors.find(name);
        if (found == got.tensors.end())
            return "no " + name;
        if (found->second.size() != bytes.size())
            return str(name, " has ", found->second.size(), " bytes, not ", bytes.size());
        const auto at = std::mismatch(bytes.begin(), bytes.end(), found->second.begin()).first;
        if (at != bytes.end())
            return str(name, " from byte ", at - bytes.begin(), " of ", bytes.size(), " on");
    }
    return got.tensors.size() == want.tensors.size() ? "" : "a tensor too many";
}

} // namespace trivium::tiny
