#include "stablehlo/hlo_text.hpp"

#include "ir/limits.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace trivium {

namespace {

bool is_word(char c)
{
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}

HloType type_of(const std::string& text)
{
    HloType type;
    std::string_view rest = text;
    i64 elements = 1;
    for (;;) {
        i64 extent = 0;
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
        if (error != std::errc{} || end == rest.data() + rest.size() || *end != 'x' || extent < 0 ||
            type.shape.size() == max_dims || extent > max_elements ||
            elements > max_elements / std::max<i64>(extent, 1))
            break;
        elements *= std::max<i64>(extent, 1);
        type.shape.push_back(extent);
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
    }
    if (const auto element = hlo_element_named(rest)) {
        type.element = *element;
        return type;
    }
    type.refused = "tensor<" + text + ">";
    std::ranges::replace_if(
        type.refused, [](char c) { return !std::isprint(static_cast<unsigned char>(c)); }, '?');
    return type;
}

} // namespace

std::string to_string(const HloType& type)
{
    if (!type.refused.empty())
        return type.refused;
    std::string text = "tensor<";
    for (const i64 extent : type.shape)
        text += std::to_string(extent) + "x";
    return text + hlo_name_of(type.element) + ">";
}

const HloAttribute* HloAttribute::find(std::string_view name) const
{
    for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == name)
            return &items[i];
    return nullptr;
}

void HloText::fail(const std::string& problem, const std::string& remedy) const
{
    throw UserError({str(file_, ":", line_), problem, "",
                     remedy.empty() ? "give StableHLO text, as jax.export writes it" : remedy});
}

void HloText::skip()
{
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == '\n')
            ++line_;
        else if (c == '/' && text_.substr(at_, 2) == "//")
            at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
        else if (!std::isspace(static_cast<unsigned char>(c)))
            return;
        ++at_;
    }
}

bool HloText::done()
{
    skip();
    return at_ >= text_.size();
}

bool HloText::sees(std::string_view token)
{
    skip();
    if (text_.substr(at_, token.size()) != token)
        return false;
    const std::size_t end = at_ + token.size();
    return !is_word(token.back()) || end >= text_.size() || !is_word(text_[end]);
}

bool HloText::take(std::string_view token)
{
    if (!sees(token))
        return false;
    at_ += token.size();
    return true;
}

void HloText::want(std::string_view token)
{
    if (!take(token))
        fail(str("expected '", token, "'", found()));
}

std::string HloText::found()
{
    if (done())
        return ", the text ends";
    const char c = text_[at_];
    return std::isprint(static_cast<unsigned char>(c)) ? str(", not '", c, "'") : ", not a control character";
}

char HloText::peek()
{
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
}

bool HloText::sees_word()
{
    const char c = peek();
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}

std::string HloText::word()
{
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_]))
        ++at_;
    if (begin == at_)
        fail("expected a name" + found());
    return std::string(text_.substr(begin, at_ - begin));
}

std::string HloText::quoted()
{
    want("\"");
    std::string text;
    while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size())
            ++at_;
        if (static_cast<unsigned char>(text_[at_]) < ' ')
            fail("a string has no closing quote in its line");
        text += text_[at_++];
    }
    if (at_ >= text_.size())
        fail("a string has no closing quote");
    ++at_;
    return text;
}

std::string HloText::value_name()
{
    want("%");
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '-') && text_.substr(at_, 2) != "->")
        ++at_;
    if (begin == at_)
        fail("expected a name after '%'");
    return "%" + std::string(text_.substr(begin, at_ - begin));
}

std::string HloText::operand()
{
    std::string name = value_name();
    if (at_ < text_.size() && text_[at_] == '#') {
        ++at_;
        name += "#" + std::to_string(integer());
    }
    return name;
}

i64 HloText::integer()
{
    skip();
    i64 value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{})
        fail("expected an integer");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
}

std::string HloText::balanced(char open, char close)
{
    want(std::string_view(&open, 1));
    const std::size_t begin = at_;
    int depth = 1;
    for (; at_ < text_.size(); ++at_) {
        const char c = text_[at_];
        if (c == '\n')
            ++line_;
        if (c == '"') {
            quoted();
            --at_;
        } else if (c == open) {
            ++depth;
        } else if (c == close && !(c == '>' && text_[at_ - 1] == '-') && --depth == 0) {
            return std::string(text_.substr(begin, at_++ - begin));
        }
    }
    fail(str("'", open, "' is not closed"));
}

HloType HloText::type()
{
    if (take("tensor")) {
        if (peek() != '<')
            fail("expected '<' after 'tensor'");
        return type_of(balanced('<', '>'));
    }
    HloType type;
    if (take("!"))
        type.refused = "!";
    type.refused += word();
    if (peek() == '<')
        type.refused += "<" + balanced('<', '>') + ">";
    return type;
}

HloAttribute HloText::list(std::string_view open, std::string_view close)
{
    const Deeper deeper(*this);
    HloAttribute made{HloAttribute::Kind::list};
    want(open);
    items(close, [&] { made.items.push_back(value(true)); });
    return made;
}

HloAttribute HloText::dictionary(std::string_view open, std::string_view close)
{
    const Deeper deeper(*this);
    HloAttribute made{HloAttribute::Kind::dictionary};
    want(open);
    items(close, [&] {
        const bool in_quotes = sees("\"");
        std::string name = in_quotes ? quoted() : word();
        if (take("=")) {
            made.names.push_back(std::move(name));
            made.items.push_back(value(true));
        } else { // a set of words, or an attribute without value
            HloAttribute item{HloAttribute::Kind::word};
            item.text = name;
            item.number = 1;
            made.names.push_back(std::move(name));
            made.items.push_back(std::move(item));
        }
    });
    return made;
}

HloAttribute HloText::value(bool typed)
{
    const Deeper deeper(*this);
    HloAttribute made;
    const char c = peek();
    if (c == '"') {
        made.kind = HloAttribute::Kind::text;
        made.text = quoted();
        if (typed && take(":"))
            type();
    } else if (c == '[') {
        made = list("[", "]");
    } else if (c == '{') {
        made = dictionary();
    } else if (c == '<') {
        made.kind = HloAttribute::Kind::raw;
        made.text = balanced('<', '>');
    } else if (c == '@') {
        want("@");
        made.text = sees("\"") ? quoted() : word();
        while (take("::@"))
            made.text += "::" + word();
    } else if (c == '#') { // "#stablehlo.conv<…>", "#stablehlo<comparison_type FLOAT>", or an alias
        want("#");
        made.text = "#" + word();
        if (peek() == '<') {
            made.kind = HloAttribute::Kind::raw;
            made.text = balanced('<', '>');
        }
    } else if (c == '!' || sees("tensor")) {
        made.text = to_string(type());
    } else if (take("dense")) {
        made = dense();
    } else if (take("dense_resource")) {
        fail("has a constant dense_resource<…>, whose elements are not in the text",
             "print the module with large constants, or pass them as arguments");
    } else if (take("array")) {
        made.kind = HloAttribute::Kind::list;
        want("<");
        word();
        if (take(":"))
            items(">", [&] { made.items.push_back(value(false)); });
        else
            want(">");
    } else if (take("loc")) {
        balanced('(', ')');
    } else if (c == '-' || std::isdigit(static_cast<unsigned char>(c))) {
        const Number n = number();
        made.kind = HloAttribute::Kind::number;
        made.number = n.real ? 0 : n.whole;
        made.text = n.real ? str(n.number) : "";
        if (typed && take(":"))
            type();
    } else {
        made.text = word();
        made.number = made.text == "true";
    }
    return made;
}

} // namespace trivium
