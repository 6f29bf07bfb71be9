// The config room alone: a preset with a vocabulary.
#include "config/model_config.hpp"

trivium::ModelConfig small_model()
{
    trivium::ModelConfig model = trivium::preset("toy");
    model.vocab = 300;
    model.layers = 3;
    return model;
}
