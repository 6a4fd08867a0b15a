#include "experiments/program/bench/peer.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/program/bench/peers/script.h"
#include "framework/description/printable.h"
#include "framework/error.h"
#include "notebooks_export/process.h"

namespace heddle {

namespace {

struct Answer {
  std::string torch;
  double seconds = 0;
};

/// The script's answer, the last line that is one; else the last line of its output, the reason.
std::pair<std::optional<Answer>, std::string> ask(const std::string& python, const std::vector<std::string>& work) {
  std::vector<std::string> arguments{"-W", "ignore", "-c", std::string(peer_script("bench/peers/torch_peer.py"))};
  arguments.insert(arguments.end(), work.begin(), work.end());
  const std::optional<Finished> finished = run_program(python, arguments, std::filesystem::current_path());
  if (!finished) return {std::nullopt, "there is no such program"};
  std::string last = fmt::format("it ended with exit code {}", finished->exit_code);
  std::optional<Answer> answer;
  std::size_t begin = 0;
  while (begin < finished->output.size()) {
    const std::size_t end = std::min(finished->output.find('\n', begin), finished->output.size());
    const std::string line = finished->output.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    last = line;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("torch") && json["torch"].is_string() && json.contains("seconds") &&
        json["seconds"].is_number())
      answer = Answer{json["torch"], json["seconds"]};
  }
  if (finished->exit_code != 0) answer.reset();
  return {answer, printable(last)};
}

}  // namespace

Peer::Peer(std::string python) : python_(std::move(python)) {
  const auto [answer, reason] = ask(python_, {"version"});
  if (!answer) fail<InputError>("--peer {}: expected a Python that can import torch: {}", printable(python_), reason);
  version_ = "torch " + answer->torch;
}

std::optional<double> Peer::seconds(const std::vector<std::string>& work,
                                    const std::function<void(const std::string&)>& on_failure) const {
  const auto [place, is_new] = known_.try_emplace(work);
  if (!is_new) return place->second;
  const auto [answer, reason] = ask(python_, work);
  if (answer)
    place->second = answer->seconds;
  else
    on_failure(fmt::format("{} could not do `{}`: {}", version_, fmt::join(work, " "), reason));
  return place->second;
}

}  // namespace heddle
