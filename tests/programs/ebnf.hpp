#pragma once
// Texts drawn from a grammar in EBNF.

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trivium::ebnf {

/// One node of a production: a terminal, the name of another production, or nodes in sequence, as
/// alternatives, optional, repeated.
struct Node {
    enum class Kind { terminal, name, sequence, either, optional, repeated } kind{};
    std::string text{};
    std::vector<Node> parts{};
};

struct Production {
    Node node;
    bool glued = false;  ///< marked "(* no blanks inside *)"
    bool paired = false; ///< marked "(* as many … as … *)": its repetitions repeat equally often
};

using Grammar = std::map<std::string, Production>;

/// Productions "name = … ;". Throws std::runtime_error.
Grammar parse(const std::string& text);

/// The names that productions use, but that have none.
std::vector<std::string> tokens_of(const Grammar& grammar);

/// A random text of production `name`. `token` draws the text of each name that has no production.
/// `draw(n)`: a number below n.
std::string derive(const Grammar& grammar, const std::string& name,
                   const std::function<std::string(const std::string&)>& token,
                   const std::function<std::size_t(std::size_t)>& draw);

} // namespace trivium::ebnf
