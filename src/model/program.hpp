#pragma once
// A program of the user's own as a model: a graph file with inputs, parameters and the output `loss`.
#include "config/model_program.hpp"
#include "model/model.hpp"

#include <map>

namespace trivium {

/// Parses the text of a file and checks that it can be trained: inputs, parameters, constants and ops of a
/// forward pass; a scalar output `loss`, the sum over the samples of a batch, and perhaps `count`, what it is
/// divided by (otherwise the number of samples); each other output is a scalar that an evaluation divides
/// by the output of its name with `.count`, if there is one, otherwise by `count`, or has the samples as
/// first of several dimensions: a report shows slices of it (sample_slice.hpp). The size `b` is the number of
/// samples. `name`: of the file, for messages. `sizes` replace those that the text declares. Throws
/// UserError.
ModelProgram read_program(const std::string& text, const std::string& name, const NamedNumbers& sizes = {});

/// What a program computes, as text: without mesh, shardings, blocks, shown outputs and comments, for
/// `samples` samples if it declares the size `b`. Throws UserError.
std::string what_it_computes(const std::string& text, const std::string& name, const NamedNumbers& sizes,
                             i64 samples);

/// Inputs of the program that data give: their type per sample, by name.
std::map<std::string, TensorType> inputs_per_sample(const ModelConfig& model, DType compute);

/// The loss graph of a program, as build_loss_graph(): `config.batch` samples; parameters in
/// `config.master` are cast to the type with which the program reads them. `config.axes.batch` shard the
/// samples of each input, before the axes that the file names. With `metrics` the outputs after loss_sum and
/// token_count are the program's other outputs, each followed by what it is divided by. Then, with `shown`,
/// each of ModelProgram::shown as f32[samples, …]: slice_of_sample() of the first samples of the microbatch.
Graph build_program_graph(const ModelConfig& model, const GraphConfig& config);

} // namespace trivium
