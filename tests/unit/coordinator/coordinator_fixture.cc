// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/coordinator/coordinator_fixture.h"

namespace weir {

void CoordinatorTest::Boot() {
  // Let go without a farewell; the tasks of the former life find nobody.
  coordinator_.reset();
  manifests_ = std::make_unique<ManifestStore>(files_, "/coordinator/checkpoints");
  Coordinator::Options options;
  options.clock = &clock_;
  options.executor = &executor_;
  options.store = &store_;
  options.transport = &servers_;
  options.manifests = manifests_.get();
  options.lease = kLease;
  options.tick = kTick;
  options.random = [this] { return ++last_random_; };
  options.build = "test";
  absl::StatusOr<std::shared_ptr<Coordinator>> created = Coordinator::Create(std::move(options));
  ASSERT_THAT(created, IsOk());
  coordinator_ = *std::move(created);
  executor_.RunAll();
}

absl::Status CoordinatorTest::AddServer(const std::string& name, uint64_t incarnation,
                                        uint64_t limit) {
  v1::RegisterServerRequest request;
  request.mutable_server()->set_name(name);
  request.mutable_server()->set_address(absl::StrCat(name, ":4661"));
  request.mutable_server()->set_incarnation(incarnation);
  request.set_memory_limit_bytes(limit);
  return Call(&Coordinator::RegisterServer, request).status();
}

absl::StatusOr<v1::RegisterReply> CoordinatorTest::Join(uint64_t worker, const v1::JobSpec& spec,
                                                        int32_t rank) {
  v1::RegisterRequest request;
  *request.mutable_spec() = spec;
  request.set_worker(worker);
  request.set_wanted_rank(rank);
  request.set_host(absl::StrCat("host-", worker));
  request.set_protocol_min(1);
  request.set_protocol_max(1);
  absl::StatusOr<v1::RegisterReply> reply = Call(&Coordinator::Register, request);
  if (reply.ok()) {
    runs_[spec.name()] = reply->run_id();
    run_of_[worker] = reply->run_id();
  }
  return reply;
}

absl::Status CoordinatorTest::Beat(uint64_t worker, uint64_t step, uint64_t attempt) {
  v1::HeartbeatRequest request;
  request.set_incarnation(worker);
  request.set_run_id(run_of_[worker]);
  request.set_step(step);
  request.set_attempt(attempt);
  return Call(&Coordinator::Heartbeat, request).status();
}

absl::Status CoordinatorTest::BeatServer(uint64_t incarnation, const v1::ServerReport& report) {
  v1::HeartbeatRequest request;
  request.set_incarnation(incarnation);
  *request.mutable_report() = report;
  return Call(&Coordinator::Heartbeat, request).status();
}

absl::Status CoordinatorTest::Declare(uint64_t worker, const v1::Declaration& declaration) {
  v1::DeclareRequest request;
  request.set_run_id(run_of_[worker]);
  request.set_worker(worker);
  *request.mutable_declaration() = declaration;
  return Call(&Coordinator::Declare, request).status();
}

absl::Status CoordinatorTest::ReportInitialised(uint64_t worker) {
  v1::ReportInitialisedRequest request;
  request.set_run_id(run_of_[worker]);
  request.set_worker(worker);
  for (const auto& [job, run] : runs_) {
    if (run == run_of_[worker]) request.set_attempt(View(job).attempt());
  }
  return Call(&Coordinator::ReportInitialised, request).status();
}

absl::Status CoordinatorTest::Report(uint64_t worker, uint64_t step, uint64_t examples) {
  v1::ReportProgressRequest request;
  request.set_run_id(run_of_[worker]);
  request.set_worker(worker);
  request.set_attempt(View().attempt());
  request.mutable_progress()->set_step(step);
  request.mutable_progress()->set_examples(examples);
  return Call(&Coordinator::ReportProgress, request).status();
}

absl::Status CoordinatorTest::Leave(uint64_t worker, bool finished, const std::string& reason) {
  v1::LeaveRequest request;
  request.set_run_id(run_of_[worker]);
  request.set_worker(worker);
  request.set_finished(finished);
  request.set_reason(reason);
  return Call(&Coordinator::Leave, request).status();
}

absl::StatusOr<v1::LeaveReply> CoordinatorTest::LeaveUnlessLast(uint64_t worker) {
  v1::LeaveRequest request;
  request.set_run_id(run_of_[worker]);
  request.set_worker(worker);
  request.set_unless_last(true);
  return Call(&Coordinator::Leave, request);
}

absl::Status CoordinatorTest::Mark(uint64_t worker, uint64_t consumed) {
  v1::ReportCutRequest request;
  request.set_run_id(run_of_[worker]);
  request.set_worker(worker);
  request.set_attempt(View().attempt());
  request.set_cut(View().cut());
  request.set_consumed(consumed);
  v1::CutMark& mark = *request.add_marks();
  mark.set_worker(worker);
  mark.set_group(1);
  mark.set_last_sequence(7);
  return Call(&Coordinator::ReportCut, request).status();
}

Pending<v1::BarrierReply> CoordinatorTest::Enter(uint64_t worker, const std::string& name,
                                                 double value, absl::Duration timeout,
                                                 uint64_t step) {
  v1::BarrierRequest request;
  request.set_run_id(run_of_[worker]);
  request.set_worker(worker);
  request.set_name(name);
  request.set_attempt(View().attempt());
  (*request.mutable_values())["value"] = value;
  request.set_step(step);
  return Start<v1::BarrierReply>([&](Coordinator::Done<v1::BarrierReply> done) {
    coordinator_->Barrier(request, clock_.Now() + timeout, std::move(done));
  });
}

Pending<v1::SaveCheckpointReply> CoordinatorTest::Save(absl::Duration timeout) {
  v1::SaveCheckpointRequest request;
  request.set_job("job");
  servers_.shard_map = View().shard_map();
  return Start<v1::SaveCheckpointReply>([&](Coordinator::Done<v1::SaveCheckpointReply> done) {
    coordinator_->SaveCheckpoint(request, clock_.Now() + timeout, std::move(done));
  });
}

std::string CoordinatorTest::SaveAt(uint64_t step, uint64_t examples) {
  servers_.saved_step = step;
  servers_.saved_examples = examples;
  const auto saved = Save();
  if (saved->has_value() && (*saved)->ok()) return (**saved)->manifest().id();
  ADD_FAILURE() << "not saved";
  return "";
}

void CoordinatorTest::Damage(const std::string& checkpoint) {
  servers_.restore.answer =
      [checkpoint](const v1::ServerInfo&,
                   const v1::RestoreRequest& request) -> absl::StatusOr<v1::RestoreReply> {
    if (request.checkpoint_id() == checkpoint) return absl::DataLossError("000001.sst, shard 3");
    return v1::RestoreReply();
  };
}

void CoordinatorTest::DieBetweenCommits() {
  servers_.commit.answer =
      [this](const v1::ServerInfo& server,
             const v1::CommitStepRequest&) -> absl::StatusOr<v1::CommitStepReply> {
    if (server.name() == "server-0") return v1::CommitStepReply();
    coordinator_.reset();
    return absl::UnavailableError("never heard");
  };
}

std::vector<v1::Manifest> CoordinatorTest::Checkpoints(const std::string& job) {
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  const auto reply = Call(&Coordinator::ListCheckpoints, request);
  EXPECT_THAT(reply, IsOk());
  if (!reply.ok()) return {};
  return {reply->manifests().begin(), reply->manifests().end()};
}

absl::Status CoordinatorTest::Stop(const std::string& job) {
  v1::StopJobRequest request;
  request.set_job(job);
  return Call(&Coordinator::StopJob, request).status();
}

absl::StatusOr<v1::TakeRangesReply> CoordinatorTest::Take(uint64_t worker, uint64_t request,
                                                          uint64_t examples, uint64_t consumed) {
  v1::TakeRangesRequest call;
  call.set_run_id(run_of_[worker]);
  call.set_worker(worker);
  call.set_attempt(View().attempt());
  call.set_request(request);
  call.set_examples(examples);
  call.set_consumed(consumed);
  return Call(&Coordinator::TakeRanges, call);
}

v1::JobView CoordinatorTest::View(const std::string& job) {
  v1::WatchRequest request;
  request.set_run_id(runs_[job]);
  v1::JobView view;
  const absl::StatusOr<WatchId> watch = coordinator_->Watch(
      request, [&view](const SharedWatchEvent& event) { view = event->view(); });
  executor_.RunAll();
  if (watch.ok()) coordinator_->Unwatch(*watch);
  return view;
}

void CoordinatorTest::Pass(absl::Duration duration, const std::vector<uint64_t>& workers,
                           const std::vector<uint64_t>& servers) {
  const absl::Time until = clock_.Now() + duration;
  while (clock_.Now() < until) {
    for (const uint64_t worker : workers) EXPECT_THAT(Beat(worker), IsOk());
    for (const uint64_t server : servers) EXPECT_THAT(BeatServer(server), IsOk());
    executor_.Advance(std::min(until - clock_.Now(), absl::Seconds(1)));
  }
}

void CoordinatorTest::RunJob(const v1::JobSpec& spec, const std::vector<uint64_t>& workers) {
  ASSERT_THAT(AddServer("server-0", 900), IsOk());
  ASSERT_THAT(AddServer("server-1", 901), IsOk());
  for (const uint64_t worker : workers) ASSERT_THAT(Join(worker, spec), IsOk());
  ASSERT_THAT(Declare(workers.front(), OneVariable()), IsOk());
  ASSERT_THAT(ReportInitialised(workers.front()), IsOk());
  ASSERT_EQ(View(spec.name()).state(), v1::JOB_STATE_RUNNING);
  servers_.shard_map = View(spec.name()).shard_map();
}

v1::JobSpec CoordinatorTest::SyncJob(uint32_t workers) {
  v1::JobSpec spec;
  spec.set_name("job");
  spec.set_workers(workers);
  spec.mutable_regime()->set_kind(v1::REGIME_SYNC);
  spec.mutable_data()->mutable_batch()->set_global(10 * workers);
  spec.set_train_examples(1000);
  return spec;
}

v1::JobSpec CoordinatorTest::AsyncJob(uint32_t workers) {
  v1::JobSpec spec = SyncJob(workers);
  spec.mutable_regime()->set_kind(v1::REGIME_ASYNC);
  spec.mutable_length()->set_epochs(1);
  return spec;
}

v1::Declaration CoordinatorTest::OneVariable(uint64_t elements) {
  v1::Declaration declaration;
  v1::Variable& variable = *declaration.add_variables();
  variable.set_name("weights");
  variable.set_dtype(v1::DTYPE_F32);
  variable.add_shape(elements);
  variable.set_group(1);
  v1::OptimizerGroup& group = *declaration.add_groups();
  group.set_name("sgd");
  group.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  group.mutable_optimizer()->mutable_learning_rate()->set_base(0.1);
  return declaration;
}

}  // namespace weir
