// SPDX-License-Identifier: MIT
/// Everything of dlprim that a program needs to load and run networks.
#pragma once
#include <dlprim/net/net.hpp>
#include <dlprim/net/onnx.hpp>
#include <dlprim/primitives/pointwise_reduce.hpp>

namespace dp = dlprim;
