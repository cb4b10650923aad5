// SPDX-License-Identifier: Apache-2.0
// Compiled as C++17: a user's program need not be C++20, and the public headers stand for
// themselves.
#include <gtest/gtest.h>

#include "weir/job.h"
#include "weir/job_session.h"
#include "weir/nest.h"
#include "weir/optimizer.h"
#include "weir/options.h"
#include "weir/parameter_client.h"
#include "weir/replica.h"
#include "weir/step_error.h"
#include "weir/variable.h"

static_assert(__cplusplus < 202002L, "compiled as C++17");

#if defined(GOOGLE_PROTOBUF_VERSION) || defined(GRPCPP_GRPCPP_H)
#error "a public header includes protobuf or gRPC"
#endif

namespace weir {
namespace {

TEST(PublicHeaders, ANestIsReadByName) {
  const Nest nest = {{"image", torch::zeros({2, 3})}};
  EXPECT_EQ(nest["image"].size(1), 3);
  EXPECT_THROW(nest["label"], StepError);
}

TEST(PublicHeaders, OptionsAreReadWithTheirType) {
  const Options options({{"depth", "14"}, {"rate", "1e-3"}, {"wide", "true"}, {"sizes", "3,4"}});
  EXPECT_EQ(options.Get<int64_t>("depth", 8), 14);
  EXPECT_EQ(options.Get<int64_t>("width", 16), 16);
  EXPECT_EQ(options.Get<double>("rate", 0), 1e-3);
  EXPECT_TRUE(options.Get<bool>("wide", false));
  EXPECT_EQ(options.Get<std::vector<int64_t>>("sizes", {}), (std::vector<int64_t>{3, 4}));
  EXPECT_THROW(options.Get<bool>("depth", false), StepError);
}

}  // namespace
}  // namespace weir
