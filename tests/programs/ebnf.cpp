#include "ebnf.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace trivium::ebnf {

namespace {

class Reader {
public:
    explicit Reader(const std::string& text) : text_(text) {}

    Grammar run()
    {
        Grammar grammar;
        std::string last;
        for (;;) {
            const std::string comment = skip();
            if (comment.find("no blanks inside") != std::string::npos)
                grammar[last].glued = true;
            if (comment.find("as many") != std::string::npos)
                grammar[last].paired = true;
            if (at_ == text_.size())
                return grammar;
            last = word();
            want('=');
            if (!grammar.emplace(last, Production{either()}).second)
                fail("a second production of " + last);
            want(';');
        }
    }

private:
    [[noreturn]] void fail(const std::string& problem) const
    {
        throw std::runtime_error("grammar, at '" + text_.substr(at_, 20) + "': " + problem);
    }

    /// Skips blanks and comments. Returns the comments.
    std::string skip()
    {
        std::string comments;
        for (; at_ < text_.size(); ++at_) {
            if (text_.compare(at_, 2, "(*") == 0) {
                const std::size_t end = text_.find("*)", at_);
                comments += text_.substr(at_, end - at_);
                at_ = end + 1;
            } else if (!std::isspace(static_cast<unsigned char>(text_[at_]))) {
                break;
            }
        }
        return comments;
    }

    bool take(char c)
    {
        skip();
        if (at_ == text_.size() || text_[at_] != c)
            return false;
        ++at_;
        return true;
    }

    void want(char c)
    {
        if (!take(c))
            fail(std::string("no '") + c + "'");
    }

    std::string word()
    {
        skip();
        const std::size_t begin = at_;
        while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_])))
            ++at_;
        if (begin == at_)
            fail("no name");
        return text_.substr(begin, at_ - begin);
    }

    Node either()
    {
        Node node{Node::Kind::either};
        do
            node.parts.push_back(sequence());
        while (take('|'));
        return node;
    }

    Node sequence()
    {
        Node node{Node::Kind::sequence};
        for (;;) {
            skip();
            if (at_ == text_.size() || std::string("|;)]}").find(text_[at_]) != std::string::npos)
                return node;
            node.parts.push_back(one());
        }
    }

    Node one()
    {
        if (take('"')) {
            const std::size_t begin = at_;
            at_ = text_.find('"', at_) + 1;
            return {Node::Kind::terminal, text_.substr(begin, at_ - begin - 1)};
        }
        for (const auto& [open, close, kind] : {std::tuple('(', ')', Node::Kind::sequence),
                                                {'[', ']', Node::Kind::optional},
                                                {'{', '}', Node::Kind::repeated}})
            if (take(open)) {
                Node node{kind, "", {either()}};
                want(close);
                return node;
            }
        return {Node::Kind::name, word()};
    }

    const std::string& text_;
    std::size_t at_ = 0;
};

void collect(const Node& node, std::set<std::string>& names)
{
    if (node.kind == Node::Kind::name)
        names.insert(node.text);
    for (const Node& part : node.parts)
        collect(part, names);
}

constexpr std::size_t most_times = 4;

class Writer {
public:
    Writer(const Grammar& grammar, const std::function<std::string(const std::string&)>& token,
           const std::function<std::size_t(std::size_t)>& draw)
        : grammar_(grammar), token_(token), draw_(draw)
    {
    }

    void write(const std::string& name)
    {
        const auto production = grammar_.find(name);
        if (production == grammar_.end())
            return append(token_(name));
        const Production& made = production->second;
        const std::size_t outer = std::exchange(times_, made.paired ? 1 + draw_(most_times) : 0);
        if (made.glued)
            append("");
        glued_ += made.glued;
        write(made.node);
        glued_ -= made.glued;
        times_ = outer;
    }

    const std::string& text() const { return text_; }

private:
    void write(const Node& node)
    {
        switch (node.kind) {
        case Node::Kind::terminal: return append(node.text);
        case Node::Kind::name: return write(node.text);
        case Node::Kind::sequence:
            for (const Node& part : node.parts)
                write(part);
            return;
        case Node::Kind::either: return write(node.parts[draw_(node.parts.size())]);
        case Node::Kind::optional:
            if (draw_(2) == 0)
                write(node.parts[0]);
            return;
        case Node::Kind::repeated:
            for (std::size_t n = times_ > 0 ? times_ - 1 : draw_(most_times); n > 0; --n)
                write(node.parts[0]);
            return;
        }
    }

    void append(const std::string& token)
    {
        if (glued_ == 0)
            text_ += draw_(4) == 0 ? "\t " : " ";
        text_ += token;
    }

    const Grammar& grammar_;
    const std::function<std::string(const std::string&)>& token_;
    const std::function<std::size_t(std::size_t)>& draw_;
    std::string text_;
    int glued_ = 0;
    std::size_t times_ = 0; ///< of a paired production, how often its repetitions repeat, plus 1
};

} // namespace

Grammar parse(const std::string& text) { return Reader(text).run(); }

std::vector<std::string> tokens_of(const Grammar& grammar)
{
    std::set<std::string> names;
    for (const auto& [name, production] : grammar)
        collect(production.node, names);
    for (const auto& [name, production] : grammar)
        names.erase(name);
    return {names.begin(), names.end()};
}

std::string derive(const Grammar& grammar, const std::string& name,
                   const std::function<std::string(const std::string&)>& token,
                   const std::function<std::size_t(std::size_t)>& draw)
{
    Writer writer(grammar, token, draw);
    writer.write(name);
    return writer.text();
}

} // namespace trivium::ebnf
