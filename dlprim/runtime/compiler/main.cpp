// SPDX-License-Identifier: MIT
// The program dlprim_compiler, which lies beside the library: serve.hpp.
#include <cstdlib>

#include "serve.hpp"

int main(int count, char** arguments) { return count == 2 ? dlprim::serve_compiler(arguments[1]) : EXIT_FAILURE; }
