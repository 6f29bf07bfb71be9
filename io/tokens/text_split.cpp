#include "io/tokens/text_split.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/tokens/oniguruma.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace trivium {

namespace {

constexpr std::uint32_t first_limit = 1024; ///< steps of one match; most take a few
constexpr std::uint32_t heap_limit_kib = 64 << 10;
constexpr std::size_t jit_stack_bytes = std::size_t{1} << 20;

template <auto free_it>
struct Free {
    void operator()(auto* pointer) const { free_it(pointer); }
};

std::string message_of(int error)
{
    PCRE2_UCHAR text[256];
    pcre2_get_error_message(error, text, sizeof text);
    return reinterpret_cast<const char*>(text);
}

/// Whether a piece goes on with the next one. Each is a match or what stands between two.
bool joins(SplitBehavior behavior, bool was_match, bool is_match)
{
    switch (behavior) {
    case SplitBehavior::merged_with_previous: return is_match && !was_match;
    case SplitBehavior::merged_with_next: return was_match && !is_match;
    case SplitBehavior::contiguous: return was_match == is_match;
    default: return false;
    }
}

std::size_t next_character(std::string_view text, std::size_t at)
{
    do
        ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
    return at;
}

} // namespace

struct TextSplit::Impl {
    SplitRule rule;
    std::string place;
    std::unique_ptr<pcre2_code, Free<pcre2_code_free>> code;
    std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> match;
    std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context;
    std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>> jit_stack;

    [[noreturn]] void refuse(const std::string& problem, const std::string& reason) const
    {
        throw UserError({place, problem,
                         str("the pattern is ", in_quotes(rule.pattern), reason.empty() ? "" : ": ", reason),
                         "check that this is the tokenizer.json of the model"});
    }

    void compile()
    {
        const std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>> options(
            pcre2_compile_context_create(nullptr));
        pcre2_set_newline(options.get(), PCRE2_NEWLINE_LF);
        const std::string pattern = rule.literal ? rule.pattern : pcre2_pattern(rule.pattern, place);
        const std::uint32_t flags =
            rule.literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
        int error = 0;
        PCRE2_SIZE at = 0;
        code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 flags | PCRE2_UTF, &error, &at, options.get()));
        if (!code)
            refuse("splits text by a pattern that cannot be read", message_of(error));
        match.reset(pcre2_match_data_create(1, nullptr));
        context.reset(pcre2_match_context_create(nullptr));
        pcre2_set_heap_limit(context.get(), heap_limit_kib);
        if (pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0) { // else the interpreter does it
            jit_stack.reset(pcre2_jit_stack_create(32 << 10, jit_stack_bytes, nullptr));
            pcre2_jit_stack_assign(context.get(), nullptr, jit_stack.get());
        }
    }

    /// The first match from `from` on: its begin and end stand in `match`.
    bool find(std::string_view text, std::size_t from, MatchEffort& effort) const
    {
        std::uint32_t options = PCRE2_NO_UTF_CHECK;
        for (std::uint32_t limit = first_limit;;) {
            pcre2_set_match_limit(context.get(), limit);
            const int result = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                           from, options, match.get(), context.get());
            if (result >= 0)
                return true;
            if (result == PCRE2_ERROR_NOMATCH)
                return false;
            if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
                options |= PCRE2_NO_JIT;
                continue;
            }
            if (result != PCRE2_ERROR_MATCHLIMIT)
                refuse("splits text by a pattern that fails on it", message_of(result));
            if (effort.left < limit)
                refuse("splits text by a pattern that takes too long", "");
            effort.left -= limit;
            limit = limit > ~std::uint32_t{0} / 16 ? ~std::uint32_t{0} : limit * 16;
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
    std::size_t begin = 0, end = 0; // of the piece that may go on
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

    const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(impl_->match.get());
    std::size_t covered = 0, last_end = std::string_view::npos;
    for (std::size_t from = 0; from <= text.size() && impl_->find(text, from, effort);) {
        const std::size_t first = found[0], last = found[1];
        if (first == last && last == last_end) { // an empty match behind a match is none
            from = next_character(text, from);
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
