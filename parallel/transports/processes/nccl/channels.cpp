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

std::shared_ptr<Lane> Lanes::open(const LaneName& name, const std::vector<int>& members) {
  if (is_abandoned_) say_abandoned();
  const auto [place, is_new] = lanes_.try_emplace(name);
  if (is_new) {
    const int first = *std::min_element(members.begin(), members.end());
    if (first == office_.rank()) {
      enter(name, nccl_.new_id(), members);
    } else if (name.use == NcclUse::messages) {
      write(Word::wish, name);
      office_.send(first);
    }
  }
  const std::shared_ptr<Lane>& lane = place->second;
  return lane != nullptr && lane->is_open() ? lane : nullptr;
}

void Lanes::enter(const LaneName& name, const NcclId& id, std::vector<int> members) {
  const auto rank = std::find(members.begin(), members.end(), office_.rank()) - members.begin();
  auto lane = std::make_shared<Lane>(nccl_, id, static_cast<int>(members.size()), static_cast<int>(rank), name.use,
                                     stands_still_);
  lanes_[name] = lane;
  line_.push_back({.name = name, .id = id, .members = std::move(members), .lane = std::move(lane)});
}

LetterWriter& Lanes::write(Word word, const LaneName& name) {
  LetterWriter& letter = office_.begin_for_path();
  letter.put(word);
  letter.put(name);
  return letter;
}

void Lanes::told(LetterReader& letter) {
  if (is_abandoned_) return;
  const auto word = letter.get<Word>();
  const auto name = letter.get<LaneName>();
  if (word == Word::wish) return enter(name, nccl_.new_id(), {name.sender, name.receiver});
  if (word == Word::lock) {
    const auto id = letter.get<NcclId>();
    const auto count = letter.get<std::size_t>();
    if (count > static_cast<std::size_t>(office_.size())) fail<StrangeLetter>("a group of {} ranks", count);
    std::vector<int> members(count);
    for (int& member : members) member = letter.get<int>();
    return enter(name, id, std::move(members));
  }
  for (Opening& opening : line_)
    if (opening.name == name) (word == Word::locked ? opening.are_all_locked : opening.is_sender_still) = true;
}

void Lanes::progress() {
  if (line_.empty() || is_abandoned_) return;
  for (const auto& [name, lane] : lanes_)
    if (lane != nullptr) lane->progress();
  Opening& opening = line_.front();
  if (opening.stage == Stage::in_line) lock(opening);
  if (opening.stage == Stage::locked && may_stand_still(opening)) stand_still(opening);
  if (opening.stage == Stage::still && are_all([](const Lane& lane) { return lane.is_still(); })) {
    opening.lane->join();
    opening.stage = Stage::joined;
  }
  if (!opening.lane->is_open()) return;
  stands_still_ = false;
  line_.pop_front();
}

void Lanes::lock(Opening& opening) {
  opening.stage = Stage::locked;
  std::vector<int> ascending = opening.members;
  std::sort(ascending.begin(), ascending.end());
  const auto next = std::upper_bound(ascending.begin(), ascending.end(), office_.rank());
  if (next != ascending.end()) {
    LetterWriter& letter = write(Word::lock, opening.name);
    letter.put(opening.id);
    letter.put(opening.members.size());
    for (const int member : opening.members) letter.put(member);
    return office_.send(*next);
  }
  opening.are_all_locked = true;
  write(Word::locked, opening.name);
  for (const int member : opening.members)
    if (member != office_.rank()) office_.send(member);
}

bool Lanes::may_stand_still(const Opening& opening) const {
  if (!opening.are_all_locked) return false;
  if (opening.name.use == NcclUse::collectives) return true;
  if (opening.name.receiver == office_.rank()) return opening.is_sender_still;
  return are_all([](const Lane& lane) { return lane.is_empty(); });
}

void Lanes::stand_still(Opening& opening) {
  stands_still_ = true;
  opening.stage = Stage::still;
  if (opening.name.use == NcclUse::collectives || opening.name.sender != office_.rank()) return;
  write(Word::still, opening.name);
  office_.send(opening.name.receiver);
}

template <class Is>
bool Lanes::are_all(const Is& is) const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const auto& place) { return place.second == nullptr || is(*place.second); });
}

void Lanes::abandon() noexcept {
  is_abandoned_ = true;
  line_.clear();
  std::vector<std::jthread> threads;
  std::vector<Lane*> left;
  for (const auto& [name, lane] : lanes_) {
    if (lane == nullptr) continue;
    try {
      threads.emplace_back([&lane = *lane] { lane.abandon(); });
    } catch (const std::system_error&) {  // no more threads
      left.push_back(lane.get());
    }
  }
  for (Lane* const lane : left) lane->abandon();
  threads.clear();
  for (const auto& [name, lane] : lanes_)
    if (lane != nullptr) lane->forget();
}

void Lanes::close() {
  if (is_abandoned_) return;
  const auto deadline = std::chrono::steady_clock::now() + closing_time;
  try {
    for (const auto& [name, lane] : lanes_)
      if (lane != nullptr) lane->begin_to_close();
    while (!are_all([](Lane& lane) { return lane.is_closed(); })) {
      if (std::chrono::steady_clock::now() > deadline) return abandon();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  } catch (const ElementsLost&) {
    // All elements have arrived: what NCCL cannot end well it ends at once.
    return abandon();
  }
  lanes_.clear();
}

}  // namespace heddle
