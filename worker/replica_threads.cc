// SPDX-License-Identifier: Apache-2.0
#include "worker/replica_threads.h"

namespace weir {

ReplicaThreads::ReplicaThreads(uint32_t replicas) {
  for (uint32_t i = 1; i < replicas; ++i) threads_.push_back(std::make_unique<Thread>());
}

ReplicaThreads::~ReplicaThreads() = default;

void ReplicaThreads::RunAll(const std::function<void(uint32_t)>& function) {
  for (uint32_t i = 1; i < size(); ++i) threads_[i - 1]->Start([&function, i] { function(i); });
  function(0);
  for (const auto& thread : threads_) thread->Await();
}

void ReplicaThreads::RunInOrder(const std::function<void(uint32_t)>& function) {
  function(0);
  for (uint32_t i = 1; i < size(); ++i) {
    threads_[i - 1]->Start([&function, i] { function(i); });
    threads_[i - 1]->Await();
  }
}

ReplicaThreads::Thread::~Thread() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void ReplicaThreads::Thread::Start(std::function<void()> task) {
  MutexLock lock(mutex_);
  task_ = std::move(task);
  changed_.NotifyAll();
}

void ReplicaThreads::Thread::Await() {
  MutexLock lock(mutex_);
  while (task_) changed_.Wait(mutex_);
}

void ReplicaThreads::Thread::Loop() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (!task_ && !stop_) changed_.Wait(mutex_);
      if (stop_) return;
      task = task_;
    }
    task();
    task = nullptr;
    MutexLock lock(mutex_);
    task_ = nullptr;
    changed_.NotifyAll();
  }
}

}  // namespace weir
