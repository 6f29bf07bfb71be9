// libFuzzer: a byte of options, a pattern up to a NUL, and the text that it splits. The pieces are in the
// order of the text; if none is dropped, they cover it.
#include "base/check.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/tokenizer/text_split.hpp"

#include <cstdlib>
#include <vector>

using namespace trivium;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t end = input.find('\0', 1);
    if (end == std::string_view::npos)
        return 0;
    SplitRule rule{std::string(input.substr(1, end - 1))};
    rule.behavior = static_cast<SplitBehavior>(data[0] % 5);
    rule.invert = data[0] & 0x40;
    rule.literal = data[0] & 0x80;
    std::string_view text = input.substr(end + 1);
    if (const i64 invalid = first_invalid_utf8(text); invalid >= 0)
        text = text.substr(0, static_cast<std::size_t>(invalid));
    try {
        const TextSplit split(rule, "input");
        MatchEffort effort = MatchEffort::for_text(text.size());
        const char* covered = text.data();
        std::vector<std::string_view> pieces;
        split.split(text, effort, [&](std::string_view piece) {
            if (piece.empty() || piece.data() < covered ||
                (rule.behavior != SplitBehavior::removed && piece.data() != covered))
                std::abort();
            covered = piece.data() + piece.size();
            pieces.push_back(piece);
        });
        // Oniguruma is the referee of the faster matcher.
        std::size_t next = 0;
        effort = MatchEffort::for_text(text.size());
        TextSplit(rule, "input", SplitMatcher::oniguruma).split(text, effort, [&](std::string_view piece) {
            if (next == pieces.size() || piece.data() != pieces[next].data() ||
                piece.size() != pieces[next].size())
                std::abort();
            ++next;
        });
        if (rule.behavior != SplitBehavior::removed && covered != text.data() + text.size())
            std::abort();
    } catch (const UserError&) {
    }
    return 0;
}
