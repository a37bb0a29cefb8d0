// SPDX-License-Identifier: MIT
/// Everything of dlprim that a program needs to load, run and train networks.
#pragma once
#include <dlprim/net/json.hpp>
#include <dlprim/net/language.hpp>
#include <dlprim/net/net.hpp>
#include <dlprim/net/onnx.hpp>
#include <dlprim/net/operations.hpp>
#include <dlprim/net/parameters.hpp>
#include <dlprim/net/solver.hpp>

namespace dp = dlprim;
