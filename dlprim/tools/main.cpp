// SPDX-License-Identifier: MIT
// dlprim: networks on OpenCL devices from the command line. Exit codes: 0 done, 1 failed, 2 wrong usage.
#include <dlprim/error.hpp>

#include <cstdio>

#include "commands.hpp"
#include "compilers.hpp"

int main(int argc, char** argv) {
  dlprim::answer_as_compiler(argc, argv);
  CLI::App program("Networks on any OpenCL device");
  program.require_subcommand(1);
  info(program);
  benchmark(program);
  flops(program);
  generate(program);
  predict(program);
  train(program);
  convert(program);
  tune(program);
  try {
    program.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;  // 0: help was asked for
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dlprim: %s\n", error.what());
    return 1;
  }
}
