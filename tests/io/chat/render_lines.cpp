// Renders templates for chat_check.py. Each line of the standard input is {"template": …, "variables": {…}};
// its answer is {"text": …, "spans": [[begin, end], …]} with the spans of {% generation %} in bytes, or
// {"error": …}.
#include "base/check.hpp"
#include "io/chat/jinja/template.hpp"

#include <iostream>

using namespace trivium;

int main()
{
    for (std::string line; std::getline(std::cin, line);) {
        nlohmann::ordered_json answer;
        try {
            const auto request = nlohmann::ordered_json::parse(line);
            const jinja::Template program(request.at("template").get<std::string>(), "template");
            jinja::Variables variables;
            for (const auto& [name, value] : request.at("variables").items())
                variables.emplace_back(name, jinja::value_of(value));
            const jinja::MarkedText text = program.render(variables, 0);
            answer["text"] = text.text();
            answer["spans"] = nlohmann::ordered_json::array();
            for (const jinja::Mark& mark : text.marks())
                if (mark.kind == jinja::Mark::Kind::generation)
                    answer["spans"].push_back({mark.begin, mark.end});
        } catch (const UserError& error) {
            answer["error"] = error.what();
        } catch (const jinja::Failure& failure) {
            answer["error"] = failure.problem;
        }
        std::cout << answer.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace)
                  << std::endl;
    }
}
