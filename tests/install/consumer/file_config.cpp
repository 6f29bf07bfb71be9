// The io room: the same model from TOML text; linking it also links the libraries of io.
#include "io/files/config_file.hpp"

trivium::ModelConfig small_model()
{
    return trivium::parse_config("[model]\npreset = \"toy\"\nvocab = 300\n", "consumer.toml",
                                 {"model.layers=3"})
        .model;
}
