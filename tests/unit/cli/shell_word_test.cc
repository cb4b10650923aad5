// SPDX-License-Identifier: Apache-2.0
#include "cli/shell_word.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(ShellWord, WhatAShellReadsAsItIsStaysAsItIs) {
  for (const char* word : {"job.yaml", "runs/mnist-2_a", "host:7070", "/tmp/a,b+c@d%e"}) {
    EXPECT_EQ(ShellWord(word), word);
  }
}

TEST(ShellWord, AnythingElseIsQuotedSoThatItIsOneWord) {
  EXPECT_EQ(ShellWord("my jobs/a.yaml"), "'my jobs/a.yaml'");
  EXPECT_EQ(ShellWord("it's"), R"('it'\''s')");
  EXPECT_EQ(ShellWord("$HOME"), "'$HOME'");
  EXPECT_EQ(ShellWord("~/a"), "'~/a'");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace weir
