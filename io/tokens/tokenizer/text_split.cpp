#include "io/tokens/tokenizer/text_split.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/tokenizer/character.hpp"
#include "io/tokens/tokenizer/class_pattern.hpp"

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
    std::shared_ptr<const ClassPattern> classes; ///< if set, Oniguruma is not needed

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

    struct Match {
        std::size_t begin = std::string_view::npos, end = 0;
    };

    /// The first match from `from` on.
    Match find(std::string_view text, std::size_t from, MatchEffort& effort) const
    {
        if (!classes)
            return find_by_oniguruma(text, from, effort);
        for (; from < text.size(); from += character_length(text[from]))
            if (const std::size_t end = classes->match(text, from, effort.left);
                end != std::string_view::npos)
                return {from, end};
            else if (effort.left == 0)
                refuse("splits text by a pattern that takes too long", "");
        return {};
    }

    /// Calls add(begin, end, matched) with all matches and the text between them, in order.
    template <class Add>
    void for_each_part(std::string_view text, MatchEffort& effort, Add&& add) const
    {
        std::size_t covered = 0, last_end = std::string_view::npos;
        for (std::size_t from = 0; from <= text.size();) {
            const Match match = find(text, from, effort);
            if (match.begin == std::string_view::npos)
                break;
            if (match.begin == match.end &&
                match.end == last_end) { // an empty match right after a match does not count
                from = character_begin(text, from + 1);
                continue;
            }
            if (covered < match.begin)
                add(covered, match.begin, false);
            add(match.begin, match.end, true);
            covered = from = last_end = match.end;
        }
        if (covered < text.size())
            add(covered, text.size(), false);
    }

    Match find_by_oniguruma(std::string_view text, std::size_t from, MatchEffort& effort) const
    {
        for (u64 retries = first_retries, stack = first_stack;;) {
            onig_set_retry_limit_in_match_of_match_param(limits.get(), retries);
            onig_set_retry_limit_in_search_of_match_param(limits.get(), retries);
            onig_set_match_stack_limit_size_of_match_param(limits.get(), static_cast<unsigned>(stack));
            const int result =
                onig_search_with_param(pattern.get(), bytes(text), end_of(text), bytes(text) + from,
                                       end_of(text), region.get(), ONIG_OPTION_NONE, limits.get());
            if (result >= 0)
                return {static_cast<std::size_t>(region->beg[0]), static_cast<std::size_t>(region->end[0])};
            if (result == ONIG_MISMATCH)
                return {};
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

TextSplit::TextSplit(const SplitRule& rule, const std::string& place, SplitMatcher matcher)
    : impl_(std::make_unique<Impl>())
{
    impl_->rule = rule;
    impl_->place = place;
    start_oniguruma(); // ClassPattern reads its tables
    if (matcher == SplitMatcher::fastest && !rule.literal)
        impl_->classes = ClassPattern::parse(rule.pattern);
    if (!impl_->classes)
        impl_->compile();
}

TextSplit::TextSplit(const TextSplit& other) : impl_(std::make_unique<Impl>())
{
    impl_->rule = other.impl_->rule;
    impl_->place = other.impl_->place;
    impl_->classes = other.impl_->classes;
    if (!impl_->classes)
        impl_->compile();
}

TextSplit::TextSplit(TextSplit&&) noexcept = default;
TextSplit::~TextSplit() = default;

bool TextSplit::is_simple() const
{
    const SplitBehavior behavior = impl_->rule.behavior;
    return impl_->classes && (behavior == SplitBehavior::isolated || behavior == SplitBehavior::removed);
}
bool TextSplit::cuts_before_words() const { return is_simple() && impl_->classes->cuts_before_words(); }
bool TextSplit::ignores_words() const
{
    return is_simple() && !impl_->rule.invert && impl_->classes->ignores_words();
}

void TextSplit::split_to(std::string_view text, MatchEffort& effort, EmitTo emit, void* to) const
{
    const SplitRule& rule = impl_->rule;
    std::size_t begin = 0, end = 0; // of the current piece, which may still grow
    bool was_match = false, open = false;
    const auto flush = [&] {
        if (open && end > begin && !(rule.behavior == SplitBehavior::removed && was_match))
            emit(to, text.substr(begin, end - begin));
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

    impl_->for_each_part(text, effort, add);
    flush();
}

std::string TextSplit::replace(std::string_view text, MatchEffort& effort, std::string_view by) const
{
    std::string result;
    impl_->for_each_part(text, effort, [&](std::size_t begin, std::size_t end, bool matched) {
        result += matched ? by : text.substr(begin, end - begin);
    });
    return result;
}

} // namespace trivium
