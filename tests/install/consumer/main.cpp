// A user of the installed rooms: a config becomes a graph, and the graph is printed.
#include "base/check.hpp"
#include "ir/text/text.hpp"
#include "model/model.hpp"

#include <iostream>

trivium::ModelConfig small_model();

int main()
{
    try {
        trivium::ModelConfig model = small_model();
        trivium::resolve(model);
        trivium::validate(model);
        std::cout << to_text(build_loss_graph(model, {.batch = 2}));
    } catch (const trivium::Error& error) {
        std::cerr << error.what() << '\n';
        return error.exit_status();
    }
}
