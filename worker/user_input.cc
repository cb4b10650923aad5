// SPDX-License-Identifier: Apache-2.0
#include "worker/user_input.h"

#include <torch/utils.h>

#include <algorithm>
#include <numeric>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/status_macros.h"
#include "worker/data/permutation.h"
#include "worker/default_generator.h"
#include "worker/torch_replica.h"

namespace weir {
namespace {

// The first dimension, in which all tensors of a batch agree.
absl::StatusOr<uint64_t> ExamplesOf(const Nest& batch) {
  absl::optional<int64_t> examples;
  absl::Status status;
  batch.ForEach([&](const std::string& path, const torch::Tensor& tensor) {
    if (!status.ok()) return;
    const std::string name = path.empty() ? "the batch" : absl::StrCat("tensor \"", path, "\"");
    if (!tensor.defined() || tensor.dim() == 0) {
      status = absl::InvalidArgumentError(
          absl::StrCat(name, " has no dimension: the first one counts the examples"));
    } else if (examples && *examples != tensor.size(0)) {
      status = absl::InvalidArgumentError(absl::StrCat(
          name, " has ", tensor.size(0), " examples, and those before it ", *examples));
    } else {
      examples = tensor.size(0);
    }
  });
  WEIR_RETURN_IF_ERROR(status);
  if (!examples) return absl::InvalidArgumentError("the batch has no tensor");
  return static_cast<uint64_t>(*examples);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetSlices>> DatasetSlices::Create(
    std::shared_ptr<Dataset> dataset, const Options& options) {
  auto slices = absl::WrapUnique(new DatasetSlices(std::move(dataset), options));
  WEIR_RETURN_IF_ERROR(
      CatchErrors("Dataset::Size", [&] { slices->size_ = slices->dataset_->Size(); }));
  if (slices->size_ == 0) return absl::InvalidArgumentError("the dataset has no examples");
  return slices;
}

absl::StatusOr<ReplicaBatch> DatasetSlices::Read(const BatchSlice& slice) {
  if (epoch_ != slice.epoch || order_.empty()) {
    if (options_.shuffled) {
      order_ = Permutation(options_.seed, slice.epoch, size_);
    } else {
      order_.resize(size_);
      std::iota(order_.begin(), order_.end(), uint64_t{0});
    }
    epoch_ = slice.epoch;
  }
  absl::optional<DefaultGenerator::Lock> lock;
  if (options_.seeded) {
    lock.emplace();
    torch::manual_seed(MixSeed(options_.seed, slice.epoch, slice.first));
  }
  if (slice.examples() > 0) {
    return Get({order_.begin() + static_cast<int64_t>(slice.first),
                order_.begin() + static_cast<int64_t>(slice.end)});
  }
  // An empty batch has the shapes of others.
  WEIR_ASSIGN_OR_RETURN(ReplicaBatch batch, Get({0}));
  const Nest empty =
      batch.input->Transform([](const torch::Tensor& tensor) { return tensor.narrow(0, 0, 0); });
  return ReplicaBatch(0, std::make_shared<const Nest>(empty));
}

absl::StatusOr<ReplicaBatch> DatasetSlices::Get(const std::vector<uint64_t>& indices) {
  auto batch = std::make_shared<Nest>();
  WEIR_RETURN_IF_ERROR(CatchErrors("Dataset::Get", [&] { *batch = dataset_->Get(indices); }));
  WEIR_ASSIGN_OR_RETURN(const uint64_t examples, ExamplesOf(*batch));
  if (examples == indices.size()) return ReplicaBatch(examples, std::move(batch));
  return absl::InvalidArgumentError(
      absl::StrCat("Dataset::Get gave ", examples, " examples for ", indices.size(), " indices"));
}

absl::StatusOr<ReplicaBatch> CallableSource::Next() {
  absl::optional<Nest> batch;
  WEIR_RETURN_IF_ERROR(CatchErrors("the callable", [&] {
    std::optional<Nest> given = function_(stop_.token());
    if (given) batch = *std::move(given);
  }));
  if (!batch) return absl::OutOfRangeError("the source has ended");
  WEIR_ASSIGN_OR_RETURN(const uint64_t examples, ExamplesOf(*batch));
  return ReplicaBatch(examples, std::make_shared<const Nest>(*std::move(batch)));
}

}  // namespace weir
