// SPDX-License-Identifier: MIT
// Choices that were measured, problem by problem (settings.benchmark, docs/gemm.md).
#pragma once
#include <string>

namespace dlprim {

/// Choices among several ways to compute a product or convolution that this process met since it started to record or
/// to measure, and how many of them are measured ones, of now or earlier.
struct TuningProgress {
  int choices = 0, measured = 0;
};
TuningProgress tuning_progress();

/// From now on choices are counted though nothing is measured.
void record_choices(bool wanted);

/// The measured choices that this process made or used, one a line, as dlprim/tuning/data keeps them: the scope
/// ("vendor/architecture/device"), the problem and the choice, separated by tabs.
std::string tuned_choices();

}  // namespace dlprim
