// SPDX-License-Identifier: Apache-2.0
// What a session tells the coordinator from a thread of its own: progress, and marked cuts.
#include <algorithm>
#include <utility>

#include "client/remote_job_session.h"

namespace weir {

void RemoteJobSession::ReportCut(const CutReport& report) {
  MutexLock lock(mutex_);
  cut_ = report;
  changed_.NotifyAll();
}

v1::ReportCutRequest RemoteJobSession::CutRequest(const CutReport& report) const {
  v1::ReportCutRequest request;
  request.set_run_id(view_->run_id());
  request.set_worker(static_cast<uint64_t>(worker_));
  request.set_attempt(report.attempt);
  request.set_cut(report.cut.cut);
  request.set_consumed(report.cut.consumed);
  for (size_t group = 0; group < report.cut.last_sequence.size(); ++group) {
    v1::CutMark& mark = *request.add_marks();
    mark.set_worker(static_cast<uint64_t>(worker_));
    mark.set_group(static_cast<uint32_t>(group));
    mark.set_last_sequence(report.cut.last_sequence[group]);
    mark.set_next_group_step(report.cut.next_group_step[group]);
  }
  if (ranges_attempt_ != report.attempt) return request;
  uint64_t consumed = report.cut.consumed;
  for (const v1::DataRange& range : ranges_) {
    const uint64_t skip = std::min(consumed, range.end() - range.first());
    consumed -= skip;
    if (range.first() + skip == range.end()) continue;
    v1::DataRange& left = *request.add_unfinished();
    left = range;
    left.set_first(range.first() + skip);
  }
  return request;
}

void RemoteJobSession::RunReports() {
  constexpr absl::Duration kReportTimeout = absl::Seconds(10);
  while (true) {
    std::optional<v1::ReportCutRequest> cut;
    std::optional<v1::ReportProgressRequest> progress;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && !cut_.has_value() && !progress_.has_value()) changed_.Wait(mutex_);
      if (stopping_) return;
      if (cut_.has_value()) cut = CutRequest(*std::exchange(cut_, std::nullopt));
      if (!cut.has_value()) progress = std::exchange(progress_, std::nullopt);
    }
    // A report that fails is let go: the coordinator asks for a new cut, and a newer progress
    // follows.
    if (cut.has_value()) {
      (void)session_->client().Call(&CoordinatorStub::ReportCut, *cut, In(kReportTimeout));
    } else {
      (void)session_->client().CallOnce(&CoordinatorStub::ReportProgress, *progress,
                                        In(kReportTimeout));
    }
  }
}

}  // namespace weir
