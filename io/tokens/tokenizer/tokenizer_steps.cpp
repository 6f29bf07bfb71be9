#include "io/tokens/tokenizer/tokenizer_steps.hpp"

#include "io/tokens/tokenizer/tokenizer_members.hpp"

#include <algorithm>

namespace trivium {

namespace {

class StepsReader : TokenizerMembers {
public:
    StepsReader(const std::string& place, TokenizerJson& out) : TokenizerMembers(place), out_(out) {}

    TokenDecoding read(const Json& file)
    {
        if (const auto normalizer = file.find("normalizer"); normalizer != file.end())
            read_normalizer(*normalizer, 0);
        read_pre_tokenizer(member(file, "pre_tokenizer"), 0);
        if (out_.unigram && out_.byte_level)
            unsupported("a Unigram model of bytes", "");
        if (const auto decoder = file.find("decoder"); decoder != file.end())
            read_decoder(*decoder);
        return std::move(decoding_);
    }

private:
    /// The steps of a Sequence; the step itself if it is none.
    template <class Read>
    void read_steps(const Json& step, const char* list, int depth, const Read& read) const
    {
        if (step.is_null())
            return;
        if (text(step, "type") != "Sequence")
            return read(step);
        const Json& steps = member(step, list);
        if (!steps.is_array() || steps.size() > 100 || depth > 4)
            damaged(str("has a Sequence of ", list, " that is not a list, or is too long"));
        for (const Json& each : steps)
            read_steps(each, list, depth + 1, read);
    }

    SplitRule pattern_of(const Json& step) const
    {
        const Json& pattern = member(step, "pattern");
        const bool literal = pattern.is_object() && pattern.contains("String");
        SplitRule rule{text(pattern, literal ? "String" : "Regex"), literal};
        if (rule.pattern.empty())
            unsupported("an empty pattern", "");
        return rule;
    }

    void read_normalizer(const Json& whole, int depth)
    {
        read_steps(whole, "normalizers", depth, [&](const Json& step) {
            using Kind = NormalizerStep::Kind;
            constexpr std::array forms{"NFC", "NFD", "NFKC", "NFKD"};
            const std::string type = text(step, "type");
            NormalizerStep made;
            if (const auto form = std::ranges::find(forms, type); form != forms.end())
                made.form = static_cast<UnicodeForm>(form - forms.begin());
            else if (type == "Lowercase")
                made.kind = Kind::lowercase;
            else if (type == "Nmt")
                made.kind = Kind::nmt;
            else if (type == "StripAccents")
                made.kind = Kind::strip_marks;
            else if (type == "Precompiled") {
                std::string problem;
                made.kind = Kind::charsmap;
                made.charsmap = Charsmap::parse(text(step, "precompiled_charsmap"), problem);
                if (!made.charsmap)
                    damaged("has a damaged 'precompiled_charsmap'", problem);
            } else if (type == "Strip") {
                made.kind = Kind::strip;
                made.left = flag(step, "strip_left", true);
                made.right = flag(step, "strip_right", true);
            } else if (type == "Prepend") {
                made.kind = Kind::prepend;
                made.text = text(step, "prepend");
            } else if (type == "Replace") {
                made.kind = Kind::replace;
                made.pattern = pattern_of(step);
                made.text = text(step, "content");
            } else
                unsupported("the normalizer " + in_quotes(type), "");
            out_.normalizer.push_back(std::move(made));
        });
    }

    void read_decoder(const Json& decoder)
    {
        bool fused = false;
        read_steps(decoder, "decoders", 0, [&](const Json& step) {
            const std::string type = text(step, "type");
            if (out_.byte_level != (type == "ByteLevel"))
                unsupported("the decoder " + in_quotes(type), "");
            if (type == "Replace") {
                const SplitRule rule = pattern_of(step);
                if (!rule.literal)
                    unsupported("a decoder that replaces a Regex", "");
                decoding_.replaced.emplace_back(rule.pattern, text(step, "content"));
            } else if (type == "Metaspace") {
                decoding_.replaced.emplace_back(mark_of(step), " ");
                out_.strips_space = prefix_of(step) != TokenizerJson::Step::Prefix::never;
            } else if (type == "Fuse")
                fused = true;
            else if (type == "ByteFallback")
                decoding_.bytes = true;
            else if (type == "Strip") {
                if (text(step, "content") != " " || member(step, "start") != 1 || member(step, "stop") != 0 ||
                    !fused)
                    unsupported("a decoder that strips other text than one space at the begin", "");
                out_.strips_space = true;
            } else if (type != "ByteLevel")
                unsupported("the decoder " + in_quotes(type), "");
        });
    }

    std::string mark_of(const Json& metaspace) const
    {
        std::string mark = text(metaspace, "replacement");
        if (mark.empty())
            damaged("has a Metaspace without replacement");
        return mark;
    }

    TokenizerJson::Step::Prefix prefix_of(const Json& metaspace) const
    {
        using Prefix = TokenizerJson::Step::Prefix;
        if (!metaspace.contains("prepend_scheme")) // early files
            return flag(metaspace, "add_prefix_space", true) ? Prefix::always : Prefix::never;
        constexpr std::array names{"never", "first", "always"};
        const auto found = std::ranges::find(names, text(metaspace, "prepend_scheme"));
        if (found == names.end())
            damaged("has a Metaspace with an unknown prepend_scheme");
        return static_cast<Prefix>(found - names.begin());
    }

    void add_split(std::string pattern, SplitBehavior behavior, bool literal = false, bool invert = false)
    {
        out_.steps.push_back(
            {TokenizerJson::Step::Kind::split, {std::move(pattern), literal, behavior, invert}});
    }

    void add_mark(std::string mark, TokenizerJson::Step::Prefix prefix)
    {
        out_.steps.push_back({TokenizerJson::Step::Kind::mark, {}, std::move(mark), prefix});
    }

    SplitBehavior behavior(const Json& step) const
    {
        const std::string name = text(step, "behavior");
        constexpr std::array names{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                   "Contiguous"};
        const auto found = std::ranges::find(names, name);
        if (found == names.end())
            unsupported("a pre_tokenizer of behavior " + in_quotes(name), "");
        return static_cast<SplitBehavior>(found - names.begin());
    }

    void read_pre_tokenizer(const Json& whole, int depth)
    {
        read_steps(whole, "pretokenizers", depth, [&](const Json& step) {
            const std::string type = text(step, "type");
            if (out_.byte_level)
                unsupported(str("the pre_tokenizer ", in_quotes(type), " after ByteLevel"), "");
            if (type == "Split") {
                const SplitRule rule = pattern_of(step);
                add_split(rule.pattern, behavior(step), rule.literal, flag(step, "invert", false));
            } else if (type == "Digits") {
                add_split(R"(\p{N})", flag(step, "individual_digits", false) ? SplitBehavior::isolated
                                                                             : SplitBehavior::contiguous);
            } else if (type == "Punctuation") {
                add_split(R"([$+<=>^`|~\p{P}])",
                          step.contains("behavior") ? behavior(step) : SplitBehavior::isolated);
            } else if (type == "WhitespaceSplit") {
                add_split(R"(\s)", SplitBehavior::removed);
            } else if (type == "Metaspace") {
                const std::string mark = mark_of(step);
                add_mark(mark, prefix_of(step));
                if (flag(step, "split", true))
                    add_split(mark, SplitBehavior::merged_with_next, true);
            } else if (type == "ByteLevel") {
                out_.byte_level = true;
                if (flag(step, "add_prefix_space", true))
                    add_mark(" ", TokenizerJson::Step::Prefix::always);
                if (flag(step, "use_regex", true))
                    add_split(gpt2_pattern, SplitBehavior::isolated);
            } else {
                unsupported("the pre_tokenizer " + in_quotes(type), "");
            }
        });
    }

    TokenizerJson& out_;
    TokenDecoding decoding_;
};

} // namespace

TokenDecoding read_tokenizer_steps(const nlohmann::json& file, const std::string& place, TokenizerJson& out)
{
    return StepsReader(place, out).read(file);
}

} // namespace trivium
