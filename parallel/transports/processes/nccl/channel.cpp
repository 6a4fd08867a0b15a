#include "parallel/transports/processes/nccl/channel.h"

#include <utility>

namespace heddle {

void fail_abandoned() {
  fail<ElementsLost>("NCCL was abandoned after an earlier failure");
}

void Channel::join() {
  if (is_abandoned_) fail_abandoned();
  communicator_ = nccl_.join(id_, ranks_, rank_, use_);
  connecting_ = std::make_shared<Operation>();
  connecting_->issue_ = [](NcclCommunicator& ranks) { ranks.connect(); };
  waiting_.push_front(connecting_);
}

std::shared_ptr<Channel::Operation> Channel::enqueue(std::shared_ptr<const Mark> after, Issue issue,
                                                     std::vector<Tensor> memory) {
  if (is_abandoned_) fail_abandoned();
  auto operation = std::make_shared<Operation>();
  operation->after_ = std::move(after);
  operation->issue_ = std::move(issue);
  operation->memory_ = std::move(memory);
  waiting_.push_back(operation);
  return operation;
}

void Channel::progress() {
  if (is_abandoned_) fail_abandoned();
  if (communicator_ == nullptr) return;
  while (communicator_->is_idle()) {
    // Before NCCL is idle the stream does not hold the operation, and a mark there would be reached too early.
    if (issued_) {
      issued_->end_ = communicator_->mark();
      under_way_.push_back(std::move(issued_));
    }
    if (waiting_.empty() || (waiting_.front() != connecting_ && (is_paused_ || !is_open()))) break;
    issued_ = std::move(waiting_.front());
    waiting_.pop_front();
    if (const auto after = std::exchange(issued_->after_, nullptr)) communicator_->wait_for(*after);
    std::exchange(issued_->issue_, nullptr)(*communicator_);
  }
  while (!under_way_.empty() && under_way_.front()->end_->is_reached()) {
    under_way_.front()->is_done_ = true;
    under_way_.front()->end_ = nullptr;
    under_way_.front()->memory_.clear();
    under_way_.pop_front();
  }
}

void Channel::begin_to_close() {
  if (communicator_ != nullptr) communicator_->finalize();
}

bool Channel::is_closed() {
  return communicator_ == nullptr || communicator_->is_idle();
}

void Channel::abandon() noexcept {
  is_abandoned_ = true;
  if (communicator_ == nullptr) return;
  communicator_->abort();
  for (const std::shared_ptr<Operation>& operation : under_way_) operation->end_ = nullptr;
  communicator_ = nullptr;
}

void Channel::release_memory() noexcept {
  // Callers may hold the operations for longer.
  if (issued_) under_way_.push_back(std::move(issued_));
  for (auto* const operations : {&waiting_, &under_way_}) {
    for (const std::shared_ptr<Operation>& operation : *operations) operation->memory_.clear();
    operations->clear();
  }
}

}  // namespace heddle
