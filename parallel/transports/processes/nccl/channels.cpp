#include "parallel/transports/processes/nccl/channels.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

namespace {

// How long the ranks, which are all done, may take to close their communicators.
constexpr std::chrono::seconds closing_time{10};

}  // namespace

std::shared_ptr<Channel> Channels::open(const ChannelName& name, const std::vector<int>& members) {
  if (is_abandoned_) fail_abandoned();
  const auto [place, is_new] = channels_.try_emplace(name);
  if (is_new) {
    const int first = *std::min_element(members.begin(), members.end());
    if (first == engine_.rank()) {
      enter(name, nccl_.new_id(), members);
    } else if (name.use == NcclUse::messages) {
      write(MessageKind::request, name);
      engine_.send(first);
    }
  }
  const std::shared_ptr<Channel>& channel = place->second;
  return channel != nullptr && channel->is_open() ? channel : nullptr;
}

void Channels::enter(const ChannelName& name, const NcclId& id, std::vector<int> members) {
  const auto rank = std::find(members.begin(), members.end(), engine_.rank()) - members.begin();
  auto channel = std::make_shared<Channel>(nccl_, id, static_cast<int>(members.size()), static_cast<int>(rank),
                                           name.use, is_paused_);
  channels_[name] = channel;
  queue_.push_back({.name = name, .id = id, .members = std::move(members), .channel = std::move(channel)});
}

MessageWriter& Channels::write(MessageKind kind, const ChannelName& name) {
  MessageWriter& message = engine_.begin_for_path();
  message.put(kind);
  message.put(name);
  return message;
}

void Channels::receive_message(MessageReader& message) {
  if (is_abandoned_) return;
  const auto kind = message.get<MessageKind>();
  const auto name = message.get<ChannelName>();
  if (kind == MessageKind::request) return enter(name, nccl_.new_id(), {name.sender, name.receiver});
  if (kind == MessageKind::lock) {
    const auto id = message.get<NcclId>();
    const auto count = message.get<std::size_t>();
    if (count > static_cast<std::size_t>(engine_.size())) fail<MalformedMessage>("a group of {} ranks", count);
    std::vector<int> members(count);
    for (int& member : members) member = message.get<int>();
    return enter(name, id, std::move(members));
  }
  for (Opening& opening : queue_) {
    if (opening.name != name) continue;
    if (kind == MessageKind::locked)
      opening.are_all_locked = true;
    else
      opening.is_sender_paused = true;
  }
}

void Channels::progress() {
  if (queue_.empty() || is_abandoned_) return;
  for (const auto& [name, channel] : channels_)
    if (channel != nullptr) channel->progress();
  Opening& opening = queue_.front();
  if (opening.stage == Stage::queued) lock(opening);
  if (opening.stage == Stage::locked && may_pause(opening)) pause(opening);
  if (opening.stage == Stage::paused && are_all([](const Channel& channel) { return channel.is_idle(); })) {
    opening.channel->join();
    opening.stage = Stage::joined;
  }
  if (!opening.channel->is_open()) return;
  is_paused_ = false;
  queue_.pop_front();
}

void Channels::lock(Opening& opening) {
  opening.stage = Stage::locked;
  std::vector<int> ascending = opening.members;
  std::sort(ascending.begin(), ascending.end());
  const auto next = std::upper_bound(ascending.begin(), ascending.end(), engine_.rank());
  if (next != ascending.end()) {
    MessageWriter& message = write(MessageKind::lock, opening.name);
    message.put(opening.id);
    message.put(opening.members.size());
    for (const int member : opening.members) message.put(member);
    return engine_.send(*next);
  }
  opening.are_all_locked = true;
  write(MessageKind::locked, opening.name);
  for (const int member : opening.members)
    if (member != engine_.rank()) engine_.send(member);
}

bool Channels::may_pause(const Opening& opening) const {
  if (!opening.are_all_locked) return false;
  if (opening.name.use == NcclUse::collectives) return true;
  if (opening.name.receiver == engine_.rank()) return opening.is_sender_paused;
  return are_all([](const Channel& channel) { return channel.is_empty(); });
}

void Channels::pause(Opening& opening) {
  is_paused_ = true;
  opening.stage = Stage::paused;
  if (opening.name.use == NcclUse::collectives || opening.name.sender != engine_.rank()) return;
  write(MessageKind::paused, opening.name);
  engine_.send(opening.name.receiver);
}

template <class Is>
bool Channels::are_all(const Is& is) const {
  return std::all_of(channels_.begin(), channels_.end(),
                     [&](const auto& place) { return place.second == nullptr || is(*place.second); });
}

void Channels::abandon() noexcept {
  is_abandoned_ = true;
  queue_.clear();
  std::vector<std::jthread> threads;
  std::vector<Channel*> left;
  for (const auto& [name, channel] : channels_) {
    if (channel == nullptr) continue;
    try {
      threads.emplace_back([&channel = *channel] { channel.abandon(); });
    } catch (const std::system_error&) {  // no more threads
      left.push_back(channel.get());
    }
  }
  for (Channel* const channel : left) channel->abandon();
  threads.clear();
  for (const auto& [name, channel] : channels_)
    if (channel != nullptr) channel->release_memory();
}

void Channels::close() {
  if (is_abandoned_) return;
  const auto deadline = std::chrono::steady_clock::now() + closing_time;
  try {
    for (const auto& [name, channel] : channels_)
      if (channel != nullptr) channel->begin_to_close();
    while (!are_all([](Channel& channel) { return channel.is_closed(); })) {
      if (std::chrono::steady_clock::now() > deadline) return abandon();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  } catch (const ElementsLost&) {
    // All elements have arrived: a communicator that cannot be closed is aborted.
    return abandon();
  }
  channels_.clear();
}

}  // namespace heddle
