// SPDX-License-Identifier: Apache-2.0
#include "worker/device_map.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DeviceMap, WithoutAcceleratorsEverythingIsOnTheCpu) {
  for (const char* device : {"auto", "cpu"}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const DeviceMap map, DeviceMap::Create({device, 4, 2, 0}));
    WEIR_ASSERT_OK_AND_ASSIGN(const auto last, map.At(3, 1));
    EXPECT_TRUE(last.cpu);
  }
  WEIR_ASSERT_OK_AND_ASSIGN(const DeviceMap asked, DeviceMap::Create({"cpu", 1, 1, 8}));
  EXPECT_TRUE(asked.on_cpu());
}

TEST(DeviceMap, EachReplicaHasItsLogicalDevicesSideBySideOnAcceleratorsOfItsOwn) {
  for (const char* device : {"auto", "cuda"}) {
    WEIR_ASSERT_OK_AND_ASSIGN(const DeviceMap map, DeviceMap::Create({device, 3, 2, 6}));
    EXPECT_FALSE(map.on_cpu());
    for (uint32_t replica = 0; replica < 3; ++replica) {
      for (uint32_t logical = 0; logical < 2; ++logical) {
        WEIR_ASSERT_OK_AND_ASSIGN(const auto there, map.At(replica, logical));
        EXPECT_FALSE(there.cpu);
        EXPECT_EQ(there.index, static_cast<int>(2 * replica + logical));
      }
    }
  }
}

TEST(DeviceMap, AcceleratorsThatAreNotThereOrTooFewAreRefusedWithTheNumbers) {
  EXPECT_THAT(DeviceMap::Create({"cuda", 1, 1, 0}),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("device: cuda: LibTorch sees no accelerator here"),
                              HasSubstr("use device: cpu"))));
  EXPECT_THAT(DeviceMap::Create({"auto", 2, 2, 3}),
              HasStatus(absl::StatusCode::kInvalidArgument,
                        HasSubstr("2 replicas of 2 logical devices need 4 accelerators, and "
                                  "LibTorch sees 3")));
}

TEST(DeviceMap, ALogicalDeviceThatAReplicaDoesNotHaveIsRefused) {
  WEIR_ASSERT_OK_AND_ASSIGN(const DeviceMap map, DeviceMap::Create({"cpu", 1, 2, 0}));
  EXPECT_THAT(map.At(0, 2), HasStatus(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("logical device 2: a replica of this job has 2")));
}

}  // namespace
}  // namespace weir
