// SPDX-License-Identifier: Apache-2.0
#include "worker/job_file.h"

#include <gmock/gmock.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr char kJob[] = R"(name: first-job
model: {builtin: resnet, options: {depth: 14}}
data:
  train: train-images-idx3-ubyte.gz
  test: t10k-images-idx3-ubyte.gz
  batch: {global: 256}
workers: 2
regime: async
optimizers: {sgd: {learning_rate: 1e-3, momentum: 0.9}}
epochs: 4
)";

absl::StatusOr<JobFile> Parse(const std::string& text, std::vector<std::string> overrides = {}) {
  return ParseJobFile({"job.yaml", text, "/data/jobs", std::move(overrides)});
}

auto Refused(const testing::Matcher<const std::string&>& message) {
  return HasStatus(absl::StatusCode::kInvalidArgument, message);
}

// kJob with one text in place of another: the literal message, or "".
std::string MessageOf(const std::string& from, const std::string& to) {
  EXPECT_THAT(kJob, HasSubstr(from));
  const auto job = Parse(absl::StrReplaceAll(kJob, {{from, to}}));
  if (job.ok()) return "";
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(job.status().message());
}

TEST(JobFile, GivesEveryFieldItsValueOrItsDefault) {
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile job, Parse(kJob));
  const v1::JobSpec& spec = job.spec;
  EXPECT_EQ(spec.name(), "first-job");
  EXPECT_EQ(spec.model().builtin(), "resnet");
  EXPECT_EQ(spec.model().options().at("depth"), "14");
  EXPECT_EQ(spec.model().options().at("width"), "16");
  EXPECT_EQ(spec.data().train(), "/data/jobs/train-images-idx3-ubyte.gz");
  EXPECT_EQ(spec.data().train_labels(), "/data/jobs/train-labels-idx1-ubyte.gz");
  EXPECT_EQ(spec.data().test_labels(), "/data/jobs/t10k-labels-idx1-ubyte.gz");
  EXPECT_EQ(spec.data().batch().global(), 256u);
  EXPECT_TRUE(spec.data().normalise());
  EXPECT_FALSE(spec.data().augment());
  EXPECT_EQ(spec.min_workers(), 2u);
  EXPECT_EQ(spec.regime().kind(), v1::REGIME_ASYNC);
  EXPECT_EQ(spec.optimizers().at("sgd").sgd().momentum(), 0.9);
  EXPECT_EQ(spec.length().epochs(), 4);
  EXPECT_EQ(spec.checkpoint().keep(), 3u);
  EXPECT_TRUE(spec.checkpoint().at_end());
  EXPECT_EQ(spec.step_timeout_ms(), 600000u);
}

TEST(JobFile, ANumberMayBeWrittenWithAnExponentAlone) {
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile job, Parse(kJob));
  EXPECT_EQ(job.spec.optimizers().at("sgd").learning_rate().base(), 1e-3);
}

TEST(JobFile, AnUnknownKeyIsRefusedWithTheNearestKnownOne) {
  EXPECT_EQ(MessageOf("workers: 2", "wrokers: 2"),
            "job.yaml:7: wrokers: unknown key; did you mean \"workers\"?");
  EXPECT_EQ(MessageOf("momentum: 0.9", "momentun: 0.9"),
            "job.yaml:9: optimizers.sgd.momentun: unknown key; did you mean \"momentum\"?");
}

TEST(JobFile, AnUnknownKeyWithoutANeighbourListsTheKnownOnes) {
  EXPECT_EQ(MessageOf("{global: 256}", "{global: 256, shuffling: true}"),
            "job.yaml:6: data.batch.shuffling: unknown key; expected one of global, per_replica");
  EXPECT_EQ(MessageOf("depth: 14", "levels: 14"),
            "job.yaml:2: model.options.levels: unknown key; expected one of depth, width");
}

TEST(JobFile, AWrongTypeIsRefusedWithWhatWasExpected) {
  EXPECT_EQ(MessageOf("workers: 2", "workers: two"),
            "job.yaml:7: workers: expected a whole number, 1 or more, found \"two\"");
  EXPECT_EQ(MessageOf("workers: 2", "workers: \"2\""),
            "job.yaml:7: workers: expected a whole number, 1 or more, found the string \"2\"");
  EXPECT_EQ(MessageOf("workers: 2", "workers: [2]"),
            "job.yaml:7: workers: expected a whole number, 1 or more, found a list");
  EXPECT_EQ(MessageOf("{global: 256}", "256"),
            "job.yaml:6: data.batch: expected a mapping, found \"256\"");
  EXPECT_EQ(MessageOf("momentum: 0.9", "momentum: -1"),
            "job.yaml:9: optimizers.sgd.momentum: expected a number, 0 or more, found \"-1\"");
  EXPECT_EQ(MessageOf("depth: 14", "depth: 15"),
            "job.yaml:2: model.options.depth: expected one of 8, 14, 20, found \"15\"");
  EXPECT_EQ(MessageOf("builtin: resnet", "builtin: resnt"),
            "job.yaml:2: model.builtin: expected one of mlp, resnet, found \"resnt\"; did you mean "
            "\"resnet\"?");
  EXPECT_EQ(MessageOf("epochs: 4", "evaluate: {every: 5 min}\nepochs: 4"),
            "job.yaml:10: evaluate.every: expected a length such as 2 epochs, 500 steps or 60000 "
            "examples, found \"5 min\"");
}

TEST(JobFile, EveryMistakeIsReportedAtOnce) {
  EXPECT_EQ(MessageOf("workers: 2\nregime: async", "workers: 0\nregime: asink"),
            "job.yaml:7: workers: expected a whole number, 1 or more, found \"0\"\n"
            "job.yaml:8: regime: expected one of sync, async, found \"asink\"; did you mean "
            "\"async\"?");
}

TEST(JobFile, ATimeOfNothingIsRefusedAndNotTakenForTheDefault) {
  EXPECT_EQ(MessageOf("workers: 2", "workers: 2\norphan_ttl: 0 s"),
            "job.yaml:8: orphan_ttl: expected 1 ms or more; without the key it is 1h");
  EXPECT_EQ(MessageOf("workers: 2", "workers: 2\nstep_timeout: 0.5 ms"),
            "job.yaml:8: step_timeout: expected 1 ms or more; without the key it is 10m");
}

TEST(JobFile, AKeyGivenTwiceIsRefused) {
  EXPECT_EQ(MessageOf("workers: 2", "workers: 2\nworkers: 3"),
            "job.yaml:8: workers: is given twice");
}

TEST(JobFile, WhatIsMissingIsNamed) {
  EXPECT_EQ(MessageOf("name: first-job\n", ""), "job.yaml:1: \"name\" is missing");
  EXPECT_EQ(MessageOf("  batch: {global: 256}\n", ""),
            "job.yaml:4: data: \"batch\" is missing, as in {global: 256} or {per_replica: 64}");
  EXPECT_EQ(MessageOf("learning_rate: 1e-3, ", ""),
            "job.yaml:9: optimizers.sgd: \"learning_rate\" is missing");
  EXPECT_EQ(MessageOf("epochs: 4\n", ""),
            "job.yaml:1: expected one of \"epochs\", \"steps\" and \"examples\": the job's length");
}

TEST(JobFile, WhatComesLaterIsRefusedByName) {
  EXPECT_EQ(
      MessageOf("{builtin: resnet, options: {depth: 14}}", "{plugin: ./mine.so}"),
      "job.yaml:2: model.plugin: is not supported yet: plug-ins come with a later release; use "
      "a built-in model\njob.yaml:2: model: expected one of \"builtin\", the name of a built-in "
      "model, and \"replica\", that of the replica class of a program of your own");
}

TEST(JobFile, AnOptimizerClipsInOneWay) {
  WEIR_ASSERT_OK_AND_ASSIGN(
      const JobFile job,
      Parse(kJob, {"optimizers.sgd.clip={global_norm: 5}", "optimizers.sgd.no_decay=[bias, bn*]"}));
  const v1::Optimizer& sgd = job.spec.optimizers().at("sgd");
  EXPECT_EQ(sgd.clip().global_norm(), 5);
  EXPECT_THAT(sgd.no_decay(), testing::ElementsAre("bias", "bn*"));
  constexpr char kForms[] =
      "optimizers.sgd.clip: expected one of {value: ...}, {global_norm: ...}, {push_norm: ...}";
  EXPECT_THAT(MessageOf("momentum: 0.9", "clip: {global_norm: 5, value: 1}"), HasSubstr(kForms));
  EXPECT_THAT(MessageOf("momentum: 0.9", "clip: {}"), HasSubstr(kForms));
  EXPECT_THAT(MessageOf("momentum: 0.9", "clip: {value: 0}"),
              HasSubstr("optimizers.sgd.clip.value: expected a number above 0"));
  EXPECT_THAT(MessageOf("momentum: 0.9", "clip: {norm: 5}"), HasSubstr("global_norm"));
}

TEST(JobFile, ABoundOfStalenessIsARegimeAndZeroIsSync) {
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile job, Parse(kJob, {"regime={bounded_staleness: 3}"}));
  EXPECT_EQ(job.spec.regime().kind(), v1::REGIME_BOUNDED_STALENESS);
  EXPECT_EQ(job.spec.regime().bounded_staleness(), 3u);
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile sync, Parse(kJob, {"regime=sync"}));
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile zero, Parse(kJob, {"regime={bounded_staleness: 0}"}));
  EXPECT_EQ(zero.spec.DebugString(), sync.spec.DebugString());
}

TEST(JobFile, SyncGroupsAreARegimeAndOneOfAllIsSync) {
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile job,
                            Parse(kJob, {"regime={sync_group_size: 2}", "workers=4"}));
  EXPECT_EQ(job.spec.regime().kind(), v1::REGIME_SYNC_GROUPS);
  EXPECT_EQ(job.spec.regime().sync_group_size(), 2u);
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile sync, Parse(kJob, {"regime=sync"}));
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile all, Parse(kJob, {"regime={sync_group_size: 2}"}));
  EXPECT_EQ(all.spec.DebugString(), sync.spec.DebugString());
  EXPECT_EQ(MessageOf("regime: async", "regime: {sync_group_size: 3}"),
            "job.yaml:8: regime: sync_group_size is 3, but the job has 2 replicas");
  EXPECT_EQ(MessageOf("regime: async", "regime: {sync_group_size: 1, bounded_staleness: 2}"),
            "job.yaml:8: regime: expected one of {bounded_staleness: ...} and {sync_group_size: "
            "...}");
}

TEST(JobFile, BackupWorkersBelongToSync) {
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile job, Parse(kJob, {"regime=sync", "backup_workers=1"}));
  EXPECT_EQ(job.spec.regime().backup_workers(), 1u);
  EXPECT_EQ(MessageOf("regime: async", "regime: async\nbackup_workers: 1"),
            "job.yaml:9: backup_workers: needs regime: sync; elsewhere no update waits for all "
            "workers");
}

TEST(JobFile, ARateMayBeScaledInAsync) {
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile job, Parse(kJob, {"learning_rate_scale=1/staleness"}));
  EXPECT_EQ(job.spec.regime().learning_rate_scale(), v1::RATE_SCALE_STALENESS);
  EXPECT_THAT(Parse(kJob, {"learning_rate_scale=1/worker"}).status(),
              Refused(HasSubstr("expected one of 1/workers, 1/staleness")));
}

// No default optimizer: the class has options of its own.
TEST(JobFile, AReplicaClassOfAProgramOfOnesOwnTakesAnyOptions) {
  WEIR_ASSERT_OK_AND_ASSIGN(
      const JobFile job,
      Parse("name: own\nmodel: {replica: gan, options: {width: 32, sizes: [3, 4], kind: \"a b\"}}\n"
            "data: {train: t, test: u, batch: {global: 8}}\nsteps: 5\nreplicas_per_worker: 3\n"
            "device: cpu\nprecision: bf16\nlogical_devices: 2\n"));
  EXPECT_EQ(job.spec.model().replica(), "gan");
  EXPECT_EQ(job.spec.model().options().at("width"), "32");
  EXPECT_EQ(job.spec.model().options().at("sizes"), "3,4");
  EXPECT_EQ(job.spec.model().options().at("kind"), "a b");
  EXPECT_TRUE(job.spec.optimizers().empty());
  WEIR_ASSERT_OK_AND_ASSIGN(
      const JobFile two,
      Parse("name: own\nmodel: {replica: gan}\ndata: {train: t, test: u, batch: {global: 8}}\n"
            "steps: 5\noptimizers: {g: {kind: sgd, learning_rate: 0.1}, d: {kind: adam, "
            "learning_rate: 0.2}}\n"));
  EXPECT_EQ(two.spec.optimizers().size(), 2u);
  EXPECT_THAT(Parse(kJob, {"optimizers.other={kind: sgd, learning_rate: 0.1}"}).status(),
              Refused(HasSubstr("optimizers: the built-in models have one optimizer")));
  EXPECT_EQ(job.spec.replicas_per_worker(), 3u);
  EXPECT_EQ(job.spec.device(), "cpu");
  EXPECT_EQ(job.spec.precision(), "bf16");
  EXPECT_EQ(job.spec.logical_devices(), 2u);
}

constexpr char kOwnInput[] = R"(name: own
model: {replica: learner}
data: {batch: {per_replica: 8}}
steps: 5
)";

TEST(JobFile, WithoutFilesAReplicaClassBringsItsInput) {
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile source, Parse(kOwnInput, {"workers=3"}));
  EXPECT_EQ(source.spec.data().format(), "source");
  EXPECT_EQ(source.spec.data().train(), "");
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile dataset, Parse(kOwnInput, {"data.examples=500"}));
  EXPECT_EQ(dataset.spec.data().format(), "dataset");
  EXPECT_EQ(dataset.spec.train_examples(), 500u);
  for (const JobFile& job : {source, dataset}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, ResolveJob(job, 500));
    WEIR_ASSERT_OK_AND_ASSIGN(const JobFile again, Parse(PrintJob(spec)));
    EXPECT_EQ(again.spec.data().format(), job.spec.data().format());
    EXPECT_EQ(again.spec.train_examples(), job.spec.train_examples());
  }
}

TEST(JobFile, InputThatMakesNoSenseIsRefusedWithWhatToWrite) {
  const auto message_of = [](const std::vector<std::string>& overrides) {
    return std::string(Parse(kOwnInput, overrides).status().message());
  };
  EXPECT_THAT(message_of({"epochs=2"}),
              HasSubstr("epochs: a source has no epochs: give \"steps\" or \"examples\"; or "
                        "data.examples, where MakeInput gives a dataset"));
  EXPECT_EQ(message_of({"epochs=2", "data.examples=9"}), "");
  EXPECT_THAT(message_of({"data.format=source", "data.train=x"}),
              HasSubstr("data.train: is for \"format: idx\"; here MakeInput of the replica class "
                        "gives the input"));
  EXPECT_THAT(message_of({"data.train=x"}), HasSubstr("data: \"test\" is missing"));
  EXPECT_THAT(message_of({"data.train=x", "data.test=y", "data.examples=9"}),
              HasSubstr("data.examples: is for \"format: dataset\"; files have their size"));
  EXPECT_THAT(message_of({"data.format=source", "data.examples=9"}),
              HasSubstr("data.examples: is for \"format: dataset\"; a source has no size"));
  EXPECT_THAT(message_of({"data.format=dataset"}),
              HasSubstr("data: \"examples\" is missing: the size of the dataset"));
  EXPECT_THAT(Parse(kJob, {"data.format=source"}).status().message(),
              HasSubstr("data.format: needs \"model.replica\""));
}

TEST(JobFile, DevicesAndPrecisionsAreKnownWords) {
  EXPECT_EQ(MessageOf("epochs: 4", "epochs: 4\ndevice: gpu"),
            "job.yaml:11: device: expected one of auto, cpu, cuda, found \"gpu\"; did you mean "
            "\"cpu\"?");
  EXPECT_THAT(MessageOf("epochs: 4", "epochs: 4\nprecision: f16"),
              HasSubstr("precision: expected one of f32, bf16, found \"f16\""));
  EXPECT_THAT(MessageOf("workers: 2", "workers: 2\nreplicas_per_worker: 0"),
              HasSubstr("replicas_per_worker: expected a whole number, 1 or more"));
}

TEST(JobFile, ValuesThatContradictEachOtherAreRefused) {
  EXPECT_THAT(MessageOf("regime: async", "deterministic: true"),
              HasSubstr("deterministic: needs regime: sync"));
  EXPECT_EQ(MessageOf("regime: async", "regime: sync\nlearning_rate_scale: 1/workers"),
            "job.yaml:9: learning_rate_scale: needs regime: async; elsewhere an update is not the "
            "push of one stale worker");
  EXPECT_THAT(MessageOf("momentum: 0.9", "nesterov: true"),
              HasSubstr("optimizers.sgd: nesterov needs a momentum above 0"));
  EXPECT_THAT(MessageOf("workers: 2", "workers: 2\nmin_workers: 3"),
              HasSubstr("min_workers is above workers"));
  EXPECT_THAT(MessageOf("epochs: 4", "epochs: 4\nsteps: 10"),
              HasSubstr("expected one of \"epochs\""));
}

TEST(JobFile, TextThatIsNotYamlIsRefusedWithItsLine) {
  EXPECT_THAT(Parse("name: {a\nb: ]").status(), Refused(HasSubstr("job.yaml:1: not YAML: ")));
  EXPECT_THAT(Parse("").status(), Refused("job.yaml: expected a mapping of keys to values"));
}

TEST(JobFile, AMissingFileIsNamed) {
  EXPECT_THAT(
      ReadJobFile("/nowhere/job.yaml", {}).status(),
      HasStatus(absl::StatusCode::kNotFound,
                "/nowhere/job.yaml: the job file cannot be read: No such file or directory"));
}

TEST(JobFile, AnOptimizerWithoutKindHasTheNearestOneNamed) {
  EXPECT_EQ(MessageOf("sgd: {learning_rate: 1e-3, momentum: 0.9}", "adma: {learning_rate: 1e-3}"),
            "job.yaml:9: optimizers.adma: \"kind\" is missing, and the name is not itself one of "
            "sgd, adagrad, rmsprop, adam, adamw; did you mean \"adam\"?");
}

TEST(JobFile, AFolderAndAnEmptyFileAreToldApartFromAMissingOne) {
  const TempFolder folder;
  EXPECT_THAT(ReadJobFile(folder.path(), {}).status(),
              Refused(absl::StrCat(folder.path(), ": is a folder; give the job file in it, as ",
                                   folder.path(), "/job.yaml")));
  const std::string empty = folder / "empty.yaml";
  std::ofstream(empty).close();
  EXPECT_THAT(ReadJobFile(empty, {}).status(),
              Refused(absl::StrCat(empty, ": the job file is empty; docs/job-file.md shows one")));
}

TEST(JobFile, AnOverrideReplacesOrAddsOneValue) {
  WEIR_ASSERT_OK_AND_ASSIGN(
      const JobFile job,
      Parse(kJob, {"regime=sync", "optimizers.sgd.nesterov=true", "checkpoint.every=5 min"}));
  EXPECT_EQ(job.spec.regime().kind(), v1::REGIME_SYNC);
  EXPECT_TRUE(job.spec.optimizers().at("sgd").sgd().nesterov());
  EXPECT_EQ(job.spec.optimizers().at("sgd").sgd().momentum(), 0.9);
  EXPECT_EQ(job.spec.checkpoint().every().seconds(), 300);
}

TEST(JobFile, AnOverrideOfALengthStandsInPlaceOfTheOthers) {
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile job,
                            Parse(kJob, {"steps=50", "data.batch.per_replica=8"}));
  EXPECT_EQ(job.spec.length().steps(), 50u);
  EXPECT_EQ(job.spec.data().batch().per_replica(), 8u);
}

TEST(JobFile, AMistakeInAnOverrideNamesTheOverride) {
  EXPECT_THAT(Parse(kJob, {"wrokers=3"}).status(),
              Refused("--set wrokers=3: wrokers: unknown key; did you mean \"workers\"?"));
  EXPECT_THAT(Parse(kJob, {"optimizers.sgd.momentum=high"}).status(),
              Refused("--set optimizers.sgd.momentum=high: optimizers.sgd.momentum: expected a "
                      "number, 0 or more, found \"high\""));
  EXPECT_THAT(Parse(kJob, {"workers"}).status(), Refused(HasSubstr("expected key=value")));
}

// 60,000 examples, global batch 256 over 2 workers: an asynchronous step is a push of 128.
TEST(JobFile, LengthsInSchedulesBecomeExamples) {
  WEIR_ASSERT_OK_AND_ASSIGN(
      const JobFile job,
      Parse(absl::StrReplaceAll(
          kJob, {{"1e-3", "{cosine: {from: 0.1, to: 1e-4, warm_up_epochs: 0.5}}"}})));
  WEIR_ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, ResolveJob(job, 60000));
  const v1::Schedule& schedule = spec.optimizers().at("sgd").learning_rate();
  EXPECT_EQ(schedule.base(), 0.1);
  EXPECT_EQ(schedule.warm_up_examples(), 30000u);
  EXPECT_EQ(schedule.cosine().total_examples(), 240000u);
  EXPECT_EQ(schedule.cosine().final_rate(), 1e-4);
  EXPECT_EQ(spec.train_examples(), 60000u);
}

TEST(JobFile, StepsInASchedulesCountAsTheRegimeCountsThem) {
  const std::string text = absl::StrReplaceAll(
      kJob, {{"1e-3", "{step: {from: 0.1, at: [100 steps, 1 epoch], factor: 0.5}}"}});
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile async, Parse(text));
  WEIR_ASSERT_OK_AND_ASSIGN(const JobFile sync, Parse(text, {"regime=sync"}));
  const auto boundary = [](const absl::StatusOr<v1::JobSpec>& spec) {
    return spec->optimizers().at("sgd").learning_rate().step().boundary_examples(0);
  };
  EXPECT_EQ(boundary(ResolveJob(async, 60000)), 12800u);
  EXPECT_EQ(boundary(ResolveJob(sync, 60000)), 25600u);
}

TEST(JobFile, ASchedulesWarmUpMustEndBeforeTheSchedule) {
  WEIR_ASSERT_OK_AND_ASSIGN(
      const JobFile job,
      Parse(absl::StrReplaceAll(kJob, {{"1e-3", "{linear: {from: 0.1, warm_up_epochs: 4}}"}})));
  EXPECT_THAT(ResolveJob(job, 1000).status(),
              Refused("optimizers.sgd.learning_rate: the warm-up takes 4000 examples, and the "
                      "whole schedule only 4000"));
}

TEST(JobFile, EachOptimizerIsReadWithLibTorchsDefaults) {
  const auto optimizer = [](const std::string& options) {
    const auto job = Parse(
        absl::StrReplaceAll(kJob, {{"{sgd: {learning_rate: 1e-3, momentum: 0.9}}", options}}));
    EXPECT_THAT(job, IsOk());
    return job.ok() ? job->spec.optimizers().begin()->second : v1::Optimizer();
  };
  EXPECT_EQ(optimizer("{adamw: {learning_rate: 0.1}}").adamw().weight_decay(), 1e-2);
  EXPECT_EQ(optimizer("{adam: {learning_rate: 0.1, betas: [0.5, 0.9]}}").adam().beta1(), 0.5);
  EXPECT_EQ(optimizer("{body: {kind: rmsprop, learning_rate: 0.1}}").rmsprop().alpha(), 0.99);
  EXPECT_EQ(optimizer("{adagrad: {learning_rate: 0.1}}").adagrad().eps(), 1e-10);
}

}  // namespace
}  // namespace weir
