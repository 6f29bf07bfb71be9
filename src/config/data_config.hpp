#pragma once
// The table [data] of a run's config: its token stores, and how samples are made of them.
#include "base/units.hpp"
#include "config/keys.hpp"
#include "config/token_type.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trivium {

/// One store of data.train.
struct DataSource {
    std::string path; ///< a file, a folder or a pattern
    /// Share of the samples, relative to the other stores; absent: their sizes.
    std::optional<double> weight{};
    double epochs = 0;   ///< how often its samples may be read; 0: once
    bool repeat = false; ///< its samples may be read any number of times

    bool operator==(const DataSource&) const = default;
};

/// data.train. A string stands for one store that may be repeated.
struct TrainingStores {
    std::vector<DataSource> list;

    TrainingStores() = default;
    TrainingStores(std::string path);
    TrainingStores(const char* path) : TrainingStores(std::string(path)) {}

    bool empty() const { return list.empty(); }
    /// Whether a string says all: one store, read again as often as the run needs.
    bool is_plain() const { return list.size() == 1 && list[0] == DataSource{list[0].path, {}, 0, true}; }
    std::string text() const; ///< "a.h5, b.h5"
    bool operator==(const TrainingStores&) const = default;
};

/// One store of data.valid.
struct ValidationStore {
    std::string name; ///< of its loss; empty: the only one
    std::string path;

    bool operator==(const ValidationStore&) const = default;
};

/// data.valid. A string stands for one store without a name.
struct ValidationStores {
    std::vector<ValidationStore> list;

    ValidationStores() = default;
    ValidationStores(std::string path);
    ValidationStores(const char* path) : ValidationStores(std::string(path)) {}

    bool empty() const { return list.empty(); }
    std::string text() const; ///< "v.h5", or "web: w.h5, code: c.h5"
    bool operator==(const ValidationStores&) const = default;
};

/// How documents become samples of model.seq + 1 tokens.
enum class SamplePacking { concatenate, best_fit };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<SamplePacking>{"concatenate", "best-fit"};

/// What a token may see of its sample.
enum class SampleAttention { causal, document };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<SampleAttention>{"causal", "document"};

/// Whether the loss of the first token of a document, after the end of another, counts.
enum class BoundaryLoss { automatic, count, ignore };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<BoundaryLoss>{"auto", "count", "ignore"};

/// Whose tokens count in the loss, in stores of chats.
enum class LossOf { trained, all };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<LossOf>{"trained", "all"};

struct DataConfig {
    TrainingStores train;
    ValidationStores valid;
    std::string tokenizer; ///< empty: the store's, or "bytes" without a store
    TokenType token_type = TokenType::automatic;
    i64 eos = -1; ///< -1: the tokenizer's
    SamplePacking packing = SamplePacking::concatenate;
    SampleAttention attention = SampleAttention::causal;
    BoundaryLoss boundary_loss = BoundaryLoss::automatic;
    LossOf loss_of = LossOf::trained;
    std::string chat_template; ///< empty: the one next to the tokenizer

    bool by_documents() const { return attention == SampleAttention::document; }
    bool counts_boundaries() const
    {
        return boundary_loss == BoundaryLoss::count ||
               (boundary_loss == BoundaryLoss::automatic && !by_documents());
    }
    /// Whether there are tokens whose loss does not count: padding, or first tokens of documents.
    bool masks_losses() const { return packing == SamplePacking::best_fit || !counts_boundaries(); }

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("train", self.train, KeyKind::free,
              "token store for training (made by `trivium data tokenize`, or Megatron .bin and .idx, nanoGPT "
              "or llm.c .bin, OLMo or NumPy .npy, datatrove .ds), read again as often as the run "
              "needs; a folder, or a pattern such as \"web_*.bin\", is its files in order of name as one "
              "store; or a list of stores: [{path = \"a.h5\", weight = 0.7}, {path = \"b.h5\", weight = 0.3, "
              "epochs = 2}]. For a graph, in place of token stores, HDF5 files with a dataset for each input "
              "(`trivium data arrays`). `weight`: share of the samples, without weights by size; `epochs`: "
              "how often the "
              "store may be read, by default once; `repeat = true`: any number of times");
        visit("valid", self.valid, KeyKind::free,
              "token store, or arrays, for the validation loss (a file, a folder or a pattern), or several "
              "with names: "
              "{web = \"w.h5\", code = \"c.h5\"}; empty = none");
        visit("tokenizer", self.tokenizer, KeyKind::free,
              "\"bytes\", a SentencePiece model file, or a tokenizer.json (BPE or Unigram); "
              "empty = the tokenizer in the token store");
        visit("token_type", self.token_type, KeyKind::free,
              "integers of a token store of another program that has neither header nor index; auto = by the "
              "content");
        visit("eos", self.eos, KeyKind::free,
              "id that ends a document in token stores of other programs; -1 = the tokenizer's");
        visit("packing", self.packing, KeyKind::training,
              "how documents become samples of model.seq + 1 tokens: windows of all documents in a row "
              "(concatenate), or whole documents where they fit, each in the fullest sample with room for it "
              "(best-fit); longer documents are divided");
        visit("attention", self.attention, KeyKind::training,
              "what a token sees: all tokens of its sample before it (causal), or those of its own document "
              "(document), whose positions begin at 0");
        visit("boundary_loss", self.boundary_loss, KeyKind::training,
              "whether the loss of a document's first token counts, which follows the end of another "
              "document; auto = count with attention = \"causal\", ignore with \"document\"");
        visit("loss_of", self.loss_of, KeyKind::training,
              "whose losses count where a token store says which tokens are trained (chats: those of the "
              "assistant): trained, or all");
        visit("chat_template", self.chat_template, KeyKind::free,
              "file with the chat template for `generate --chat`; empty = that of the checkpoint or next to "
              "the "
              "tokenizer");
    }
};

/// Throws UserError for the first impossible value.
void validate(const DataConfig& config);

} // namespace trivium
