// SPDX-License-Identifier: MIT
#pragma once
#include <CLI/CLI.hpp>

// Each adds its subcommand; errors are exceptions, which main() prints.
void info(CLI::App& program);
void benchmark(CLI::App& program);
void flops(CLI::App& program);
void generate(CLI::App& program);
void predict(CLI::App& program);
void train(CLI::App& program);
void convert(CLI::App& program);
void tune(CLI::App& program);
