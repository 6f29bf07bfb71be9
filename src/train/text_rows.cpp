#include "train/text_rows.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace trivium {

namespace {

/// A request on a row.
class RowOfText {
public:
    RowOfText(const TextFlow::Item& item, const Tokenizer& tokenizer)
        : id_(item.id), request_(item.request), tokenizer_(&tokenizer), sampler_(request_->sampler),
          text_(tokenizer, request_->stop), sequence_(request_->prompt)
    {
        const TextRequest& request = *request_;
        for (const i32 token : request.prompt)
            sampler_.saw(token);
        if (request.scored_from == 0)
            result_.prompt.push_back({request.prompt[0], std::numeric_limits<double>::quiet_NaN(), {}});
        is_done_ = request.tokens == 0 && prompt_end() == 0;
        result_.finish = "length";
    }

    std::size_t id() const { return id_; }
    bool is_done() const { return is_done_; }
    void cancel()
    {
        result_.finish = "cancelled";
        result_.text = text_.text();
        is_done_ = true;
    }
    TextResult& result() { return result_; }
    bool is_in_prompt() const { return cached_ < prompt_end(); }

    /// The program of the next call.
    std::size_t program(i64 chunk) const
    {
        if (!is_in_prompt())
            return decode_program;
        return scored_positions(chunk).size > 0 ? score_program : prefill_program;
    }
    i64 cached() const { return cached_; }
    std::span<const i32> next(i64 chunk) const
    {
        return std::span(sequence_).subspan(
            static_cast<std::size_t>(cached_),
            static_cast<std::size_t>(is_in_prompt() ? std::min(chunk, prompt_end() - cached_) : 1));
    }
    /// Of the next call.
    WantedLogits wanted(i64 chunk) const
    {
        WantedLogits all;
        const i64 end = cached_ + static_cast<i64>(next(chunk).size());
        all.top = request_->top;
        all.last = request_->tokens > 0 && end >= prompt_end();
        if (const IndexRange scored = scored_positions(chunk); is_in_prompt() && scored.size > 0) {
            const auto first = sequence_.begin() + scored.begin + 1;
            all.first = scored.begin - cached_;
            all.targets.assign(first, first + scored.size);
        }
        return all;
    }
    /// After the call; `logits`: what was wanted.
    void computed(i64 chunk, i64 sampled, const RowLogits& logits, const OnToken& on_token)
    {
        result_.prompt.insert(result_.prompt.end(), logits.scores.begin(), logits.scores.end());
        cached_ += static_cast<i64>(next(chunk).size());
        if (!logits.last.empty())
            sample(logits.last, sampled, on_token);
        else if (request_->tokens == 0 && cached_ >= prompt_end())
            is_done_ = true;
    }

private:
    /// Tokens of the prompt that are read: without samples, not the last one.
    i64 prompt_end() const
    {
        return static_cast<i64>(request_->prompt.size()) - (request_->tokens > 0 ? 0 : 1);
    }
    /// Tokens of the next call, by their place in the sequence, whose logits score the token after them.
    IndexRange scored_positions(i64 chunk) const
    {
        if (request_->scored_from < 0)
            return {};
        const i64 end = std::min(cached_ + static_cast<i64>(next(chunk).size()),
                                 static_cast<i64>(request_->prompt.size()) - 1),
                  begin = std::max(cached_, request_->scored_from - 1);
        return {begin, std::max<i64>(0, end - begin)};
    }

    void sample(std::span<const double> logits, i64 sampled, const OnToken& on_token)
    {
        const i32 token = sampler_.pick(logits, sampled);
        sequence_.push_back(token);
        result_.sampled.push_back(request_->top >= 0 ? score_of(logits, token, request_->top)
                                                     : TokenScore{token, 0, {}});
        const bool ends = (token == tokenizer_->eos() && !request_->ignores_eos) ||
                          std::ranges::find(request_->ends, token) != request_->ends.end();
        if (text_.append(token) || ends) {
            result_.finish = "stop";
            is_done_ = true;
        }
        is_done_ = is_done_ || static_cast<i64>(result_.sampled.size()) == request_->tokens;
        if (is_done_)
            result_.text = text_.text();
        if (on_token)
            on_token(id_, result_.sampled.back(), text_.take(is_done_));
    }

    std::size_t id_;
    const TextRequest* request_;
    const Tokenizer* tokenizer_;
    Sampler sampler_;
    SampleText text_;
    std::vector<i32> sequence_;
    i64 cached_ = 0; ///< tokens of the sequence in the cache
    bool is_done_ = false;
    TextResult result_;
};

using Rows = std::vector<std::optional<RowOfText>>;
constexpr std::size_t programs = score_program + 1;

/// Ends what is done or not wanted, and gives free rows what waits. False: no row has work.
bool fill(Rows& rows, const Tokenizer& tokenizer, const TextFlow& flow)
{
    bool waits = true, any = false; // waits: there may be a request
    for (std::optional<RowOfText>& row : rows) {
        if (row && !row->is_done() && flow.wants && !flow.wants(row->id()))
            row->cancel();
        while (!row || row->is_done()) {
            if (row)
                flow.done(row->id(), std::move(row->result()));
            row.reset();
            const std::optional<TextFlow::Item> item = waits ? flow.next() : std::nullopt;
            waits = item.has_value();
            if (!item)
                break;
            row.emplace(*item, tokenizer);
        }
        any = any || row;
    }
    return any;
}

/// The program that some row needs, each in its turn: neither long prompts nor long samples hold up others.
std::size_t next_program(const Rows& rows, i64 chunk, std::size_t last)
{
    for (std::size_t turn = 1; turn < programs; ++turn) {
        const std::size_t program = (last + turn) % programs;
        for (const std::optional<RowOfText>& row : rows)
            if (row && row->program(chunk) == program)
                return program;
    }
    return last;
}

} // namespace

void complete_on_rows(const TextRowsShape& shape, const Tokenizer& tokenizer, const TextFlow& flow,
                      const ComputeLogits& compute)
{
    Rows rows(static_cast<std::size_t>(shape.rows));
    for (std::size_t program = decode_program; fill(rows, tokenizer, flow);) {
        program = next_program(rows, shape.chunk, program);
        const i64 queries = program == decode_program ? 1 : shape.chunk;
        GeneratorCall call{program, std::vector<i32>(static_cast<std::size_t>(shape.rows * queries)),
                           std::vector<i32>(rows.size()), std::vector<i32>(rows.size())};
        std::vector<WantedLogits> wanted(rows.size());
        for (std::size_t r = 0; r < rows.size(); ++r) {
            if (!rows[r])
                continue;
            call.start[r] = static_cast<i32>(rows[r]->cached());
            if (rows[r]->program(shape.chunk) != program)
                continue;
            const std::span<const i32> tokens = rows[r]->next(shape.chunk);
            std::copy(tokens.begin(), tokens.end(),
                      call.tokens.begin() + static_cast<std::ptrdiff_t>(r) * queries);
            call.given[r] = static_cast<i32>(tokens.size());
            wanted[r] = rows[r]->wanted(shape.chunk);
        }
        const std::vector<RowLogits> logits = compute(call, wanted);
        for (std::size_t r = 0; r < rows.size(); ++r)
            if (call.given[r] > 0)
                rows[r]->computed(shape.chunk, shape.sampled, logits[r], flow.on_token);
    }
}

std::vector<TextResult> complete_all(const std::vector<TextRequest>& requests, const OnToken& on_token,
                                     const std::function<void(const TextFlow&)>& complete)
{
    std::vector<TextResult> results(requests.size());
    std::size_t next = 0;
    complete({.next = [&]() -> std::optional<TextFlow::Item> {
                  if (next == requests.size())
                      return {};
                  const std::size_t index = next++;
                  return TextFlow::Item{index, &requests[index]};
              },
              .wants = {},
              .on_token = on_token,
              .done = [&](std::size_t index, TextResult result) { results[index] = std::move(result); }});
    return results;
}

} // namespace trivium
