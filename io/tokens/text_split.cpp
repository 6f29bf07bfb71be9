#include "io/tokens/text_split.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/files/utf8.hpp"

#include <algorithm>
#include <oniguruma.h>

namespace trivium {

// With linkage, because members of TextSplit::Impl use them.
inline void free_region(OnigRegion* region) { onig_region_free(region, 1); }
template <auto free_it>
struct Free {
    void operator()(auto* pointer) const { free_it(pointer); }
};

namespace {

constexpr std::size_t longest_pattern = 16384;

/// Most matches need a few retries and little stack. A match that exceeds a limit is tried again with a
/// higher one; each failed try is charged to the effort.
constexpr u64 first_retries = 256, first_stack = 4096, max_stack = u64{1} << 24, growth = 4;

const OnigUChar* bytes(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }
const OnigUChar* end_of(std::string_view text) { return bytes(text) + text.size(); }

std::string message_of(int error, OnigErrorInfo* info = nullptr)
{
    OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
    const int length = onig_error_code_to_str(text, error, info);
    return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(std::max(length, 0))};
}

void start_oniguruma()
{
    static const int started = [] {
        OnigEncoding utf8 = ONIG_ENCODING_UTF8;
        return onig_initialize(&utf8, 1);
    }();
    TRV_CHECK(started == ONIG_NORMAL, message_of(started));
}

/// Whether two adjacent pieces join. Each is a match, or the text between two matches.
bool joins(SplitBehavior behavior, bool was_match, bool is_match)
{
    switch (behavior) {
    case SplitBehavior::merged_with_previous: return is_match && !was_match;
    case SplitBehavior::merged_with_next: return was_match && !is_match;
    case SplitBehavior::contiguous: return was_match == is_match;
    default: return false;
    }
}

} // namespace

struct TextSplit::Impl {
    SplitRule rule;
    std::string place;
    std::unique_ptr<regex_t, Free<onig_free>> pattern;
    std::unique_ptr<OnigMatchParam, Free<onig_free_match_param>> limits;
    std::unique_ptr<OnigRegion, Free<free_region>> region;

    [[noreturn]] void refuse(const std::string& problem, const std::string& reason) const
    {
        throw UserError({place, problem,
                         str("the pattern is ", in_quotes(rule.pattern), reason.empty() ? "" : ": ", reason),
                         "check that this is the tokenizer.json of the model"});
    }

    void compile()
    {
        start_oniguruma();
        if (rule.pattern.size() > longest_pattern)
            refuse("splits text by a very long pattern", str("of ", rule.pattern.size(), " bytes"));
        regex_t* compiled = nullptr;
        OnigErrorInfo info{};
        // The default syntax is the one that the package `tokenizers` uses.
        const int error =
            onig_new(&compiled, bytes(rule.pattern), end_of(rule.pattern), ONIG_OPTION_NONE,
                     ONIG_ENCODING_UTF8, rule.literal ? ONIG_SYNTAX_ASIS : ONIG_SYNTAX_ONIGURUMA, &info);
        if (error != ONIG_NORMAL)
            refuse("splits text by a pattern that cannot be read", message_of(error, &info));
        pattern.reset(compiled);
        limits.reset(onig_new_match_param());
        region.reset(onig_region_new());
    }

    /// The first match from `from` on: `region` has its begin and end.
    bool find(std::string_view text, std::size_t from, MatchEffort& effort) const
    {
        for (u64 retries = first_retries, stack = first_stack;;) {
            onig_set_retry_limit_in_match_of_match_param(limits.get(), retries);
            onig_set_retry_limit_in_search_of_match_param(limits.get(), retries);
            onig_set_match_stack_limit_size_of_match_param(limits.get(), static_cast<unsigned>(stack));
            const int result =
                onig_search_with_param(pattern.get(), bytes(text), end_of(text), bytes(text) + from,
                                       end_of(text), region.get(), ONIG_OPTION_NONE, limits.get());
            if (result >= 0)
                return true;
            if (result == ONIG_MISMATCH)
                return false;
            const bool stack_is_full = result == ONIGERR_MATCH_STACK_LIMIT_OVER;
            if (!stack_is_full && result != ONIGERR_RETRY_LIMIT_IN_MATCH_OVER &&
                result != ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER)
                refuse("splits text by a pattern that fails on it", message_of(result));
            // A retry may search the stack. But what goes back over the text once, like a run of blanks, does
            // little more.
            const bool once = retries <= growth * (text.size() - from) + first_retries;
            const u64 cost = once ? retries : retries * (stack / first_stack);
            if (effort.left < cost || (stack_is_full && stack == max_stack))
                refuse("splits text by a pattern that takes too long", "");
            effort.left -= cost;
            (stack_is_full ? stack : retries) *= growth;
        }
    }
};

TextSplit::TextSplit(const SplitRule& rule, const std::string& place) : impl_(std::make_unique<Impl>())
{
    impl_->rule = rule;
    impl_->place = place;
    impl_->compile();
}

TextSplit::TextSplit(TextSplit&&) noexcept = default;
TextSplit::~TextSplit() = default;

void TextSplit::split(std::string_view text, MatchEffort& effort, const Emit& emit) const
{
    const SplitRule& rule = impl_->rule;
    std::size_t begin = 0, end = 0; // of the current piece, which may still grow
    bool was_match = false, open = false;
    const auto flush = [&] {
        if (open && end > begin && !(rule.behavior == SplitBehavior::removed && was_match))
            emit(text.substr(begin, end - begin));
    };
    const auto add = [&](std::size_t first, std::size_t last, bool matched) {
        const bool is_match = matched != rule.invert;
        if (!open || !joins(rule.behavior, was_match, is_match)) {
            flush();
            begin = first;
            open = true;
        }
        end = last;
        was_match = is_match;
    };

    std::size_t covered = 0, last_end = std::string_view::npos;
    for (std::size_t from = 0; from <= text.size() && impl_->find(text, from, effort);) {
        const auto first = static_cast<std::size_t>(impl_->region->beg[0]);
        const auto last = static_cast<std::size_t>(impl_->region->end[0]);
        if (first == last && last == last_end) { // an empty match right after a match does not count
            from = character_begin(text, from + 1);
            continue;
        }
        if (covered < first)
            add(covered, first, false);
        add(first, last, true);
        covered = from = last_end = last;
    }
    if (covered < text.size())
        add(covered, text.size(), false);
    flush();
}

} // namespace trivium
