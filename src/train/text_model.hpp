#pragma once
// A model with its tokenizer that answers requests on all ranks: `generate`, `eval --score` and `serve`.
#include "config/run_config.hpp"
#include "io/tokens/tokenizer.hpp"
#include "mpi/comm.hpp"
#include "train/sampler.hpp"
#include "train/token_score.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trivium {

/// UserError if the model is a program of the user's own.
void require_text(const ModelConfig& model);

/// One prompt, and what is wanted of it.
struct TextRequest {
    std::vector<i32> prompt; ///< at least one id, all of the tokenizer; nothing is put before it
    i64 tokens = 0;          ///< sample at most this many; 0: only the scores of the prompt
    SamplerConfig sampler{};
    std::vector<std::string> stop{}; ///< text that ends the sample and is not part of it; none is empty
    std::vector<i32> ends{};         ///< ids that end the sample, as the tokenizer's eos does
    bool ignores_eos = false;        ///< the tokenizer's eos is a token like others
    i64 top = -1;                    ///< alternatives per score; -1: sampled tokens have no scores
    i64 scored_from = -1;            ///< prompt tokens from this index on have scores; -1: none
};

struct TextResult {
    std::vector<TokenScore> prompt{};  ///< from TextRequest::scored_from on
    std::vector<TokenScore> sampled{}; ///< with the token that ended the sample, if one did
    std::string text{};                ///< of the sample, up to the stop string; special tokens are ""
    /// "length", "stop" (an id or a string ended it) or "cancelled" (TextFlow::wants).
    std::string finish{};
};

/// Called on rank 0 after each sampled token of a request. `text`: what the token made final, since the
/// call before: whole characters, nothing that may become a stop string; the last call of a request has the
/// remainder.
using OnToken = std::function<void(std::size_t id, const TokenScore&, std::string_view text)>;

/// Requests that may come and go while others are computed. What computes them calls these on rank 0.
struct TextFlow {
    struct Item {
        std::size_t id = 0;                   ///< of the request in the calls below
        const TextRequest* request = nullptr; ///< exists until done()
    };
    /// For a row that is free: a request, or none now. Asked before each call of the model.
    std::function<std::optional<Item>()> next;
    /// Whether the rest of the result is still wanted; asked before each call. Without it: always.
    std::function<bool(std::size_t id)> wants{};
    OnToken on_token{};
    std::function<void(std::size_t id, TextResult result)> done;
};

struct TextModelConfig {
    std::string checkpoint;        ///< as open_checkpoint(); empty: the newest good one of the run
    i64 rows = 1;                  ///< sequences that a data rank computes together
    i64 capacity = 0;              ///< tokens of a sequence, prompt and sample; 0: model.seq
    bool scores = false;           ///< whether TextRequest::scored_from may be used
    i64 requests = 0;              ///< so many are there at most at the same time; 0: unknown
    bool average = false;          ///< with the averages of parameters (train.ema)
    std::string lower = "--batch"; ///< options that lower the need of memory, for an error
};

/// Collective over the ranks that the command was started with. Rank 0 has the requests and the results, the
/// others take part. All ranks construct it with the same arguments.
class TextModel {
public:
    /// Reads the checkpoint onto the ranks of `world`, on the grid that config_on() (rank_engine.hpp)
    /// makes of the config's; says on rank 0 if it is another. `world` must outlive it. Throws, on all ranks,
    /// UserError or IoError if the checkpoint is not of this model and tokenizer, or a rank has too little
    /// memory.
    TextModel(const RunConfig& config, Comm& world, const TextModelConfig& options);
    ~TextModel();
    TextModel(const TextModel&) = delete;

    /// Rank 0 runs `work`, in which it may call complete(); the other ranks compute with it until `work`
    /// returns. While rank 0 does nothing, they sleep. All ranks call it; it may be called again. An error
    /// on one rank ends all, as run_session() does.
    void lead(const std::function<void()>& work);

    /// Computes requests until none is there; each begins with the next call of the model when a row is free.
    /// A result depends on its request alone. Only within lead(), on rank 0, in the thread that made the
    /// session. \pre why_refused() of each is empty
    void complete(const TextFlow& flow);
    /// The results of these, in order; `on_token` gets their indices.
    std::vector<TextResult> complete(const std::vector<TextRequest>& requests, const OnToken& on_token = {});

    /// Why a request cannot be answered, e.g. "has 300 tokens and asks for 20, but the model takes 256"; ""
    /// if it can. Any thread of any rank may ask.
    std::string why_refused(const TextRequest& request) const;

    const Tokenizer& tokenizer() const;
    const RunConfig& config() const; ///< with the grid that runs
    i64 vocab() const;               ///< ids that are sampled: of the tokenizer and the model
    i64 rows() const;
    i64 capacity() const;
    const std::string& checkpoint() const; ///< path
    i64 step() const;                      ///< of the checkpoint
    Bytes arena_bytes() const;             ///< of this rank

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

} // namespace trivium
