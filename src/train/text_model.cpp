#include "train/text_model.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "train/data/inputs.hpp"
#include "train/rank_engine.hpp"
#include "train/text_rows.hpp"

#include <exception>
#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

namespace trivium {

namespace {

constexpr i64 usual_chunk = 64;
/// Of the logits of a call of `score` on a rank.
constexpr Bytes most_scores = Bytes{64} << 20;
enum : i32 { end_of_work = -1, failed_work = -2 }; // in place of a program

/// Waits for rank 0. It may take long to think of something: after a while this looks only now and then.
void wait_patiently(Request& request)
{
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    while (!request.test())
        if (Clock::now() - begin < std::chrono::milliseconds(5))
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// A call of the generator as all ranks see it.
struct Command {
    GeneratorCall call;
    std::vector<IndexRange> wanted; ///< by row
};

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
    std::vector<i32> message; ///< program, then of each row start, given and wanted, then the tokens

    bool is_first() const { return comm->rank() == 0; }
    std::size_t row_count() const { return static_cast<std::size_t>(rows); }
    std::size_t message_size() const
    {
        return 1 + row_count() * static_cast<std::size_t>(4 + generator->queries(prefill_program));
    }
    void share();
    void write(const Command& command);
    Command read() const;
    std::vector<std::vector<double>> run(const Command& command);
    void find_senders(std::size_t program);
    std::vector<double> packed(const Command& command, const Box& part) const;
    void unpack(const Command& command, const Box& part, std::span<const double> from,
                std::vector<std::vector<double>>& logits) const;
};

void TextModel::Parts::share()
{
    const Piece piece{reinterpret_cast<std::byte*>(message.data()),
                      static_cast<Bytes>(message.size() * sizeof(i32))};
    const std::unique_ptr<Request> request = comm->broadcast(piece);
    if (is_first())
        request->wait();
    else
        wait_patiently(*request);
}

void TextModel::Parts::write(const Command& command)
{
    auto at = message.begin();
    *at++ = static_cast<i32>(command.call.program);
    for (std::size_t row = 0; row < row_count(); ++row) {
        *at++ = command.call.start[row];
        *at++ = command.call.given[row];
        *at++ = static_cast<i32>(command.wanted[row].begin);
        *at++ = static_cast<i32>(command.wanted[row].size);
    }
    std::copy(command.call.tokens.begin(), command.call.tokens.end(), at);
}

Command TextModel::Parts::read() const
{
    auto at = message.begin();
    Command command;
    GeneratorCall& call = command.call;
    call.program = static_cast<std::size_t>(*at++);
    for (i64 row = 0; row < rows; ++row) {
        call.start.push_back(*at++);
        call.given.push_back(*at++);
        const i64 begin = *at++;
        command.wanted.push_back({begin, *at++});
    }
    call.tokens.assign(at, at + rows * generator->queries(call.program));
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
    std::vector<double> numbers;
    for (i64 row = 0; row < part.shape[0]; ++row) {
        const IndexRange wanted = command.wanted[static_cast<std::size_t>(part.offset[0] + row)];
        const std::size_t before = numbers.size();
        numbers.resize(before + static_cast<std::size_t>(wanted.size * width));
        if (wanted.size > 0)
            generator->copy_logits(command.call.program, (row * queries + wanted.begin) * width,
                                   std::span(numbers).subspan(before));
    }
    return numbers;
}

void TextModel::Parts::unpack(const Command& command, const Box& part, std::span<const double> from,
                              std::vector<std::vector<double>>& logits) const
{
    const auto width = static_cast<std::size_t>(part.shape.back());
    for (i64 i = 0; i < part.shape[0]; ++i) {
        const auto row = static_cast<std::size_t>(part.offset[0] + i);
        for (i64 token = 0; token < command.wanted[row].size; ++token) {
            std::copy_n(from.begin(), width,
                        logits[row].begin() + token * generator->vocab() + part.offset.back());
            from = from.subspan(width);
        }
    }
}

std::vector<std::vector<double>> TextModel::Parts::run(const Command& command)
{
    generator->run(command.call);
    std::vector<std::vector<double>> logits;
    if (is_first())
        for (const IndexRange& wanted : command.wanted)
            logits.emplace_back(static_cast<std::size_t>(wanted.size * generator->vocab()));
    const auto piece_of = [](std::vector<double>& numbers) {
        return Piece{reinterpret_cast<std::byte*>(numbers.data()),
                     static_cast<Bytes>(numbers.size() * sizeof(double))};
    };
    for (const auto& [sender, part] : senders[command.call.program]) {
        if (sender == comm->rank()) {
            std::vector<double> own = packed(command, part);
            if (is_first())
                unpack(command, part, own, logits);
            else if (!own.empty())
                comm->send(0, 0, piece_of(own))->wait();
        } else if (is_first()) {
            i64 count = 0;
            for (i64 i = 0; i < part.shape[0]; ++i)
                count += command.wanted[static_cast<std::size_t>(part.offset[0] + i)].size;
            std::vector<double> numbers(static_cast<std::size_t>(count * part.shape.back()));
            if (!numbers.empty())
                comm->receive(sender, 0, piece_of(numbers))->wait();
            unpack(command, part, numbers, logits);
        }
    }
    return logits;
}

TextModel::TextModel(const RunConfig& config, Comm& world, const TextModelConfig& options)
    : parts_(std::make_unique<Parts>())
{
    Parts& p = *parts_;
    succeed_together(world, [&] {
        if (config.model.is_program())
            throw UserError({"model.family", "is \"graph\": a program of the user's own generates no text",
                             "", "evaluate it with `trivium eval`"});
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
    const CheckpointReader checkpoint =
        open_checkpoint_together(world, options.checkpoint, config, options.average);
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
    p.config = config_on(world, config, compile);
    p.rows = shape_on(p.config.parallel).rows;
    p.rank.emplace(p.config, world, compile);
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

std::vector<TextResult> TextModel::complete(const std::vector<TextRequest>& requests, const OnToken& on_token)
{
    Parts& p = *parts_;
    TRV_CHECK(p.leads, "not within lead() on rank 0");
    for (const TextRequest& request : requests)
        TRV_CHECK(why_refused(request).empty(), "a request ", why_refused(request));
    const TextRowsShape shape{p.rows, p.generator->queries(prefill_program), p.generator->vocab(), p.vocab};
    return complete_on_rows(
        shape, *p.tokenizer, requests,
        [&](const GeneratorCall& call, const std::vector<IndexRange>& wanted) {
            const Command command{call, wanted};
            p.write(command);
            p.computes = true;
            p.share();
            std::vector<std::vector<double>> logits = p.run(command);
            p.computes = false;
            return logits;
        },
        on_token);
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
