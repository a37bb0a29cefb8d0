// SPDX-License-Identifier: MIT
#pragma once

namespace dlprim {

/// The domain of operators on bytes that optimize() puts in the place of others, with attributes that it computed.
constexpr const char* quantized_domain = "dlprim.quantized";

}  // namespace dlprim
