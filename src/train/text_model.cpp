#include "train/text_model.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "train/data/inputs.hpp"
#include "train/rank_engine.hpp"
#include "train/text_rows.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <set>

namespace trivium {

namespace {

constexpr i64 usual_chunk = 64;
/// Of the logits of a call of `score` on a rank.
constexpr Bytes most_scores = Bytes{64} << 20;
enum : i32 { end_of_work = -1, failed_work = -2 }; // in place of a program

/// A call of the generator as all ranks see it.
struct Command {
    GeneratorCall call;
    std::vector<WantedLogits> wanted; ///< by row
};
constexpr std::size_t numbers_of_row = 7; ///< in a message, apart from tokens

void append(std::vector<double>& numbers, const ScorePart& part)
{
    numbers.insert(numbers.end(), {part.most, part.sum, part.picked});
    for (const auto& [id, logit] : part.top)
        numbers.insert(numbers.end(), {static_cast<double>(id), logit});
}

ScorePart take_score(std::span<const double>& numbers, i64 top)
{
    ScorePart part{numbers[0], numbers[1], numbers[2], {}};
    numbers = numbers.subspan(3);
    for (i64 i = 0; i < top; ++i, numbers = numbers.subspan(2))
        part.top.emplace_back(static_cast<i32>(numbers[0]), numbers[1]);
    return part;
}

} // namespace

struct TextModel::Parts {
    RunConfig config;
    std::unique_ptr<Tokenizer> tokenizer;
    std::unique_ptr<Comm> comm; ///< all ranks; messages of its own
    std::string checkpoint;
    i64 step = 0, rows = 0, capacity = 0, vocab = 0;
    std::optional<RankEngine> rank;
    std::optional<Generator> generator;
    bool computes = false; ///< a command is on its way
    bool leads = false;
    /// By program: ranks of the last pipeline stage that together have all logits, once, with their parts.
    std::vector<std::vector<std::pair<int, Box>>> senders;
    std::vector<i32> message; ///< program, then numbers_of_row of each row, then the tokens

    bool is_first() const { return comm->rank() == 0; }
    std::size_t row_count() const { return static_cast<std::size_t>(rows); }
    std::size_t message_size() const
    {
        return 1 +
               row_count() * (numbers_of_row + static_cast<std::size_t>(generator->queries(prefill_program)));
    }
    void share();
    void write(const Command& command);
    Command read() const;
    std::vector<RowLogits> run(const Command& command);
    void find_senders(std::size_t program);
    /// This rank's part, row after row: the parts of scores, then of the last logits.
    std::vector<double> packed(const Command& command, const Box& part) const;
    std::size_t packed_size(const Command& command, const Box& part) const;
};

void TextModel::Parts::share()
{
    const Piece piece{reinterpret_cast<std::byte*>(message.data()),
                      static_cast<Bytes>(message.size() * sizeof(i32))};
    comm->broadcast(piece)->wait(); // which may take long: rank 0 may wait for a client
}

void TextModel::Parts::write(const Command& command)
{
    auto at = message.begin();
    *at++ = static_cast<i32>(command.call.program);
    for (std::size_t row = 0; row < row_count(); ++row) {
        const WantedLogits& wanted = command.wanted[row];
        for (const i64 number : {i64{command.call.start[row]}, i64{command.call.given[row]}, wanted.first,
                                 static_cast<i64>(wanted.targets.size()), wanted.top, i64{wanted.last},
                                 wanted.targets.empty() ? 0 : i64{wanted.targets.back()}})
            *at++ = static_cast<i32>(number);
    }
    std::copy(command.call.tokens.begin(), command.call.tokens.end(), at);
}

Command TextModel::Parts::read() const
{
    Command command;
    GeneratorCall& call = command.call;
    call.program = static_cast<std::size_t>(message[0]);
    const i64 queries = generator->queries(call.program);
    const auto tokens = message.begin() + static_cast<std::ptrdiff_t>(1 + row_count() * numbers_of_row);
    call.tokens.assign(tokens, tokens + rows * queries);
    for (std::size_t row = 0; row < row_count(); ++row) {
        const i32* const at = &message[1 + row * numbers_of_row];
        call.start.push_back(at[0]);
        call.given.push_back(at[1]);
        WantedLogits wanted{at[2], std::vector<i32>(static_cast<std::size_t>(at[3]), at[6]), at[4],
                            at[5] != 0};
        if (!wanted.targets.empty()) // the last one may not be a token of the call
            std::copy_n(tokens + static_cast<std::ptrdiff_t>(row) * queries + wanted.first + 1,
                        wanted.targets.size() - 1, wanted.targets.begin());
        command.wanted.push_back(std::move(wanted));
    }
    return command;
}

void TextModel::Parts::find_senders(std::size_t program)
{
    const Mesh& mesh = rank->grid().mesh();
    senders.emplace_back();
    std::set<std::pair<Shape, Shape>> parts;
    for (i64 other = 0; other < mesh.ranks(); ++other)
        if (stage_of(mesh, other) + 1 == mesh.size(pipeline_axis))
            if (const Box part = generator->part(program, mesh.coordinates(other));
                parts.emplace(part.offset, part.shape).second)
                senders.back().emplace_back(static_cast<int>(other), part);
}

std::vector<double> TextModel::Parts::packed(const Command& command, const Box& part) const
{
    const i64 width = part.shape.back(), queries = part.shape.size() == 3 ? part.shape[1] : 1;
    std::vector<double> logits(static_cast<std::size_t>(width)), numbers;
    for (i64 row = 0; row < part.shape[0]; ++row) {
        const auto global = static_cast<std::size_t>(part.offset[0] + row);
        const WantedLogits& wanted = command.wanted[global];
        const auto load = [&](i64 token) {
            generator->copy_logits(command.call.program, (row * queries + token) * width, logits);
        };
        for (std::size_t i = 0; i < wanted.targets.size(); ++i) {
            load(wanted.first + static_cast<i64>(i));
            append(numbers,
                   score_part(logits, static_cast<i32>(part.offset.back()), wanted.targets[i], wanted.top));
        }
        if (wanted.last) {
            load(queries == 1 ? 0 : command.call.given[global] - 1);
            numbers.insert(numbers.end(), logits.begin(), logits.end());
        }
    }
    return numbers;
}

std::size_t TextModel::Parts::packed_size(const Command& command, const Box& part) const
{
    i64 size = 0;
    for (i64 row = 0; row < part.shape[0]; ++row) {
        const WantedLogits& wanted = command.wanted[static_cast<std::size_t>(part.offset[0] + row)];
        size += static_cast<i64>(wanted.targets.size()) *
                    (3 + 2 * std::clamp<i64>(wanted.top, 0, part.shape.back())) +
                (wanted.last ? part.shape.back() : 0);
    }
    return static_cast<std::size_t>(size);
}

std::vector<RowLogits> TextModel::Parts::run(const Command& command)
{
    generator->run(command.call);
    std::vector<RowLogits> logits(is_first() ? row_count() : 0);
    std::vector<std::vector<std::vector<ScorePart>>> scores(logits.size()); // by row and token
    const auto unpack = [&](const Box& part, std::span<const double> numbers) {
        for (i64 row = 0; row < part.shape[0]; ++row) {
            const auto global = static_cast<std::size_t>(part.offset[0] + row);
            const WantedLogits& wanted = command.wanted[global];
            scores[global].resize(wanted.targets.size());
            for (std::vector<ScorePart>& parts : scores[global])
                parts.push_back(take_score(numbers, std::clamp<i64>(wanted.top, 0, part.shape.back())));
            if (!wanted.last)
                continue;
            logits[global].last.resize(static_cast<std::size_t>(generator->vocab()));
            const auto width = static_cast<std::size_t>(part.shape.back());
            std::copy_n(numbers.begin(), width, logits[global].last.begin() + part.offset.back());
            numbers = numbers.subspan(width);
        }
    };
    const auto piece_of = [](std::vector<double>& numbers) {
        return Piece{reinterpret_cast<std::byte*>(numbers.data()),
                     static_cast<Bytes>(numbers.size() * sizeof(double))};
    };
    for (const auto& [sender, part] : senders[command.call.program]) {
        std::vector<double> numbers;
        if (sender == comm->rank())
            numbers = packed(command, part);
        else if (is_first())
            numbers.resize(packed_size(command, part));
        if (!numbers.empty() && sender != 0 && sender == comm->rank())
            comm->send(0, 0, piece_of(numbers))->wait();
        else if (!numbers.empty() && sender != 0)
            comm->receive(sender, 0, piece_of(numbers))->wait();
        if (is_first())
            unpack(part, numbers);
    }
    for (std::size_t row = 0; row < logits.size(); ++row)
        for (std::size_t i = 0; i < scores[row].size(); ++i)
            logits[row].scores.push_back(
                score_of(scores[row][i], command.wanted[row].targets[i], command.wanted[row].top));
    return logits;
}

void require_text(const ModelConfig& model)
{
    if (model.is_program())
        throw UserError({"model.family", "is \"graph\": a program of the user's own generates no text", "",
                         "evaluate it with `trivium eval`"});
}

TextModel::TextModel(const RunConfig& config, Comm& world, const TextModelConfig& options)
    : parts_(std::make_unique<Parts>())
{
    Parts& p = *parts_;
    succeed_together(world, [&] {
        require_text(config.model);
        p.tokenizer = tokenizer_of(config.data);
        p.capacity = options.capacity > 0 ? options.capacity : config.model.seq;
        if (p.capacity > config.model.seq && config.model.positions == Positions::learned)
            throw UserError({"model.seq",
                             str("sequences of ", p.capacity,
                                 " tokens need as many positions, but the model has ", config.model.seq),
                             "its positions are learned", "use fewer tokens or a shorter prompt"});
    });
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    p.comm = world.subgroup(all);
    p.config = config;
    const CheckpointReader checkpoint =
        open_checkpoint_together(world, options.checkpoint, p.config, options.average);
    p.checkpoint = checkpoint.path();
    p.step = checkpoint.state().step;
    succeed_together(
        world, [&] { require_same_tokenizer(checkpoint, p.tokenizer->fingerprint(), "data.tokenizer"); });
    const auto shape_on = [&](const ParallelConfig& grid) {
        GenerationShape shape;
        const i64 sharers = rows_on(grid, 1);
        shape.rows = options.rows * sharers;
        if (options.requests > 0)
            shape.rows = std::min(shape.rows, rows_on(grid, options.requests));
        shape.prefill = std::min(usual_chunk, p.capacity);
        shape.scores = options.scores;
        if (options.scores) {
            const i64 each = shape.rows / sharers * ceil_div(config.model.vocab, grid.tensor) *
                             size_of(compute_type(config.train.precision));
            shape.prefill = std::clamp<i64>(most_scores / each, 1, shape.prefill);
        }
        shape.capacity = p.capacity + shape.prefill; // also for a padded chunk behind the last token
        return shape;
    };
    const CompileRank compile = [&](const RunConfig& on, const CompileConfig& own) {
        return compile_generation(on, shape_on(on.parallel), own);
    };
    p.config = config_on(world, p.config, compile);
    p.rows = shape_on(p.config.parallel).rows;
    p.rank.emplace(p.config, world, compile, options.lower);
    p.rank->restore(checkpoint);
    p.generator.emplace(p.rank->engine());
    for (std::size_t program = 0; program < (options.scores ? 3 : 2); ++program)
        p.find_senders(program);
    p.vocab = std::min(p.tokenizer->vocab_size(), config.model.vocab);
    p.message.resize(p.message_size());
}

TextModel::~TextModel() = default;

void TextModel::lead(const std::function<void()>& work)
{
    Parts& p = *parts_;
    std::exception_ptr error;
    if (p.is_first()) {
        p.leads = true;
        try {
            work();
        } catch (...) {
            if (p.computes) // the others are not where they could hear of it
                throw;
            error = std::current_exception();
        }
        p.leads = false;
        p.message[0] = error ? failed_work : end_of_work;
        p.share();
    } else {
        for (p.share(); p.message[0] >= 0; p.share())
            p.run(p.read());
    }
    if (p.message[0] == failed_work)
        succeed_together(*p.comm, [&] {
            if (error)
                std::rethrow_exception(error);
        });
}

void TextModel::complete(const TextFlow& flow)
{
    Parts& p = *parts_;
    TRV_CHECK(p.leads, "not within lead() on rank 0");
    TextFlow checked = flow;
    checked.next = [&]() {
        const std::optional<TextFlow::Item> item = flow.next();
        TRV_CHECK(!item || why_refused(*item->request).empty(), "a request ", why_refused(*item->request));
        return item;
    };
    const TextRowsShape shape{p.rows, p.generator->queries(prefill_program), p.vocab};
    complete_on_rows(shape, *p.tokenizer, checked,
                     [&](const GeneratorCall& call, const std::vector<WantedLogits>& wanted) {
                         const Command command{call, wanted};
                         p.write(command);
                         p.computes = true;
                         p.share();
                         std::vector<RowLogits> logits = p.run(command);
                         p.computes = false;
                         return logits;
                     });
}

std::vector<TextResult> TextModel::complete(const std::vector<TextRequest>& requests, const OnToken& on_token)
{
    return complete_all(requests, on_token, [&](const TextFlow& flow) { complete(flow); });
}

std::string TextModel::why_refused(const TextRequest& request) const
{
    const auto length = static_cast<i64>(request.prompt.size());
    if (request.prompt.empty())
        return "has no tokens";
    for (const i32 token : request.prompt)
        if (token < 0 || token >= parts_->config.model.vocab)
            return str("has the token ", token, ", but the model has ", parts_->config.model.vocab);
    if (request.tokens < 0)
        return str("asks for ", request.tokens, " tokens");
    // The last sampled token, or of a prompt alone its last one, is not read.
    if (length + request.tokens - 1 > parts_->capacity)
        return request.tokens == 0
                   ? str("has ", counted(length, "token"), ", but the model takes ", parts_->capacity)
                   : str("has ", counted(length, "token"), " and asks for ", request.tokens,
                         ", but the model takes ", parts_->capacity);
    if (request.scored_from > length)
        return str("has ", counted(length, "token"), ", none at ", request.scored_from);
    if (request.scored_from >= 0 && !parts_->generator->has_scores())
        return "asks for scores of its prompt, which this command does not compute";
    if (std::ranges::find(request.stop, "") != request.stop.end())
        return "has an empty stop string";
    return "";
}

const Tokenizer& TextModel::tokenizer() const { return *parts_->tokenizer; }
const RunConfig& TextModel::config() const { return parts_->config; }
i64 TextModel::vocab() const { return parts_->vocab; }
i64 TextModel::rows() const { return parts_->rows; }
i64 TextModel::capacity() const { return parts_->capacity; }
const std::string& TextModel::checkpoint() const { return parts_->checkpoint; }
i64 TextModel::step() const { return parts_->step; }
Bytes TextModel::arena_bytes() const { return parts_->rank->engine().planned(); }

} // namespace trivium
