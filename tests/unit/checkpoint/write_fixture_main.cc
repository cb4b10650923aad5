// SPDX-License-Identifier: Apache-2.0
// write_checkpoint_fixture FOLDER: writes tests/fixtures/checkpoint_v1. Run once for each format;
// the files of an old format are never written again, so that what users saved stays readable.
#include <cstdio>
#include <string>

#include "checkpoint/manifest.h"
#include "tests/unit/checkpoint/sample_part.h"

namespace weir {
namespace {

absl::Status WriteFixture(const std::string& folder) {
  FileSystem& files = FileSystem::Real();
  const std::string root = folder + ".work";
  WEIR_ASSIGN_OR_RETURN(
      v1::CheckpointPart part,
      SamplePart().Write({.files = &files, .root = root, .directory = "job/00000001-1"}));
  WEIR_RETURN_IF_ERROR(files.CreateFolder(folder));
  WEIR_RETURN_IF_ERROR(files.Rename(part.directory(), folder + "/part"));
  WEIR_RETURN_IF_ERROR(files.RemoveTree(root));
  v1::Manifest manifest = SamplePart::ManifestOf(std::move(part));
  return files.WriteDurably(folder + "/00000001-1.manifest", EncodeManifest(manifest));
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_checkpoint_fixture FOLDER\n");
    return 2;
  }
  const absl::Status status = weir::WriteFixture(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
