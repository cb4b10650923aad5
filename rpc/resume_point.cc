// SPDX-License-Identifier: Apache-2.0
#include "rpc/resume_point.h"

#include <algorithm>

#include "rpc/job_length.h"
#include "rpc/regime.h"

namespace weir {
namespace {

uint64_t ResumeStep(const v1::Manifest& source, const v1::JobSpec& spec) {
  if (!DividesData(spec)) return source.step();
  // Where nothing but the workers has changed hands, this is the step of the checkpoint.
  if (IsSync(spec)) return WholeStepsIn(DataDone(source), spec);
  const v1::JobSpec& before = source.spec();
  const bool same_steps = !IsSync(before) && StepBatch(before) == StepBatch(spec) &&
                          before.train_examples() == spec.train_examples();
  return same_steps ? source.step() : StepsOver(DataDone(source), spec);
}

}  // namespace

bool HasDataRanges(const v1::Manifest& source) {
  return !IsSync(source.spec()) &&
         (source.next_epoch() > 0 || source.next_position() > 0 || !source.unfinished().empty());
}

uint64_t DataDone(const v1::Manifest& source) {
  const v1::JobSpec& spec = source.spec();
  if (HasDataRanges(source)) {
    uint64_t done = source.next_epoch() * spec.train_examples() + source.next_position();
    for (const v1::DataRange& range : source.unfinished()) {
      done -= std::min(done, range.end() - std::min(range.end(), range.first()));
    }
    return done;
  }
  if (IsSync(spec) && DividesData(spec)) return ExamplesAfterSteps(source.step(), spec);
  return source.examples();
}

v1::ResumePoint ResumePointOf(const v1::Manifest& source, const v1::JobSpec& spec) {
  v1::ResumePoint resume;
  resume.set_checkpoint_id(source.id());
  resume.set_step(ResumeStep(source, spec));
  resume.set_examples(source.examples());
  *resume.mutable_group_steps() = source.group_steps();
  return resume;
}

}  // namespace weir
