// SPDX-License-Identifier: Apache-2.0
#include "worker/data/idx.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_folder.h"
#include "worker/data/image_dataset.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Bytes = std::string;

Bytes Header(uint8_t type, const std::vector<uint32_t>& shape) {
  Bytes header = {0, 0, static_cast<char>(type), static_cast<char>(shape.size())};
  for (const uint32_t size : shape) {
    for (const int shift : {24, 16, 8, 0}) header.push_back(static_cast<char>(size >> shift));
  }
  return header;
}

class Idx : public testing::Test {
 protected:
  std::string Write(const std::string& name, const Bytes& bytes) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string WriteGzip(const std::string& name, const Bytes& bytes) {
    const std::string path = folder_ / name;
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }

  const TempFolder folder_;
};

TEST_F(Idx, PlainAndGzippedFilesReadTheSame) {
  const Bytes bytes = Header(8, {2, 3}) + Bytes({1, 2, 3, 4, 5, 6});
  for (const std::string& path : {Write("plain", bytes), WriteGzip("zipped.gz", bytes)}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const IdxArray array, ReadIdx(path, 2));
    EXPECT_THAT(array.shape, ElementsAre(2, 3));
    EXPECT_THAT(array.values, ElementsAre(1, 2, 3, 4, 5, 6));
    WEIR_ASSERT_OK_AND_ASSIGN(const auto shape, ReadIdxShape(path, 2));
    EXPECT_THAT(shape, ElementsAre(2, 3));
  }
}

TEST_F(Idx, AMissingFileIsNamed) {
  EXPECT_THAT(ReadIdx("/nowhere/images.gz", 3).status(),
              HasStatus(absl::StatusCode::kNotFound,
                        "/nowhere/images.gz: cannot be opened: No such file or directory"));
}

TEST_F(Idx, AWrongFieldIsNamed) {
  const std::string text = Write("text", "hello, this is no array");
  EXPECT_THAT(ReadIdx(text, 1).status(), HasStatus(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("the first two bytes must be 0")));
  const std::string floats = Write("floats", Header(13, {1}) + Bytes(4, 0));
  EXPECT_THAT(ReadIdx(floats, 1).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        HasSubstr("the type must be 8 (unsigned bytes), found 13")));
  const std::string labels = Write("labels", Header(8, {1}) + Bytes(1, 0));
  EXPECT_THAT(ReadIdx(labels, 3).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        HasSubstr("the number of dimensions must be 3, found 1")));
}

TEST_F(Idx, ATruncatedFileIsRefusedAtEveryLength) {
  const Bytes bytes = Header(8, {2, 3}) + Bytes({1, 2, 3, 4, 5, 6});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(ReadIdx(Write("short", bytes.substr(0, size)), 2).status().code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
}

TEST_F(Idx, ATruncatedOrDamagedGzipIsRefused) {
  const std::string path = WriteGzip("zipped.gz", Header(8, {4000}) + Bytes(4000, 'x'));
  std::ifstream file(path, std::ios::binary);
  const Bytes good((std::istreambuf_iterator<char>(file)), {});
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_FALSE(ReadIdx(Write("short.gz", good.substr(0, size)), 1).ok()) << size;
  }
  Bytes flipped = good;
  flipped[good.size() - 6] ^= 1;  // within the checksum
  EXPECT_THAT(ReadIdx(Write("flipped.gz", flipped), 1).status(),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
}

TEST_F(Idx, BytesAfterTheElementsAreRefused) {
  const std::string path = Write("long", Header(8, {2}) + Bytes(3, 1));
  EXPECT_THAT(ReadIdx(path, 1).status(),
              HasStatus(absl::StatusCode::kDataLoss, HasSubstr("goes on after the 2 elements")));
}

TEST_F(Idx, AHeaderThatPromisesTooMuchTakesNoMemory) {
  const std::string huge = Write("huge", Header(8, {0xffffffff, 0xffffffff}));
  EXPECT_EQ(ReadIdx(huge, 2).status().code(), absl::StatusCode::kInvalidArgument);
  const std::string lying = Write("lying", Header(8, {0xfffffff0}) + Bytes(10, 1));
  EXPECT_EQ(ReadIdx(lying, 1).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(Idx, ImagesAndLabelsMustMatchInNumber) {
  const std::string images = Write("images", Header(8, {2, 1, 1}) + Bytes({1, 2}));
  const std::string labels = Write("labels", Header(8, {3}) + Bytes({0, 1, 2}));
  EXPECT_THAT(LoadImages(images, labels).status(),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        absl::StrCat(images, " has 2 images, but ", labels, " has 3 labels")));
}

}  // namespace
}  // namespace weir
