// SPDX-License-Identifier: Apache-2.0
#include "worker/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace weir {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr uint64_t kMaxElements = uint64_t{4} << 30;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;  // reads plain files too

// What zlib found, an early end aside: a broken stream or a wrong checksum.
absl::Status CheckUndamaged(gzFile file, const std::string& path) {
  int code = Z_OK;
  const std::string message = gzerror(file, &code);
  if (code == Z_OK || code == Z_STREAM_END) return absl::OkStatus();
  // zlib puts the path in front of its message.
  return absl::DataLossError(
      absl::StrCat(path, ": damaged: ", absl::StripPrefix(message, path + ": ")));
}

// Reads `size` bytes; DataLoss names `what` where they are not there.
absl::Status ReadExactly(gzFile file, const std::string& path, absl::string_view what,
                         uint8_t* data, uint64_t size) {
  uint64_t done = 0;
  while (done < size) {
    const int got =
        gzread(file, data + done, static_cast<unsigned>(std::min<uint64_t>(size - done, 1 << 30)));
    if (got <= 0) {
      WEIR_RETURN_IF_ERROR(CheckUndamaged(file, path));
      return absl::DataLossError(
          absl::StrCat(path, ": ends within ", what, ": ", done, " of ", size, " bytes are there"));
    }
    done += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<GzipFile> Open(const std::string& path) {
  errno = 0;
  GzipFile file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be opened: ", errno == 0 ? "out of memory" : strerror(errno)));
  }
  gzbuffer(file.get(), 1 << 18);
  return file;
}

absl::StatusOr<std::vector<uint64_t>> ReadHeader(gzFile file, const std::string& path,
                                                 int dimensions) {
  std::array<uint8_t, 4> magic;
  WEIR_RETURN_IF_ERROR(ReadExactly(file, path, "the magic number", magic.data(), magic.size()));
  const auto wrong = [&](absl::string_view field, absl::string_view expected, uint64_t found) {
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   ": not the IDX file that was expected: ", field,
                                                   " must be ", expected, ", found ", found));
  };
  if (magic[0] != 0 || magic[1] != 0) {
    return wrong("the first two bytes", "0", magic[0] * 256u + magic[1]);
  }
  if (magic[2] != kUnsignedByte) return wrong("the type", "8 (unsigned bytes)", magic[2]);
  if (magic[3] != dimensions) {
    return wrong("the number of dimensions", absl::StrCat(dimensions), magic[3]);
  }
  std::vector<uint64_t> shape;
  uint64_t elements = 1;
  for (int i = 0; i < dimensions; ++i) {
    std::array<uint8_t, 4> size;
    WEIR_RETURN_IF_ERROR(ReadExactly(file, path, "the sizes", size.data(), size.size()));
    shape.push_back(uint64_t{size[0]} << 24 | uint64_t{size[1]} << 16 | uint64_t{size[2]} << 8 |
                    size[3]);
    elements = shape.back() == 0 ? 0 : elements * shape.back();
    if (elements > kMaxElements) {
      return wrong(absl::StrCat("the size of dimension ", i), "such that all fit 4 GiB",
                   shape.back());
    }
  }
  return shape;
}

}  // namespace

absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int dimensions) {
  WEIR_ASSIGN_OR_RETURN(GzipFile file, Open(path));
  IdxArray array;
  WEIR_ASSIGN_OR_RETURN(array.shape, ReadHeader(file.get(), path, dimensions));
  uint64_t elements = 1;
  for (const uint64_t size : array.shape) elements *= size;
  // Grows with what is there, so that a lying header cannot take memory.
  constexpr uint64_t kBlock = 1 << 24;
  for (uint64_t done = 0; done < elements;) {
    const uint64_t block = std::min(kBlock, elements - done);
    array.values.resize(done + block);
    WEIR_RETURN_IF_ERROR(
        ReadExactly(file.get(), path, "the elements", array.values.data() + done, block));
    done += block;
  }
  // Also makes zlib check the checksum at the end.
  uint8_t beyond = 0;
  const int more = gzread(file.get(), &beyond, 1);
  if (more > 0) {
    return absl::DataLossError(
        absl::StrCat(path, ": goes on after the ", elements, " elements of its header"));
  }
  WEIR_RETURN_IF_ERROR(CheckUndamaged(file.get(), path));
  return array;
}

absl::StatusOr<std::vector<uint64_t>> ReadIdxShape(const std::string& path, int dimensions) {
  WEIR_ASSIGN_OR_RETURN(GzipFile file, Open(path));
  return ReadHeader(file.get(), path, dimensions);
}

}  // namespace weir
